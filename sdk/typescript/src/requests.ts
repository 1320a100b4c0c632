import { randomUUID } from "node:crypto";
import { status as Code } from "@grpc/grpc-js";
import type { Client } from "./client.js";
import { ArianeError, errorOf, errorOfStatus } from "./errors.js";
import { PullMessagesRequest, PullServiceClient, type QueueMessages } from "./generated/ariane/broker/v1/pull_service.js";
import { CreateTopicRequest, TopicServiceClient } from "./generated/ariane/broker/v1/topic_service.js";
import type { Message as WireMessage } from "./generated/ariane/common/v1/message.js";
import { FilterKind } from "./generated/ariane/common/v1/subscription.js";
import { Limit } from "./limit.js";
import { durationOf, messageOf, type Received } from "./message.js";

/** Those who read replies; brokers keep no offsets of it. */
const GROUP = "ARIANE_REPLIES";
// How long a broker holds a call; one that went silent is noticed only after it.
const HOLD_MS = 5_000;
/** A name server that has just started would be asked again for long; to create a topic that is there is harmless. */
const LOOK_MS = 500;

/** Where a queue is read on, and in which epoch of its log that was learnt. */
type Position = Pick<PullMessagesRequest["positions"][number], "queueOffset" | "logEpoch">;

interface Waiter {
  resolve(reply: Received): void;
  reject(error: ArianeError): void;
}

/**
 * Gives each reply to the request of this client that waits for it; others are dropped. From the first request on, a
 * call is held at each broker of the reply topic.
 */
export class ReplyInbox {
  /** By correlation id. */
  private readonly waiting = new Map<string, Waiter>();
  /** By cluster. */
  private readonly openings = new Map<string, Promise<true>>();
  /** Which brokers are read, by topic and name. */
  private readonly reading = new Set<string>();
  private readonly ending = new AbortController();
  /** Why nothing is heard now. */
  private trouble: ArianeError | undefined;

  constructor(private readonly client: Client) {}

  /** End the reading, and the wait of all. */
  close(): void {
    this.ending.abort();
    for (const each of this.waiting.values()) each.reject(closed());
  }

  /** Send a request, and wait for the first reply. */
  async request(request: WireMessage, limit: Limit, send: () => Promise<unknown>): Promise<Received> {
    const { clusterName } = (await this.client.route(request.topic, limit)).brokers[0]!;
    // From the ends of the queues on, before the request is sent: no reply is missed.
    const listening = this.listen(clusterName).catch((error: unknown) => {
      // It may be that of many, and nothing was sent.
      throw Object.assign(errorOf(error).copy(), { outcomeUnknown: false });
    });
    if (!(await limit.first([listening]))) throw this.late("not ready for replies; the request was not sent");
    const correlationId = randomUUID();
    const timeToLive = durationOf(limit.leftMs);
    request.replyAddress = { correlationId, clientId: this.client.id, clusterName, timeToLive, replyTopic: "" };
    const replied = new Promise<Received>((resolve, reject) => this.waiting.set(correlationId, { resolve, reject }));
    replied.catch(() => {}); // Where the client is closed before the send is over, that one says it.
    try {
      await send();
      return await this.reply(replied, limit);
    } finally {
      this.waiting.delete(correlationId);
    }
  }

  /** Wait for the reply to what is stored: whatever happens now, a consumer may have acted on it. */
  private async reply(replied: Promise<Received>, limit: Limit): Promise<Received> {
    try {
      const reply = await limit.first([replied]);
      if (reply) return reply;
      throw this.late("no reply in time");
    } catch (error) {
      throw Object.assign(errorOf(error), { outcomeUnknown: true });
    }
  }

  private late(text: string): ArianeError {
    const late = new ArianeError(text, Code.DEADLINE_EXCEEDED, "REQUEST_TIMEOUT", { cause: this.trouble });
    return Object.assign(late, { retriable: true });
  }

  /** Hear what is sent to the reply topic of a cluster from now on: once for all who wait for that. */
  private listen(clusterName: string): Promise<true> {
    let opening = this.openings.get(clusterName);
    if (!opening) {
      opening = this.open(clusterName).catch((error: unknown) => {
        this.openings.delete(clusterName);
        throw this.ending.signal.aborted ? closed() : error;
      });
      this.openings.set(clusterName, opening);
    }
    return opening;
  }

  private async open(clusterName: string): Promise<true> {
    const limit = new Limit(this.client.settings.callTimeoutMs, this.ending.signal);
    const topic = `${clusterName}_REPLY_TOPIC`;
    for (let created = false, repeats = 0; ; repeats++) {
      try {
        const { brokers } = await this.client.route(topic, new Limit(Math.min(LOOK_MS, limit.leftMs), this.ending.signal));
        const ends = await Promise.all(brokers.map((each) => this.ends(topic, each.brokerName, limit)));
        brokers.forEach((each, number) => this.start(topic, each.brokerName, ends[number]!));
        return true;
      } catch (error) {
        const failure = errorOf(error);
        const isMissing = failure.reason === "ROUTE_NOT_FOUND";
        if (isMissing && !created) await this.create(topic, clusterName, limit);
        else if (!(isMissing || failure.retriable) || !(await limit.pause(repeats, failure))) throw failure;
        created ||= isMissing;
      }
    }
  }

  /** Create the topic on the primaries of a cluster: one of them will do. */
  private async create(topic: string, clusterName: string, limit: Limit): Promise<void> {
    const request = CreateTopicRequest.fromPartial({ topic: { topic, readQueueCount: 1, writeQueueCount: 1 } });
    const primaries = await this.client.primaries(clusterName, limit);
    const created = await Promise.allSettled(primaries.map(async (peer) => {
      try {
        const stub = this.client.stub(TopicServiceClient, peer);
        await this.client.call(stub, (s) => s.createTopic, request, peer.address, limit);
      } catch (error) {
        if (errorOf(error).reason !== "TOPIC_EXISTS") throw error;
      }
    }));
    const [first] = created;
    if (first?.status === "rejected" && created.every((each) => each.status === "rejected")) throw first.reason;
  }

  /** The ends of the queues of a broker. One that is away is read from its beginning: it may have replies then. */
  private async ends(topic: string, name: string, limit: Limit): Promise<Map<number, Position>> {
    try {
      const once = new Limit(Math.min(limit.leftMs, this.client.settings.tryTimeoutMs), this.ending.signal);
      const { queues } = await this.client.onPrimary(name, [topic], once, (address) => {
        const stub = this.client.stub(PullServiceClient, { address, kind: "broker", name });
        return this.client.call(stub, (s) => s.listQueueBounds, { topic }, address, once);
      });
      return new Map(queues.map(({ queueId, maxQueueOffset: queueOffset, logEpoch }) => [queueId, { queueOffset, logEpoch }]));
    } catch (error) {
      if (!errorOf(error).retriable) throw error;
      return new Map();
    }
  }

  private start(topic: string, broker: string, positions: Map<number, Position>): void {
    const name = `${topic}/${broker}`;
    if (this.reading.has(name)) return;
    this.reading.add(name);
    void this.keepReading(topic, broker, positions);
  }

  /** Read one broker until the client is closed. */
  private async keepReading(topic: string, broker: string, positions: Map<number, Position>): Promise<void> {
    const patience = new Limit(Infinity, this.ending.signal);
    for (let failures = 0; !this.ending.signal.aborted;) {
      try {
        // Without a hold, whether a broker is still away is known sooner.
        await this.pull(topic, broker, positions, failures ? 0 : HOLD_MS);
        this.trouble = undefined;
        failures = 0;
      } catch (error) {
        this.trouble = errorOf(error);
        await patience.pause(failures++, this.trouble);
        this.client.forgetRoute(topic);
      }
    }
  }

  private async pull(topic: string, name: string, positions: Map<number, Position>, holdMs: number): Promise<void> {
    const limit = new Limit(holdMs + this.client.settings.tryTimeoutMs, this.ending.signal);
    const address = await this.client.brokerAddress(name, [topic], limit);
    const { brokers } = await this.client.route(topic, limit);
    // All is new that a broker has which takes up the topic later.
    for (const each of brokers) this.start(topic, each.brokerName, new Map());
    const { readQueueCount } = brokers.find((each) => each.brokerName === name)!;
    const request = PullMessagesRequest.fromPartial({
      consumerGroup: GROUP,
      clientId: this.client.id,
      positions: Array.from({ length: readQueueCount }, (_, queueId) => ({ topic, queueId, ...positions.get(queueId) })),
      subscriptions: [{ topic, filter: { kind: FilterKind.FILTER_KIND_TAG, text: this.client.id } }],
      holdDuration: durationOf(holdMs),
    });
    const stub = this.client.stub(PullServiceClient, { address, kind: "broker", name });
    const answer = await this.client.call(stub, (s) => s.pullMessages, request, address, limit, holdMs);
    for (const queue of answer.queues) {
      positions.set(queue.queueId, { queueOffset: nextOf(queue, positions.get(queue.queueId), address), logEpoch: queue.logEpoch });
      for (const each of queue.messages) this.waiting.get(each.replyAddress?.correlationId ?? "")?.resolve(messageOf(each));
    }
  }
}

/** Where to go on. What was cut off or is no longer kept is passed over: who waited for it is late. */
function nextOf(queue: QueueMessages, asked: Position | undefined, address: string): bigint {
  if (!queue.error) return queue.nextQueueOffset;
  const failure = errorOfStatus(queue.error, address);
  if (failure.reason === "QUEUE_CUT") return BigInt(failure.metadata["end"]!);
  if (failure.reason !== "QUEUE_OFFSET_OUT_OF_RANGE") throw failure;
  return (asked?.queueOffset ?? 0n) < queue.minQueueOffset ? queue.minQueueOffset : queue.maxQueueOffset;
}

function closed(): ArianeError {
  return new ArianeError("the client was closed", Code.FAILED_PRECONDITION, "CLIENT_NOT_RUNNING");
}
