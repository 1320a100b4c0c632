import { randomBytes, randomInt } from "node:crypto";
import { hostname } from "node:os";
import {
  type CallOptions, type ChannelCredentials, type ClientOptions, type ClientUnaryCall, Metadata, type ServiceError, status as Code,
} from "@grpc/grpc-js";
import { ArianeError, errorOf, ofNameServer, saysThatTopicIsUnknown, UNCONFIRMED_REASONS } from "./errors.js";
import { type MessageQueue, Compression } from "./generated/ariane/common/v1/message.js";
import type { Route } from "./generated/ariane/namesrv/v1/route.js";
import { RouteServiceClient } from "./generated/ariane/namesrv/v1/route_service.js";
import { type CallSettings, Limit, waitable } from "./limit.js";
import { ReplyInbox } from "./requests.js";
import { isAddress, isSource, Sources } from "./sources.js";
import { type Access, type Credentials, type Peer, Security, type Tls } from "./security.js";
import type { Tracing } from "./tracing.js";

export const VERSION = "0.1.0";

/** Hears what nobody else could be told. */
export interface Logger {
  warn(text: string): void;
  error(text: string): void;
}

/** How calls are made. All has defaults. */
export interface ClientSettings {
  /**
   * Secures connections; false: they are plain. Default: as ARIANE_TLS_CA, ARIANE_TLS_CERTIFICATE and
   * ARIANE_TLS_KEY say.
   */
  tls?: Tls | false;
  /** Prove who the client is. Default: the file that ARIANE_CREDENTIALS names. */
  credentials?: Credentials;
  /** Bounds one try of a call. Default 3000. */
  tryTimeoutMs?: number;
  /** Bounds a call with all its repeats, unless the call says otherwise. Default 30000. */
  callTimeoutMs?: number;
  /** Is told to operators who ask who sends: printable, without spaces. Default: none. */
  producerGroup?: string;
  /** Default: `console`. */
  logger?: Logger;
  /** Bounds what one answer may have. Default 64 MiB. */
  maxMessageBytes?: number;
  /**
   * How bodies of 4 KiB and more are compressed that become smaller by it. Default: they are not. Every client
   * decompresses what it receives.
   */
  compression?: Compression;
  /** Makes spans, such as `openTelemetry()` of "@arianemq/client/opentelemetry". Default: none. */
  tracing?: Tracing;
}

export interface Stub {
  close(): void;
}
interface Call {
  cancel(): void;
  once(event: "status", listener: () => void): unknown;
}
export type StubClass<S extends Stub> = new (
  address: string, credentials: ChannelCredentials, options?: Partial<ClientOptions>,
) => S;
/** A call of a stub that has one request and one answer. */
export type Unary<Q, A> = (
  request: Q, metadata: Metadata, options: Partial<CallOptions>,
  callback: (error: ServiceError | null, response: A) => void,
) => ClientUnaryCall;

/** What a name server said, and how long that is believed. */
interface Answer {
  said: unknown;
  until: number;
}

const ANSWER_LIFE_MS = 30_000;
/** How long name servers that did not answer are left alone. */
const ANSWER_REST_MS = 5_000;
const ANSWERS_MAX = 4096;
/** How many brokers a name server lists at a time. */
const BROKERS_PAGE = 1000;

/** One program's view of a cluster. Close it at the end. */
export class Client {
  /** Unique among those that live. */
  readonly id = `${hostname()}@${process.pid}@${randomBytes(8).toString("hex")}`;
  readonly settings: Required<Omit<ClientSettings, "tls" | "credentials" | "tracing">> & Pick<ClientSettings, "tracing">;
  /** Hears replies to the requests of this client. */
  readonly replies = new ReplyInbox(this);
  /** Says who this is, for operators who ask who sends. */
  private readonly userAgent: string;
  private readonly security: Security;
  private readonly stubs = new Map<string, { access: Access; of: Map<unknown, Stub> }>();
  private readonly calls = new Set<Call>();
  /** By topic, then by message group; where the topic itself is stands at "". */
  private readonly known = new Map<string, Map<string, Answer>>();
  private readonly denials = new WeakMap<Route, ArianeError>();
  /** The cluster of each broker, as routes name it. */
  private readonly clusters = new Map<string, string>();
  /** Questions on their way, by topic and message group. */
  private readonly asking = new Map<string, Promise<unknown>>();
  /** Which name server is asked next: another one when it fails. */
  private nameServer: number;
  private readonly sources: Sources;
  private closed = false;

  /**
   * Make a client of the cluster that these name servers know: "host:port", or sources of them that are read again: "dns:host:port",
   * "file:path", a URL. By default ARIANE_NAME_SERVERS.
   */
  constructor(
    nameServers: readonly string[] = process.env["ARIANE_NAME_SERVERS"]?.split(/[,;\s]+/).filter(Boolean) ?? [],
    settings: ClientSettings = {},
  ) {
    if (!Array.isArray(nameServers) || nameServers.length === 0) {
      throw new TypeError(
        "at least one name server is needed, as in [\"127.0.0.1:9876\"]: pass it, or set ARIANE_NAME_SERVERS",
      );
    }
    this.sources = new Sources(nameServers);
    for (const address of nameServers) {
      if (!isSource(address) && !isAddress(address)) {
        throw new TypeError(`name server ${JSON.stringify(address)}: host:port, dns:host:port, file:path or a URL is expected`);
      }
    }
    this.nameServer = randomInt(nameServers.length);
    this.security = new Security(settings.tls, settings.credentials);
    const producerGroup = settings.producerGroup ?? "";
    if (!/^[!-~]*$/.test(producerGroup)) {
      throw new TypeError(`producer group ${JSON.stringify(producerGroup)} is not printable, or has a space`);
    }
    this.userAgent = `ariane-typescript/${VERSION} client/${this.id}`
      + (producerGroup && ` producer-group/${producerGroup}`);
    this.settings = {
      producerGroup,
      tryTimeoutMs: waitable("tryTimeoutMs", settings.tryTimeoutMs ?? 3000),
      callTimeoutMs: waitable("callTimeoutMs", settings.callTimeoutMs ?? 30_000),
      logger: settings.logger ?? console,
      maxMessageBytes: settings.maxMessageBytes ?? 64 << 20,
      compression: settings.compression ?? Compression.COMPRESSION_UNSPECIFIED,
      ...(settings.tracing && { tracing: settings.tracing }),
    };
  }

  /** End all connections, and with them every call in flight. */
  close(): void {
    this.closed = true;
    this.replies.close();
    for (const call of this.calls) call.cancel();
    this.forgetStubs();
  }

  private forgetStubs(): void {
    for (const each of this.stubs.values()) {
      each.access.close();
      for (const stub of each.of.values()) stub.close();
    }
    this.stubs.clear();
  }

  /**
   * A generated stub to a process of the cluster, also for calls that are not wrapped here. With TLS only the
   * process that is named is taken at its address.
   */
  stub<S extends Stub>(kind: StubClass<S>, at: string | Peer): S {
    if (this.closed) {
      throw new ArianeError("the client is closed", Code.FAILED_PRECONDITION, "CLIENT_NOT_RUNNING");
    }
    if (this.security.hasChanged) this.forgetStubs(); // What is under way on them goes on.
    const peer = typeof at === "string" ? { address: at } : at;
    const place = `${peer.address} ${peer.kind ?? ""} ${peer.name ?? ""}`;
    let known = this.stubs.get(place);
    if (!known) {
      const access = this.security.access(peer, {
        "grpc.max_receive_message_length": this.settings.maxMessageBytes,
        "grpc.primary_user_agent": this.userAgent,
        "grpc.keepalive_time_ms": 60_000,
        // Whoever comes back is found at once.
        "grpc.initial_reconnect_backoff_ms": 250,
        "grpc.max_reconnect_backoff_ms": 2000,
        // Repeats are ours: only here it is known which are safe.
        "grpc.enable_retries": 0,
        // A proxy of the environment is for pages of the internet, and cannot reach the cluster.
        "grpc.enable_http_proxy": 0,
      }, (broker) => this.clusters.get(broker));
      this.stubs.set(place, (known = { access, of: new Map() }));
    }
    let stub = known.of.get(kind) as S | undefined;
    if (!stub) {
      stub = new kind(peer.address, known.access.credentials, known.access.options);
      known.of.set(kind, stub);
    }
    return stub;
  }

  /** One try of a call of a stub, which may be held for so long. */
  call<S extends Stub, Q, A>(
    stub: S, method: (stub: S) => Unary<Q, A>, request: Q, address: string, limit: Limit, holdMs = 0,
  ): Promise<A> {
    const deadline = Math.min(Date.now() + holdMs + this.settings.tryTimeoutMs, limit.end);
    return new Promise((resolve, reject) => {
      const call = this.own(method(stub).call(stub, request, new Metadata(), { deadline }, (error, answer) => {
        stop();
        if (error) reject(errorOf(error, address));
        else resolve(answer);
      }));
      const stop = limit.onAbort(() => call.cancel());
    });
  }

  /** Have a call end with the client: gRPC's own `close` lets it go on, and Node.js with it. */
  own<C extends Call>(call: C): C {
    this.calls.add(call);
    call.once("status", () => this.calls.delete(call));
    return call;
  }

  /** When a call that begins now is to be over. */
  limitOf(call?: CallSettings): Limit {
    const limit = new Limit(waitable("timeoutMs", call?.timeoutMs ?? this.settings.callTimeoutMs), call?.signal);
    limit.check();
    return limit;
  }

  /** Where a topic's queues are: at most 30 s old, and asked for anew on routing errors. */
  route(topic: string, limit = this.limitOf()): Promise<Route> {
    return this.askNameServer(topic, "", limit, async (stub, address, once) => {
      try {
        const route = (await this.call(stub, (s) => s.getRoute, { topic }, address, once)).route!;
        for (const each of route.brokers) this.clusters.set(each.brokerName, each.clusterName);
        return route;
      } catch (error) {
        const denial = errorOf(error);
        if (saysThatTopicIsUnknown(denial)) await this.followBrokers(topic, stub, address, once, denial);
        throw error;
      }
    });
  }

  /**
   * Have the known route of a topic lead to the present primaries, which say what became of it: name servers have no
   * route of a topic that was deleted, and a primary that has stopped or stands still names no successor.
   */
  private async followBrokers(
    topic: string, stub: RouteServiceClient, address: string, limit: Limit, denial: ArianeError,
  ): Promise<void> {
    const known = this.known.get(topic)?.get("");
    if (!known) return;
    const route = known.said as Route;
    const present = new Map<string, string>();
    try {
      for (const cluster of new Set(route.brokers.map((each) => each.clusterName))) {
        for (const each of await this.listPrimaries(cluster, stub, address, limit)) present.set(`${cluster}/${each.name}`, each.address);
      }
    } catch {
      // What is known holds.
    }
    // Without a primary nobody is asked for the topic. Others read the known route.
    const followed = { ...route, brokers: route.brokers.map((each) => {
      const now = each.addresses.get(0n) && present.get(`${each.clusterName}/${each.brokerName}`);
      return now ? { ...each, addresses: new Map(each.addresses).set(0n, now) } : each;
    }) };
    if (!denial.retriable) this.denials.set(followed, denial);
    known.said = followed;
  }

  /** What name servers said since of the topic of a route: that there is no such topic. */
  denialOf(route: Route): ArianeError | undefined {
    return this.denials.get(route);
  }

  /** Which queue the messages of a group go to, by the same terms. */
  groupQueue(topic: string, messageGroup: string, limit: Limit): Promise<MessageQueue> {
    return this.askNameServer(topic, messageGroup, limit, async (stub, address, once) =>
      (await this.call(stub, (s) => s.getMessageGroupQueue, { topic, messageGroup }, address, once)).queue!);
  }

  /** Where the primaries of a cluster are, by the same terms. */
  primaries(clusterName: string, limit: Limit): Promise<Peer[]> {
    return this.askNameServer("", clusterName, limit, (stub, address, once) => this.listPrimaries(clusterName, stub, address, once));
  }

  private async listPrimaries(clusterName: string, stub: RouteServiceClient, address: string, limit: Limit): Promise<Peer[]> {
    const found: Peer[] = [];
    for (let pageToken = ""; ;) {
      const request = { clusterName, pageSize: BROKERS_PAGE, pageToken };
      const { brokers, nextPageToken } = await this.call(stub, (s) => s.listBrokers, request, address, limit);
      for (const { identity } of brokers) {
        if (identity!.brokerId === 0n) found.push({ address: identity!.address, kind: "broker", name: identity!.brokerName });
      }
      if (!nextPageToken) return found;
      pageToken = nextPageToken;
    }
  }

  /** Have what is known of topics asked anew. */
  forgetRoute(...topics: readonly string[]): void {
    for (const topic of topics) {
      for (const answer of this.known.get(topic)?.values() ?? []) answer.until = 0;
    }
  }

  /** Where the primary of a broker is that has one of the topics. */
  async brokerAddress(broker: string, topics: readonly string[], limit: Limit): Promise<string> {
    let unknown: unknown;
    for (const topic of topics) {
      try {
        const route = await this.route(topic, limit);
        const address = route.brokers.find((each) => each.brokerName === broker)?.addresses.get(0n);
        if (address) return address;
      } catch (error) {
        unknown ??= error; // Another topic may tell.
      }
    }
    if (unknown !== undefined) throw unknown;
    const text = `no primary of broker ${broker} is known for topic ${topics.join(", ")}`;
    const failure = new ArianeError(text, Code.UNAVAILABLE, "ROUTE_NOT_FOUND");
    failure.retriable = true;
    throw failure;
  }

  /** Make a call that is safe to repeat at the primary of a broker, whoever that is by then. */
  async onPrimary<A>(
    broker: string, topics: readonly string[], limit: Limit, call: (address: string) => Promise<A>,
  ): Promise<A> {
    for (let repeats = 0; ; repeats++) {
      let address = "";
      try {
        address = await this.brokerAddress(broker, topics, limit);
        return await call(address);
      } catch (error) {
        const failure = errorOf(error, address);
        const may = failure.retriable || UNCONFIRMED_REASONS.has(failure.reason);
        if (!may || !(await limit.pause(repeats, failure))) throw failure;
        this.forgetRoute(...topics);
      }
    }
  }

  /**
   * Ask one name server after the other until one answers or the time is over: asking is always safe to
   * repeat. What was known before holds where the next one that is asked does not answer.
   */
  private async askNameServer<A>(
    topic: string, group: string, limit: Limit,
    ask: (stub: RouteServiceClient, address: string, limit: Limit) => Promise<A>,
  ): Promise<A> {
    for (let tries = 0; ; tries++) {
      const known = this.known.get(topic)?.get(group);
      if (known && Date.now() < known.until) return known.said as A;
      const place = this.nameServer;
      let address = "";
      let count = 1;
      try {
        const servers = await limit.first([this.sources.addresses()]);
        count = servers?.length ?? 1;
        address = servers ? servers[place % count]! : "a source of name servers";
        const said = servers && await limit.first([this.askOnce(topic, group, address, ask)]);
        if (said !== undefined) return said;
        const late = new ArianeError(`${address}: no answer in time`, Code.DEADLINE_EXCEEDED, "DEADLINE_PASSED");
        throw Object.assign(late, { retriable: true }); // What was known before holds then.
      } catch (error) {
        const failure = errorOf(error, address).copy(); // It may be that of many.
        failure.outcomeUnknown = false; // To ask changes nothing.
        // A broker that changes its primary may be in no route for a moment: brokers say what is gone.
        const gone = failure.reason === "ROUTE_NOT_FOUND" && known !== undefined;
        if (!failure.retriable && !gone) throw ofNameServer(failure, address);
        if (this.nameServer === place) this.nameServer = place + 1;
        this.sources.doubt();
        if (known) {
          known.until = Date.now() + ANSWER_REST_MS;
          return known.said as A;
        }
        if ((tries + 1) % count === 0 && !(await limit.pause(Math.floor(tries / count), failure))) {
          throw ofNameServer(failure, address);
        }
      }
    }
  }

  /** Ask one name server, once for all that want to know the same at a time. */
  private askOnce<A>(
    topic: string, group: string, address: string,
    ask: (stub: RouteServiceClient, address: string, limit: Limit) => Promise<A>,
  ): Promise<A> {
    const name = `${topic}/${group}`;
    const asking = this.asking.get(name);
    if (asking) return asking as Promise<A>;
    const begun = ask(this.stub(RouteServiceClient, { address, kind: "namesrv" }), address, new Limit(this.settings.tryTimeoutMs))
      .then((said) => {
        this.remember(topic, group, { said, until: Date.now() + ANSWER_LIFE_MS });
        return said;
      })
      .finally(() => this.asking.delete(name));
    this.asking.set(name, begun);
    return begun;
  }

  private remember(topic: string, group: string, answer: Answer): void {
    let of = this.known.get(topic);
    if (!of) this.known.set(topic, (of = new Map()));
    if (of.size >= ANSWERS_MAX) of.clear();
    of.set(group, answer);
  }
}
