import { ArianeError, errorOf } from "./errors.js";
import type { Message as WireMessage } from "./generated/ariane/common/v1/message.js";
import { Limit } from "./limit.js";

const CALL_COUNT_MAX = 1024;
/** Of bodies: less than what brokers take in a call however they are set. */
const CALL_BYTES_MAX = 2 << 20;

/** A single message that waits for the next call, or for its answer. */
interface Single<P, A> {
  message: WireMessage;
  /** Where it would go if it were alone. */
  place: P;
  limit: Limit;
  resolve(answer: A): void;
  reject(error: unknown): void;
}

/**
 * Single sends to one place: those that come while a call is in flight are the next call. A lone one waits
 * for nothing.
 */
export class Gathering<P, A> {
  private waiting: Single<P, A>[] = [];
  /** Those that share a call in flight. */
  private together: ReadonlySet<Single<P, A>> = new Set();
  private running = false;

  /** Gather for a call that sends messages and resolves to an answer for each. */
  constructor(private readonly call: (place: P, messages: WireMessage[], limit: Limit) => Promise<A[]>) {}

  /** Send a message, with others where there are some; resolves to its answer. */
  add(place: P, message: WireMessage, limit: Limit): Promise<A> {
    return new Promise<A>((resolve, reject) => {
      const single = {
        message,
        place,
        limit,
        resolve: (answer: A) => (stop(), resolve(answer)),
        reject: (error: unknown) => (stop(), reject(error)),
      };
      const stop = limit.onOver((failure) => this.giveUp(single, failure));
      this.waiting.push(single);
      if (!this.running) void this.run();
    });
  }

  /** End the wait of a message. One that is alone in its call ends with that, which knows its outcome better. */
  private giveUp(single: Single<P, A>, failure: ArianeError): void {
    const place = this.waiting.indexOf(single);
    if (place >= 0) this.waiting.splice(place, 1);
    else if (this.together.has(single)) failure.outcomeUnknown = true;
    else return;
    single.reject(failure);
  }

  private async run(): Promise<void> {
    this.running = true;
    // At the end of this turn: whoever sends again in answer to the last call comes along.
    await new Promise(setImmediate);
    while (this.waiting.length > 0) {
      await this.send(this.take());
      await new Promise(setImmediate);
    }
    this.running = false;
  }

  private take(): Single<P, A>[] {
    let bytes = 0;
    const count = this.waiting.findIndex(({ message }, number) => {
      bytes += message.body.length;
      return number > 0 && (bytes > CALL_BYTES_MAX || number === CALL_COUNT_MAX);
    });
    return this.waiting.splice(0, count < 0 ? this.waiting.length : count);
  }

  private async send(singles: Single<P, A>[]): Promise<void> {
    const alone = singles.length === 1;
    // The call lasts as long as somebody waits for it; each ends its own wait before.
    const limit = alone ? singles[0]!.limit : new Limit(Math.max(...singles.map((each) => each.limit.leftMs)));
    this.together = new Set(alone ? [] : singles);
    try {
      const answers = await this.call(singles.at(-1)!.place, singles.map((each) => each.message), limit);
      singles.forEach((each, number) => each.resolve(answers[number]!));
    } catch (error) {
      const failure = errorOf(error);
      if (alone || failure.outcomeUnknown || failure.mayPass) {
        for (const each of singles) each.reject(failure.copy());
        return;
      }
      // One of them may be refused and not the others.
      for (const each of singles) await this.send([each]);
    } finally {
      this.together = new Set();
    }
  }
}
