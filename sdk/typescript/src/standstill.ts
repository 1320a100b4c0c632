import { counted } from "./errors.js";
import type { Delivery } from "./message.js";

/** A message that a listener has had for so long is told of, and again after twice as long. */
const LONG_MS = 60_000;
export const LOOK_MS = 10_000;

/**
 * Knows what a listener has. Brokers keep it from others for as long as the consumer runs, so nobody else
 * would know of a listener that is stuck.
 */
export class Standstill {
  /** The one begun first comes first. */
  private readonly had = new Map<number, { delivery: Delivery; sinceMs: number }>();
  private begun = 0;
  private told = 0;
  private tellAfterMs = 0;

  constructor(private readonly group: string) {}

  /** Note that the listener has a message; what is returned is called when it has it no longer. */
  begin(delivery: Delivery, nowMs: number): () => void {
    const number = ++this.begun;
    this.had.set(number, { delivery, sinceMs: nowMs });
    return () => this.had.delete(number);
  }

  /** What is to be told of the oldest message; nothing if it is not old. */
  look(nowMs: number): string | undefined {
    const [first] = this.had;
    if (first === undefined) return undefined;
    const [number, { delivery, sinceMs }] = first;
    if (number !== this.told) [this.told, this.tellAfterMs] = [number, LONG_MS];
    const oldMs = nowMs - sinceMs;
    if (oldMs < this.tellAfterMs) return undefined;
    this.tellAfterMs *= 2;
    return `${delivery.topic}@${delivery.brokerName}#${delivery.queueId} of group ${this.group}: no progress for`
      + ` ${Math.floor(oldMs / 1000)} s; the listener has ${counted(this.had.size, "message")}, the oldest is`
      + ` ${delivery.id}`;
  }
}
