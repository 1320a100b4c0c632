import { status as Code } from "@grpc/grpc-js";
import { ArianeError } from "./errors.js";

/** What every call takes. */
export interface CallSettings {
  /** Bounds the call with all its repeats. Default: `callTimeoutMs` of the client. */
  timeoutMs?: number;
  /** Ends the call: it throws an `ArianeError` whose cause is the reason of the signal. */
  signal?: AbortSignal;
}

/** Timers of Node.js count no further. */
const MS_MAX = 2 ** 31 - 1;

/** When a call with all its repeats is to be over. */
export class Limit {
  /** By `Date.now()`. */
  readonly end: number;

  constructor(ms: number, private readonly signal?: AbortSignal) {
    this.end = Date.now() + ms;
  }

  get leftMs(): number {
    return Math.max(0, this.end - Date.now());
  }

  /** Throw if the signal was aborted. */
  check(): void {
    if (this.signal?.aborted) throw this.aborted();
  }

  private aborted(): ArianeError {
    return new ArianeError("the call was aborted", Code.CANCELLED, "", { cause: this.signal!.reason });
  }

  /** Have `end` run when the time is over or the signal is aborted, with which of both; what this returns ends that. */
  onOver(end: (failure: ArianeError) => void): () => void {
    const timer = setTimeout(() => {
      end(new ArianeError("earlier sends take too long", Code.DEADLINE_EXCEEDED, "DEADLINE_PASSED"));
    }, this.leftMs);
    const forget = this.onAbort(() => end(this.aborted()));
    return () => {
      clearTimeout(timer);
      forget();
    };
  }

  /** Have `abort` run when the signal is aborted; what this returns ends that. */
  onAbort(abort: () => void): () => void {
    if (this.signal?.aborted) abort();
    this.signal?.addEventListener("abort", abort);
    return () => this.signal?.removeEventListener("abort", abort);
  }

  /** Wait for the first of some; undefined when the time is over before. */
  async first<A>(some: Iterable<Promise<A>>): Promise<A | undefined> {
    const [over, stop] = this.wait(this.leftMs);
    const found = await Promise.race([...some, over]).finally(stop);
    this.check();
    return found;
  }

  /** Wait before a repeat, longer each time; false when the time is over before, or the signal aborted. */
  async pause(repeats: number, failure: ArianeError): Promise<boolean> {
    const most = Math.min(2000, 50 * 2 ** Math.min(repeats, 6));
    const ms = Math.max(failure.retryAfterMs, most / 2 + Math.random() * (most / 2));
    if (this.leftMs < ms) return false;
    const [over, stop] = this.wait(ms);
    await over.finally(stop);
    if (!this.signal?.aborted) return true;
    failure.cause = this.signal.reason;
    return false;
  }

  /** A wait, which the signal ends, and what lets nothing of it remain. */
  private wait(ms: number): [Promise<undefined>, () => void] {
    let stop = () => {};
    const over = new Promise<undefined>((resolve) => {
      const timer = setTimeout(resolve, ms, undefined);
      const forget = this.onAbort(() => resolve(undefined));
      stop = () => {
        clearTimeout(timer);
        forget();
      };
    });
    return [over, stop];
  }
}

/** What is given, if one can wait so long: of another the gRPC library makes an error that nobody can catch. */
export function waitable(name: string, ms: number): number {
  if (Number.isFinite(ms) && ms >= 0 && ms <= MS_MAX) return ms;
  throw new RangeError(`${name} is ${ms}: 0 to ${MS_MAX} ms are expected`);
}
