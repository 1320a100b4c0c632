import { type ArianeError, errorOf } from "./errors.js";
import { AcknowledgedLevel, type Message as WireMessage } from "./generated/ariane/common/v1/message.js";
import { Limit } from "./limit.js";
import type { Receipt } from "./message.js";

const CALL_COUNT_MAX = 1024;
/** Of bodies: less than what brokers take in a call however they are set. */
const CALL_BYTES_MAX = 2 << 20;
/** So many messages are worth a second call: it costs as much as a hundred of them. */
const SECOND_COUNT_MIN = 128;

/** A single message that waits for the next call, or for its answer. */
interface Single<P> {
  message: WireMessage;
  /** Where it would go if it were alone. */
  place: P;
  limit: Limit;
  /** Whether it waits for a call, shares one in flight, is alone in one, or is given up. */
  state: "waits" | "shared" | "alone" | "over";
  resolve(receipt: Receipt): void;
  reject(error: unknown): void;
}

/**
 * Single sends to one broker, or to one of its queues: those that come while a call is in flight are the next call. A lone
 * one waits for nothing. Many go in two halves, so that the broker works on one while the client makes the other; unless it
 * waits for its disk or a replica with each.
 */
export class Gathering<P extends { queueId: number }> {
  private waiting: Single<P>[] = [];
  private calls = 0;
  /** Messages of those calls. */
  private inFlight = 0;
  /** Those that calls are sent to, which each take one at a time. */
  private readonly queues = new Set<number>();
  private turn = 0;
  private answersLate = false;
  private sendsSoon = false;

  /** Gather for a call that sends messages and resolves to a receipt for each. */
  constructor(private readonly call: (place: P, messages: WireMessage[], limit: Limit) => Promise<Receipt[]>) {}

  /** Send a message, with others where there are some. */
  add(place: P, message: WireMessage, limit: Limit): Promise<Receipt> {
    return new Promise((resolve, reject) => {
      limit.check();
      const single: Single<P> = {
        message,
        place,
        limit,
        state: "waits",
        resolve: (receipt: Receipt) => (stop(), resolve(receipt)),
        reject: (error: unknown) => (stop(), reject(error)),
      };
      const stop = limit.onOver((failure) => this.giveUp(single, failure));
      this.waiting.push(single);
      this.sendSoon();
    });
  }

  /** End the wait of a message. One that is alone in its call ends with that, which knows its outcome better. */
  private giveUp(single: Single<P>, failure: ArianeError): void {
    if (single.state === "alone") return;
    failure.outcomeUnknown = single.state === "shared";
    single.state = "over";
    const place = this.waiting.indexOf(single);
    if (place >= 0) this.waiting.splice(place, 1);
    single.reject(failure);
  }

  /** At the end of this turn: whoever sends again in answer to a call comes along. */
  private sendSoon(): void {
    if (this.sendsSoon) return;
    this.sendsSoon = true;
    setImmediate(() => {
      this.sendsSoon = false;
      for (let count = this.countOfNext(); count > 0; count = this.countOfNext()) void this.send(this.take(count));
    });
  }

  /** How many messages the next call has at most; 0 while there is to be none. */
  private countOfNext(): number {
    const count = this.waiting.length;
    // Messages take turns in queues: two that are for the same have no other.
    const isMany = count >= SECOND_COUNT_MIN && !this.answersLate
      && this.waiting[0]!.place.queueId !== this.waiting[1]!.place.queueId;
    if (this.calls === 0) return isMany && count >= 2 * SECOND_COUNT_MIN ? Math.ceil(count / 2) : count;
    return isMany && this.calls === 1 && count >= this.inFlight / 2 ? count : 0;
  }

  private take(countMax: number): Single<P>[] {
    let bytes = 0;
    const count = this.waiting.findIndex(({ message }, number) => {
      bytes += message.body.length;
      return number > 0 && (number === countMax || number === CALL_COUNT_MAX || bytes > CALL_BYTES_MAX);
    });
    return this.waiting.splice(0, count < 0 ? this.waiting.length : count);
  }

  private async send(singles: Single<P>[]): Promise<void> {
    const next = () => singles[this.turn++ % singles.length]!.place;
    let place = next();
    if (this.queues.has(place.queueId)) place = next();
    this.calls += 1;
    this.inFlight += singles.length;
    this.queues.add(place.queueId);
    await this.settle(singles, place);
    this.calls -= 1;
    this.inFlight -= singles.length;
    this.queues.delete(place.queueId);
    this.sendSoon();
  }

  private async settle(singles: Single<P>[], place: P): Promise<void> {
    const alone = singles.length === 1;
    // The call lasts as long as somebody waits for it; each ends its own wait before.
    const limit = alone ? singles[0]!.limit : new Limit(Math.max(...singles.map((each) => each.limit.leftMs)));
    for (const each of singles) each.state = alone ? "alone" : "shared";
    try {
      const receipts = await this.call(place, singles.map((each) => each.message), limit);
      this.answersLate = receipts[0]!.level > AcknowledgedLevel.ACKNOWLEDGED_LEVEL_MEMORY;
      singles.forEach((each, number) => each.resolve(receipts[number]!));
    } catch (error) {
      const failure = errorOf(error);
      if (alone || failure.outcomeUnknown || failure.mayPass) {
        for (const each of singles) each.reject(failure.copy());
        return;
      }
      // One of them may be refused and not the others.
      const left = singles.filter((each) => each.state !== "over");
      for (const each of left) each.state = "waits";
      for (const each of left) if (each.state === "waits") await this.settle([each], each.place);
    }
  }
}
