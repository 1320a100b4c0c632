import { Metadata, status as Code } from "@grpc/grpc-js";
import type { Client } from "./client.js";
import { formatsLoaded } from "./compression.js";
import { ArianeError, counted, errorOf, errorOfStatus } from "./errors.js";
import {
  type ReceivedMessage, ReceiveOrder, ReceiveServiceClient, type SettledMessage,
} from "./generated/ariane/broker/v1/receive_service.js";
import {
  FilterExpression, FilterKind, type Subscription as WireSubscription,
} from "./generated/ariane/common/v1/subscription.js";
import { type CallSettings, Limit, waitable } from "./limit.js";
import { type Listener, type ListenSettings, listenTo } from "./listening.js";
import { dateOf, type Delivery, deliveryOf, durationOf } from "./message.js";

/** What to receive of a topic. */
export interface Subscription {
  /** What to receive from; messages that are tried again come along. */
  topic: string;
  /** Tags to receive, joined by "||". Default: all. Not with `sql`. */
  tags?: string;
  /** A condition over properties. Default: all. */
  sql?: string;
}

/** Who receives, and what. */
export interface ConsumerSettings extends Subscription {
  /** Shares the messages among its consumers. */
  group: string;
  /** Further topics, each with a filter of its own. */
  more?: readonly Subscription[];
  /** Whether messages of a higher priority are handed out first; those of one receive are in the order of their queue. */
  byPriority?: boolean;
  /** At most so many come at a time. Default 32. */
  maxMessages?: number;
  /** How long others do not see what was received. Default 60000. */
  invisibleMs?: number;
}

/** How messages that failed come back. */
export interface Nack {
  /** How long to wait before. Default: as the group's retry policy says. */
  delayMs?: number;
  /** Whether they become dead letters at once. */
  deadLetter?: boolean;
  /** Why they failed, for people. */
  cause?: string;
}

interface Answer {
  address: string;
  deliveries: Delivery[];
  /** When they came. */
  at: number;
  taken: boolean;
  error?: ArianeError;
}

type Method = "ackMessages" | "nackMessages";

// How long a broker holds a call; one that went silent is noticed only after it.
const HOLD_MAX_MS = 5_000;

/** Receives messages and settles them. Any number may share a group. */
export class Consumer {
  private readonly pending = new Map<string, Promise<Answer>>();
  private readonly calls = new Set<{ cancel(): void }>();
  private readonly order: ReceiveOrder;
  private readonly topics: readonly string[];
  private readonly invisibleMs: number;
  private closed = false;
  private lost = 0;

  constructor(private readonly client: Client, private readonly settings: ConsumerSettings) {
    const wanted = [settings, ...(settings.more ?? [])];
    this.topics = wanted.map((each) => each.topic);
    if (wanted.some(({ tags, sql }) => tags && sql)) throw new TypeError("a consumer filters by tags or by SQL, not by both");
    const twice = this.topics.find((topic, place) => this.topics.indexOf(topic) < place);
    if (twice !== undefined) throw new TypeError(`a consumer subscribes twice to topic ${JSON.stringify(twice)}`);
    const maxMessages = settings.maxMessages ?? 32;
    if (!Number.isInteger(maxMessages)) throw new RangeError(`maxMessages is ${maxMessages}: a whole number is expected`);
    this.invisibleMs = settings.invisibleMs ?? 60_000;
    this.order = ReceiveOrder.fromPartial({
      consumerGroup: settings.group,
      clientId: client.id,
      subscriptions: wanted.map((each) => ({ topic: each.topic, filter: filterOf(each) })),
      messageCountMax: maxMessages,
      byPriority: settings.byPriority ?? false,
      invisibleDuration: durationOf(this.invisibleMs),
    });
  }

  /**
   * End what is being asked, and give back what came and nobody took: others see that at once. What is in
   * hand comes to them once it is visible again. Resolves also when brokers are away.
   */
  async close(): Promise<void> {
    this.closed = true;
    for (const call of this.calls) call.cancel();
    const answers = await Promise.all(this.pending.values());
    const left = answers.flatMap((each) => (each.taken ? [] : each.deliveries));
    for (const each of answers) each.taken = true;
    // What a broker does not hear of comes again by itself.
    const timeoutMs = this.client.settings.tryTimeoutMs;
    await Promise.allSettled(left.map((each) => this.changeInvisible(each, 0, { timeoutMs })));
  }

  /**
   * Wait at most so long for messages; resolves to those of the broker that has some first, and to none
   * when nothing came. Every broker of the topics is asked. Those that have not answered yet go on being
   * asked, and what they find comes with the next call: nothing is lost when the signal ends the wait. An
   * error that is `retriable` says that a broker is away.
   */
  async receive(waitMs: number, call?: Pick<CallSettings, "signal">): Promise<Delivery[]> {
    const limit = new Limit(waitable("waitMs", waitMs), call?.signal);
    const asking = new Limit(Math.max(waitMs, this.client.settings.tryTimeoutMs), call?.signal);
    let failed = false;
    for (let repeats = 0; ; repeats++) {
      if (this.closed) throw new ArianeError("the consumer is closed", Code.FAILED_PRECONDITION, "CLIENT_NOT_RUNNING");
      limit.check();
      // Without a hold, whether a broker is still away is known sooner.
      await this.askAll(failed ? 0 : waitMs, asking);
      const answer = await limit.first(this.pending.values());
      if (!answer) return [];
      if (answer.taken) continue; // By another call.
      answer.taken = true;
      this.pending.delete(answer.address);
      failed = answer.error !== undefined;
      if (answer.error) {
        if (!answer.error.retriable && !answer.error.routing) throw answer.error;
        this.client.forgetRoute(...this.topics);
        if (!(await limit.pause(repeats, answer.error))) throw answer.error;
        continue;
      }
      // Nobody may have called until others see them again.
      if (answer.deliveries.length > 0 && Date.now() - answer.at < this.invisibleMs) return answer.deliveries;
      if (limit.leftMs === 0) return [];
      repeats = 0; // Nothing came; there may be time for another hold.
    }
  }

  /**
   * All that comes, a batch at a time, until the consumer is closed. While a broker is away it waits; an
   * aborted signal throws.
   */
  async *batches(call?: Pick<CallSettings, "signal">): AsyncGenerator<Delivery[], void, void> {
    while (!this.closed) {
      let some: Delivery[] = [];
      try {
        some = await this.receive(HOLD_MAX_MS, call);
      } catch (error) {
        const passes = this.closed || (error instanceof ArianeError && error.retriable);
        if (!passes || call?.signal?.aborted) throw error;
      }
      if (some.length > 0) yield some;
    }
  }

  /**
   * Hand messages to a listener, some at a time, until the consumer is closed or the signal aborted. They stay
   * invisible to others for as long as they wait here or are worked on. Resolves when those that were begun are
   * over; others are given back. While a broker is away it waits.
   */
  listen(listener: Listener, settings: ListenSettings = {}): Promise<void> {
    const { group } = this.settings;
    const { logger, tracing } = this.client.settings;
    const traced: Listener = tracing
      ? (delivery) => tracing.process({ delivery, group, clientId: this.client.id }, () => listener(delivery)) : listener;
    return listenTo(this, { ...settings, group, invisibleMs: this.invisibleMs, logger }, traced);
  }

  get isClosed(): boolean {
    return this.closed;
  }

  /** The same, for `for await`. */
  [Symbol.asyncIterator](): AsyncGenerator<Delivery[], void, void> {
    return this.batches();
  }

  /**
   * Say that messages are done. Of one whose time was over, so that it comes again or has, an
   * error says RECEIPT_HANDLE_EXPIRED; several come as an AggregateError.
   */
  ack(deliveries: readonly Delivery[], call?: CallSettings): Promise<void> {
    return this.settle("ackMessages", deliveries, undefined, call);
  }

  /** Give back messages that failed: they come again, or become dead letters at last. */
  nack(deliveries: readonly Delivery[], how: Nack = {}, call?: CallSettings): Promise<void> {
    return this.settle("nackMessages", deliveries, how, call);
  }

  /** Let others not see a message for so long from now on; resolves to what settles it then. */
  async changeInvisible(delivery: Delivery, ms: number, call?: CallSettings): Promise<Delivery> {
    const limit = this.client.limitOf(call);
    const request = {
      consumerGroup: this.settings.group,
      receiptHandle: delivery.handle,
      invisibleDuration: durationOf(ms),
    };
    const { brokerName: name } = delivery;
    const answer = await this.client.onPrimary(name, this.topics, limit, (address) => {
      const stub = this.client.stub(ReceiveServiceClient, { address, kind: "broker", name });
      return this.client.call(stub, (s) => s.changeInvisibleDuration, request, address, limit);
    });
    return { ...delivery, handle: answer.receiptHandle, invisibleUntil: dateOf(answer.invisibleUntil) };
  }

  /** Ask each broker of the topics that is not being asked already. */
  private async askAll(waitMs: number, limit: Limit): Promise<void> {
    await formatsLoaded;
    // Of a topic that it does not have, a broker would refuse all.
    const orders = new Map<string, { name: string; subscriptions: WireSubscription[] }>();
    for (const subscription of this.order.subscriptions) {
      const route = await this.client.route(subscription.topic, limit);
      for (const { brokerName: name, addresses } of route.brokers) {
        const address = addresses.get(0n);
        if (!address) continue;
        const order = orders.get(address) ?? { name, subscriptions: [] };
        order.subscriptions.push(subscription);
        orders.set(address, order);
      }
    }
    for (const [address, { name, subscriptions }] of orders) {
      if (this.pending.has(address)) continue;
      this.pending.set(address, this.ask(address, name, subscriptions, Math.min(waitMs, HOLD_MAX_MS)));
    }
  }

  /**
   * Ask one broker. A call that holds is never given up early: messages that were on their way would be
   * invisible for nothing.
   */
  private ask(address: string, name: string, subscriptions: WireSubscription[], holdMs: number): Promise<Answer> {
    const deliveries: Delivery[] = [];
    return new Promise<Answer>((resolve) => {
      const stub = this.client.stub(ReceiveServiceClient, { address, kind: "broker", name });
      const order = { ...this.order, subscriptions, holdDuration: durationOf(holdMs) };
      const deadline = Date.now() + holdMs + this.client.settings.tryTimeoutMs;
      const call = this.client.own(stub.receiveMessages({ order }, new Metadata(), { deadline }));
      this.calls.add(call);
      const done = (error?: ArianeError) => {
        this.calls.delete(call);
        // What came before it broke is in our hands.
        const answer = { address, deliveries, at: Date.now(), taken: false };
        resolve(error && deliveries.length === 0 ? { ...answer, error } : answer);
      };
      call.on("data", (answer) => {
        for (const each of answer.messages) {
          this.hear(each);
          deliveries.push(deliveryOf(each));
        }
      });
      call.on("error", (error) => done(errorOf(error, address)));
      call.on("end", () => done());
    }).catch((error: unknown) => ({ address, deliveries, at: Date.now(), taken: false, error: errorOf(error, address) }));
  }

  /**
   * How many messages were passed over because their records are damaged in a broker, as far as this consumer was
   * told: a broker tells one consumer of the group. Each is logged as an error, too.
   */
  get lostMessageCount(): number {
    return this.lost;
  }

  private hear(received: ReceivedMessage): void {
    const { topic, position } = received.message!;
    for (const { firstQueueOffset, messageCount } of received.lost) {
      const count = Number(messageCount);
      this.lost += count;
      this.client.settings.logger.error(
        `${topic}@${position!.brokerName}#${position!.queueId}: ${counted(count, "message")} from queue offset`
        + ` ${firstQueueOffset} on ${count === 1 ? "is" : "are"} lost, damaged in the broker, and passed over`,
      );
    }
  }

  /** Call each broker once, all at a time, for the messages that are its own. To settle again is harmless. */
  private async settle(
    method: Method, deliveries: readonly Delivery[], nack: Nack | undefined, call?: CallSettings,
  ): Promise<void> {
    const limit = this.client.limitOf(call);
    const failures: unknown[] = [];
    await Promise.all(Array.from(groups(deliveries), async ([broker, theirs]) => {
      try {
        for (const { error } of await this.settleOn(broker, method, theirs, nack, limit)) {
          if (error) failures.push(errorOfStatus(error, broker));
        }
      } catch (error) {
        failures.push(error);
      }
    }));
    if (failures.length === 1) throw failures[0];
    if (failures.length > 1) throw new AggregateError(failures, `${failures.length} refusals; messages without one are settled`);
  }

  private async settleOn(
    broker: string, method: Method, deliveries: readonly Delivery[], nack: Nack | undefined, limit: Limit,
  ): Promise<SettledMessage[]> {
    const request = {
      consumerGroup: this.settings.group,
      receiptHandles: deliveries.map((each) => each.handle),
      nack: {
        delay: nack?.delayMs === undefined ? undefined : durationOf(nack.delayMs),
        deadLetter: nack?.deadLetter ?? false,
        cause: nack?.cause ?? "",
      },
    };
    const answer = await this.client.onPrimary(broker, this.topics, limit, (address) => {
      const stub = this.client.stub(ReceiveServiceClient, { address, kind: "broker", name: broker });
      return method === "ackMessages"
        ? this.client.call(stub, (s) => s.ackMessages, request, address, limit)
        : this.client.call(stub, (s) => s.nackMessages, request, address, limit);
    });
    return answer.results;
  }
}

function filterOf({ tags, sql }: Subscription): WireSubscription["filter"] {
  if (sql) return FilterExpression.fromPartial({ kind: FilterKind.FILTER_KIND_SQL92, text: sql });
  if (tags && tags !== "*") return FilterExpression.fromPartial({ kind: FilterKind.FILTER_KIND_TAG, text: tags });
  return undefined;
}

/** Deliveries by broker. */
function groups(deliveries: readonly Delivery[]): Map<string, Delivery[]> {
  const found = new Map<string, Delivery[]>();
  for (const each of deliveries) {
    const theirs = found.get(each.brokerName);
    if (theirs) theirs.push(each);
    else found.set(each.brokerName, [each]);
  }
  return found;
}
