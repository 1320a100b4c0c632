import { randomBytes, randomInt } from "node:crypto";
import { hostname } from "node:os";
import {
  type CallOptions, type ChannelCredentials, type ClientOptions, type ClientUnaryCall, credentials,
  Metadata, type ServiceError, status as Code,
} from "@grpc/grpc-js";
import type { Packing } from "./compression.js";
import { ArianeError, errorOf, UNCONFIRMED_REASONS } from "./errors.js";
import { Compression } from "./generated/ariane/common/v1/message.js";
import type { Route } from "./generated/ariane/namesrv/v1/route.js";
import { RouteServiceClient } from "./generated/ariane/namesrv/v1/route_service.js";

export const VERSION = "0.1.0";

/** How calls are made. All has defaults that are good for a cluster without TLS. */
export interface ClientSettings extends Partial<Packing> {
  /** What secures connections, and what goes along with each call. Default: they are plain. */
  credentials?: ChannelCredentials;
  /** Bounds one try of a call. Default 3000. */
  tryTimeoutMs?: number;
  /** Bounds a call with all its repeats, unless the call says otherwise. Default 30000. */
  callTimeoutMs?: number;
  /** Bounds what one answer may have. Default 64 MiB. */
  maxMessageBytes?: number;
}

/** What every call takes. */
export interface CallSettings {
  /** Bounds the call with all its repeats. */
  timeoutMs?: number;
}

interface Stub {
  close(): void;
}
type StubClass<S extends Stub> = new (
  address: string, credentials: ChannelCredentials, options?: Partial<ClientOptions>,
) => S;
type Unary<Q, A> = (
  request: Q, metadata: Metadata, options: Partial<CallOptions>,
  callback: (error: ServiceError | null, response: A) => void,
) => ClientUnaryCall;

const ROUTE_LIFE_MS = 30_000;
/** Timers of Node.js count no further. */
const MS_MAX = 2 ** 31 - 1;

/** One program's view of a cluster. Close it at the end. */
export class Client {
  /** Unique among those that live. */
  readonly id = `${hostname()}@${process.pid}@${randomBytes(8).toString("hex")}`;
  readonly settings: Required<ClientSettings>;
  private readonly stubs = new Map<string, Map<unknown, Stub>>();
  private readonly routes = new Map<string, { route: Route; expires: number }>();
  private closed = false;

  /** Make a client of the cluster that these name servers, "host:port", know. */
  constructor(private readonly nameServers: readonly string[], settings: ClientSettings = {}) {
    if (!Array.isArray(nameServers) || nameServers.length === 0) {
      throw new TypeError("name servers are a list of at least one");
    }
    for (const address of nameServers) {
      const port = Number(/^(?:\[[^\]\s]+\]|[^\s:]+):(\d{1,5})$/.exec(address)?.[1]);
      if (!(port >= 1 && port <= 65535)) {
        throw new TypeError(`name server ${JSON.stringify(address)} is no address host:port`);
      }
    }
    this.settings = {
      credentials: settings.credentials ?? credentials.createInsecure(),
      tryTimeoutMs: waitable("tryTimeoutMs", settings.tryTimeoutMs ?? 3000),
      callTimeoutMs: waitable("callTimeoutMs", settings.callTimeoutMs ?? 30_000),
      maxMessageBytes: settings.maxMessageBytes ?? 64 << 20,
      compression: settings.compression ?? Compression.COMPRESSION_UNSPECIFIED,
      compressBytesMin: settings.compressBytesMin ?? 4096,
      compressionLevel: settings.compressionLevel ?? 5,
    };
    const level = this.settings.compressionLevel;
    if (!(level >= 1 && level <= 9)) throw new RangeError(`compression level ${level}: from 1 to 9`);
  }

  /** End all connections, and with them every call in flight. */
  close(): void {
    this.closed = true;
    for (const each of this.stubs.values()) {
      for (const stub of each.values()) stub.close();
    }
    this.stubs.clear();
  }

  /** A generated stub to a process of the cluster, also for calls that are not wrapped here. */
  stub<S extends Stub>(kind: StubClass<S>, address: string): S {
    if (this.closed) {
      throw new ArianeError("the client is closed", Code.FAILED_PRECONDITION);
    }
    let of = this.stubs.get(address);
    if (!of) this.stubs.set(address, (of = new Map()));
    let stub = of.get(kind) as S | undefined;
    if (!stub) {
      stub = new kind(address, this.settings.credentials, {
        "grpc.max_receive_message_length": this.settings.maxMessageBytes,
        "grpc.primary_user_agent": `ariane-typescript/${VERSION}`,
        "grpc.keepalive_time_ms": 60_000,
        // Repeats are ours: only here it is known which are safe.
        "grpc.enable_retries": 0,
      });
      of.set(kind, stub);
    }
    return stub;
  }

  /** One try of a call of a stub. */
  call<S extends Stub, Q, A>(
    stub: S, method: (stub: S) => Unary<Q, A>, request: Q, address: string, end: number,
  ): Promise<A> {
    const deadline = Math.min(Date.now() + this.settings.tryTimeoutMs, end);
    return new Promise((resolve, reject) => {
      method(stub).call(stub, request, new Metadata(), { deadline }, (error, answer) =>
        error ? reject(errorOf(error, address)) : resolve(answer));
    });
  }

  /** When a call that begins now is to be over. */
  endOf(call?: CallSettings): number {
    return Date.now() + waitable("timeoutMs", call?.timeoutMs ?? this.settings.callTimeoutMs);
  }

  /** Repeat what is safe to repeat until it succeeds or the time is over. */
  async repeat<A>(end: number, once: (repeats: number) => Promise<A>): Promise<A> {
    for (let repeats = 0; ; repeats++) {
      try {
        return await once(repeats);
      } catch (error) {
        const failure = errorOf(error);
        if (!failure.retriable || !(await pause(end, repeats, failure.retryAfterMs))) throw failure;
      }
    }
  }

  /** Where a topic's queues are: at most 30 s old, and asked for anew on routing errors. */
  async route(topic: string, end = this.endOf()): Promise<Route> {
    const known = this.routes.get(topic);
    if (known && Date.now() < known.expires) return known.route;
    try {
      const answer = await this.askNameServer(end, (stub, address, until) =>
        this.call(stub, (s) => s.getRoute, { topic }, address, until));
      this.routes.set(topic, { route: answer.route!, expires: Date.now() + ROUTE_LIFE_MS });
      return answer.route!;
    } catch (error) {
      if (known && errorOf(error).retriable) return known.route; // The last one that was good.
      throw error;
    }
  }

  forgetRoute(topic: string): void {
    const known = this.routes.get(topic);
    if (known) known.expires = 0;
  }

  /** Where the primary of a broker is. */
  async brokerAddress(topic: string, broker: string, end: number): Promise<string> {
    const route = await this.route(topic, end);
    const address = route.brokers.find((each) => each.brokerName === broker)?.addresses.get(0n);
    if (address) return address;
    const text = `no primary of broker ${broker} is known for topic ${topic}`;
    const failure = new ArianeError(text, Code.UNAVAILABLE, "ROUTE_NOT_FOUND");
    failure.retriable = true;
    throw failure;
  }

  /** Make a call that is safe to repeat at the primary of a broker, whoever that is by then. */
  onPrimary<A>(
    topic: string, broker: string, end: number, call: (address: string) => Promise<A>,
  ): Promise<A> {
    return this.repeat(end, async () => {
      let address = "";
      try {
        address = await this.brokerAddress(topic, broker, end);
        return await call(address);
      } catch (error) {
        const failure = errorOf(error, address);
        failure.retriable ||= UNCONFIRMED_REASONS.has(failure.reason) || failure.reason === "BROKER_NOT_PRIMARY";
        this.forgetRoute(topic);
        throw failure;
      }
    });
  }

  /** Ask one name server after the other, from a random one on, until one answers. */
  askNameServer<A>(
    end: number, ask: (stub: RouteServiceClient, address: string, end: number) => Promise<A>,
  ): Promise<A> {
    const begin = randomInt(this.nameServers.length);
    return this.repeat(end, async () => {
      let last: unknown;
      for (let place = 0; place < this.nameServers.length; place++) {
        const address = this.nameServers[(begin + place) % this.nameServers.length]!;
        try {
          return await ask(this.stub(RouteServiceClient, address), address, end);
        } catch (error) {
          const failure = errorOf(error, address);
          failure.outcomeUnknown = false; // To ask changes nothing.
          if (!failure.retriable) throw failure;
          last = failure;
        }
      }
      throw last;
    });
  }
}

/** What is given, if one can wait so long: of another the gRPC library makes an error that nobody can catch. */
export function waitable(name: string, ms: number): number {
  if (Number.isFinite(ms) && ms >= 0 && ms <= MS_MAX) return ms;
  throw new RangeError(`${name} is ${ms}: from 0 to ${MS_MAX}`);
}

/** Wait before a repeat, longer each time; false when the time is over before. */
export async function pause(end: number, repeats: number, askedMs: number): Promise<boolean> {
  const most = Math.min(2000, 50 * 2 ** Math.min(repeats, 6));
  const wait = Math.max(askedMs, most / 2 + Math.random() * (most / 2));
  if (Date.now() + wait > end) return false;
  await new Promise((resolve) => setTimeout(resolve, wait));
  return true;
}
