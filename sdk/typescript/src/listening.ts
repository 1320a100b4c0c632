import type { Logger } from "./client.js";
import type { Consumer } from "./consumer.js";
import { ArianeError, causeOf } from "./errors.js";
import type { Delivery } from "./message.js";
import { LOOK_MS, Standstill } from "./standstill.js";

/** Handles one message: when it resolves, the message is done; when it rejects, it comes again. */
export type Listener = (delivery: Delivery) => unknown;

/** How messages are listened to. */
export interface ListenSettings {
  /** At most so many messages are worked on at a time. Default 1. */
  concurrency?: number;
  /** Ends the listening. */
  signal?: AbortSignal;
}

/** One message in hand, which others do not see. */
class Held {
  private timer: NodeJS.Timeout;
  private renewing: Promise<void> = Promise.resolve();

  constructor(private readonly consumer: Consumer, private delivery: Delivery, private readonly invisibleMs: number) {
    this.timer = setInterval(() => (this.renewing = this.renew()), invisibleMs / 2);
  }

  get message(): Delivery {
    return this.delivery;
  }

  private async renew(): Promise<void> {
    try {
      this.delivery = await this.consumer.changeInvisible(this.delivery, this.invisibleMs);
    } catch {
      // The next time may do; whoever settles it is told that it was too late.
    }
  }

  /** Renew it no more; resolves to what settles it. */
  async end(): Promise<Delivery> {
    clearInterval(this.timer);
    await this.renewing;
    return this.delivery;
  }
}

/** Hand the messages of a consumer to a listener until it is closed, or the signal aborted. */
export async function listenTo(
  consumer: Consumer, settings: ListenSettings & { group: string; invisibleMs: number; logger: Logger }, listener: Listener,
): Promise<void> {
  const { concurrency = 1, group, signal, invisibleMs, logger } = settings;
  if (!Number.isInteger(concurrency) || concurrency < 1) {
    throw new RangeError(`concurrency is ${concurrency}: 1 or more are expected`);
  }
  const working = new Set<Promise<void>>();
  const had = new Standstill(group);

  const handle = async (held: Held): Promise<void> => {
    try {
      let cause: string | undefined;
      const end = had.begin(held.message, performance.now());
      try {
        await listener(held.message);
      } catch (error) {
        cause = causeOf(error);
      } finally {
        end();
      }
      const delivery = await held.end();
      await (cause === undefined ? consumer.ack([delivery]) : consumer.nack([delivery], { cause }));
    } catch (error) {
      logger.warn(`a message is not settled, and comes again: ${String(error)}`);
    }
  };

  const looking = setInterval(() => {
    const text = had.look(performance.now());
    if (text !== undefined) logger.warn(text);
  }, LOOK_MS);
  try {
    for await (const some of consumer.batches(signal && { signal })) {
      const waiting = some.map((each) => new Held(consumer, each, invisibleMs));
      while (waiting.length > 0 && !signal?.aborted && !consumer.isClosed) {
        if (working.size < concurrency) {
          const work = handle(waiting.shift()!).finally(() => working.delete(work));
          working.add(work);
        } else {
          await Promise.race(working); // No more are received than wait for room.
        }
      }
      await Promise.allSettled(waiting.map(async (each) => consumer.changeInvisible(await each.end(), 0)));
    }
  } catch (error) {
    if (!(signal?.aborted && error instanceof ArianeError)) throw error;
  } finally {
    await Promise.all(working);
    clearInterval(looking);
  }
}
