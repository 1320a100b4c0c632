import { randomBytes, randomInt } from "node:crypto";
import { status as Code } from "@grpc/grpc-js";
import type { Client } from "./client.js";
import { formatsLoaded } from "./compression.js";
import { ArianeError, counted, errorOf, UNCONFIRMED_REASONS } from "./errors.js";
import { type SendMessagesResponse, SendServiceClient } from "./generated/ariane/broker/v1/send_service.js";
import type { Message as WireMessage } from "./generated/ariane/common/v1/message.js";
import { type Route, TopicPermission } from "./generated/ariane/namesrv/v1/route.js";
import { Gathering } from "./gathering.js";
import type { CallSettings, Limit } from "./limit.js";
import { type Message, type Receipt, type Received, wireOf } from "./message.js";

interface Place {
  topic: string;
  broker: string;
  queueId: number;
  address: string;
}

/** The stream of a producer to one queue: one batch at a time, numbered. */
interface Lane {
  free: Promise<typeof FREE>;
  epoch: number;
  next: bigint;
}

const FREE = {};
const ROUTING_REPEATS = 5;
/** What brokers take in a call however they are set. */
const REQUEST_BYTES_SURE = 4 << 20;
const WRITABLE = new Set([
  TopicPermission.TOPIC_PERMISSION_WRITE, TopicPermission.TOPIC_PERMISSION_READ_WRITE,
]);

/**
 * Sends messages. Each is stored once although sends are repeated: batches carry numbers by which the
 * broker knows them again.
 */
export class Producer {
  private readonly id = (randomBytes(8).readBigUInt64BE() >> 2n) + 1n;
  private readonly lanes = new Map<string, Lane>();
  private readonly places = new WeakMap<Route, Place[]>();
  private readonly gatherings = new Map<string, Gathering<Place>>();
  private turn = randomInt(1 << 16);

  constructor(private readonly client: Client) {}

  /**
   * Send one message; resolves when it is as safe as its broker promises. Messages of a topic, or of its
   * groups, that are sent while another is on its way to the same broker go on together.
   */
  async send(message: Message, call?: CallSettings): Promise<Receipt> {
    await formatsLoaded;
    const limit = this.client.limitOf(call);
    return this.sendOne(wireOf(message, this.client.settings.compression), limit);
  }

  /**
   * Send messages of one topic, and of one group or none, to one queue: in order, and all of them or
   * none.
   */
  async sendBatch(messages: readonly Message[], call?: CallSettings): Promise<Receipt[]> {
    await formatsLoaded;
    const limit = this.client.limitOf(call);
    const { topic, group = "" } = messages[0] ?? { topic: "" };
    if (messages.length === 0) throw new TypeError("a batch needs a message");
    if (messages.some((each) => each.topic !== topic || (each.group ?? "") !== group)) {
      throw new TypeError("messages of a batch share their topic and their group");
    }
    const wire = messages.map((each) => wireOf(each, this.client.settings.compression));
    return this.traced(wire, () =>
      this.repeated(topic, limit, async () => this.inTurn(await this.choose(topic, group, limit), wire, limit)));
  }

  /**
   * Send a message and wait for the reply of a consumer: the first one counts, of whichever group. Without one in time,
   * the error says REQUEST_TIMEOUT; the request may have been acted on then.
   */
  async request(message: Message, call?: CallSettings): Promise<Received> {
    await formatsLoaded;
    const limit = this.client.limitOf(call);
    if (message.deliverAt) throw new TypeError("a request cannot be delayed");
    const wire = wireOf(message, this.client.settings.compression);
    return this.client.replies.request(wire, limit, () => this.sendOne(wire, limit));
  }

  /** Answer a request. */
  async reply(
    request: Received, body: Uint8Array, properties: Record<string, string> = {}, call?: CallSettings,
  ): Promise<Receipt> {
    await formatsLoaded;
    const limit = this.client.limitOf(call);
    const { replyTo } = request;
    if (!replyTo) throw new ArianeError(`message ${request.id} is no request: nobody waits`, Code.INVALID_ARGUMENT, "NO_REQUEST");
    const wire = wireOf({ topic: replyTo.replyTopic, body, properties }, this.client.settings.compression);
    wire.replyAddress = replyTo;
    return this.sendOne(wire, limit);
  }

  private async sendOne(wire: WireMessage, limit: Limit): Promise<Receipt> {
    const { topic, messageGroup: group } = wire;
    const send = () => this.repeated(topic, limit, async () => {
      const place = await this.choose(topic, group, limit);
      return await this.gathering(place, group).add(place, wire, limit);
    });
    return this.client.settings.tracing ? (await this.traced([wire], async () => [await send()]))[0]! : send();
  }

  private traced(messages: WireMessage[], send: () => Promise<Receipt[]>): Promise<Receipt[]> {
    const { settings: { tracing }, id: clientId } = this.client;
    const { topic, replyAddress } = messages[0]!;
    return tracing ? tracing.send({ topic, messages, clientId, correlationId: replyAddress?.correlationId }, send) : send();
  }

  /** Have a send repeated that is surely not stored and may pass. */
  private async repeated<A>(topic: string, limit: Limit, send: () => Promise<A>): Promise<A> {
    for (let repeats = 0; ; repeats++) {
      try {
        return await send();
      } catch (error) {
        const failure = errorOf(error);
        const enough = failure.routing && repeats >= ROUTING_REPEATS;
        // What may be stored goes nowhere else, and what this queue refuses another may take.
        if (failure.outcomeUnknown || !failure.mayPass || enough || !(await limit.pause(repeats, failure))) throw failure;
        this.client.forgetRoute(topic);
      }
    }
  }

  /** Where single messages to a place gather: by broker, and by queue where they have groups. */
  private gathering(place: Place, group: string): Gathering<Place> {
    const name = `${place.topic}/${place.broker}${group ? `/${place.queueId}` : ""}`;
    let found = this.gatherings.get(name);
    if (!found) {
      found = new Gathering((to, messages, limit) => this.inTurn(to, messages, limit));
      this.gatherings.set(name, found);
    }
    return found;
  }

  /** Take back a message with a delivery time; resolves to its id. Again is harmless. */
  async recall(receipt: Receipt, call?: CallSettings): Promise<string> {
    const limit = this.client.limitOf(call);
    const { topic, recallHandle } = receipt;
    const answer = await this.client.onPrimary(receipt.brokerName, [topic], limit, (address) => {
      const stub = this.client.stub(SendServiceClient, { address, kind: "broker", name: receipt.brokerName });
      return this.client.call(stub, (s) => s.recallMessage, { topic, recallHandle }, address, limit);
    });
    return answer.uniqueId;
  }

  /** Pick a queue for messages that are surely not stored yet. */
  async choose(topic: string, group: string, limit: Limit): Promise<Place> {
    const route = await this.client.route(topic, limit);
    let places = this.places.get(route);
    if (!places) this.places.set(route, (places = placesOf(route)));
    const denial = places.length === 0 && this.client.denialOf(route);
    if (denial) {
      this.client.forgetRoute(topic); // Whoever makes it anew is found at once.
      throw denial.copy();
    }
    if (group) {
      const { brokerName: broker, queueId } = await this.client.groupQueue(topic, group, limit);
      return { topic, broker, queueId, address: await this.client.brokerAddress(broker, [topic], limit) };
    }
    if (places.length === 0) {
      const text = `no broker takes messages of topic ${topic} now (ariane topic show ${topic})`;
      throw Object.assign(new ArianeError(text, Code.PERMISSION_DENIED, "TOPIC_NOT_WRITABLE"), { retriable: true });
    }
    return places[this.turn++ % places.length]!;
  }

  /** Send on the lane of a queue when all before it is over. */
  private async inTurn(place: Place, messages: WireMessage[], limit: Limit): Promise<Receipt[]> {
    const name = `${place.topic}/${place.broker}/${place.queueId}`;
    let lane = this.lanes.get(name);
    if (!lane) this.lanes.set(name, (lane = { free: Promise.resolve(FREE), epoch: 0, next: 0n }));
    const before = lane.free;
    let leave = () => {};
    const left = new Promise<void>((resolve) => (leave = resolve));
    // It holds nothing of those before it.
    lane.free = before.then(() => left).then(() => FREE);
    try {
      if (await limit.first([before]) && limit.leftMs > 0) return await this.sendTo(lane, place, messages, limit);
      throw new ArianeError("earlier sends take too long", Code.DEADLINE_EXCEEDED, "DEADLINE_PASSED");
    } finally {
      leave();
    }
  }

  /**
   * Send to one queue, and again to the same one while it is not known what became of it. An error
   * that leaves the outcome known says that nothing is stored.
   */
  private async sendTo(
    lane: Lane, place: Place, messages: WireMessage[], limit: Limit,
  ): Promise<Receipt[]> {
    let address = place.address;
    let since = 0; // When it may have been stored first; 0 while it surely is not.
    for (let repeats = 0; ; repeats++) {
      const began = Date.now();
      try {
        const stub = this.client.stub(SendServiceClient, { address, kind: "broker", name: place.broker });
        const request = {
          topic: place.topic,
          queueId: place.queueId,
          messages,
          sequence: { producerId: this.id, producerEpoch: lane.epoch, firstSequence: lane.next },
          requiredLevel: 0,
          inSyncMin: 0,
          halfGroup: "",
        };
        const answer = await this.client.call(stub, (s) => s.sendMessages, request, address, limit);
        lane.next += BigInt(messages.length);
        return receiptsOf(answer, place.topic, address);
      } catch (error) {
        const failure = errorOf(error, address);
        const size = messages.reduce((sum, each) => sum + each.body.length, 0);
        if (failure.code === Code.RESOURCE_EXHAUSTED && !failure.reason && size > REQUEST_BYTES_SURE) {
          const text = `${counted(messages.length, "message")} in one call: ${size} bytes of bodies are more than the broker `
            + "takes; send fewer, or smaller ones";
          throw new ArianeError(text, Code.INVALID_ARGUMENT, "MESSAGE_TOO_LARGE");
        }
        if (failure.reason === "SEQUENCE_GAP" && (!since || surelyMissing(failure, since))) {
          // The broker has no memory of what came before, and nothing of this is stored.
          restart(lane);
          since = 0;
          if (repeats < ROUTING_REPEATS) continue;
        }
        if (failure.outcomeUnknown) since ||= began;
        if (!since) throw failure;
        failure.outcomeUnknown = true;
        const may = failure.mayPass || UNCONFIRMED_REASONS.has(failure.reason);
        if (!may || !(await limit.pause(repeats, failure))) {
          restart(lane); // The broker refuses from now on what may still be on its way.
          throw failure;
        }
        this.client.forgetRoute(place.topic);
        // Where nobody knows it, it is where it was: it may come back.
        address = await this.client.brokerAddress(place.broker, [place.topic], limit).catch(() => address);
      }
    }
  }
}

/** The queues that take messages. */
function placesOf({ topic, brokers }: Route): Place[] {
  return brokers
    .filter((broker) => WRITABLE.has(broker.permission) && broker.addresses.get(0n))
    .flatMap((broker) => Array.from({ length: broker.writeQueueCount }, (_, queueId) => (
      { topic, broker: broker.brokerName, queueId, address: broker.addresses.get(0n)! })));
}

/** Begin a new stream: a larger epoch, from 0. */
function restart(lane: Lane): void {
  lane.epoch += 1;
  lane.next = 0n;
}

/** Whether a gap shows that no try since then has stored anything. */
function surelyMissing(gap: ArianeError, since: number): boolean {
  // A second is for clocks that do not run alike.
  return Date.now() - since + 1000 < Number(gap.metadata["known_for_ms"] ?? 0);
}

function receiptsOf(answer: SendMessagesResponse, topic: string, brokerAddress: string): Receipt[] {
  return answer.messages.map((sent) => ({
    id: sent.uniqueId,
    topic,
    brokerName: sent.position!.brokerName,
    brokerAddress,
    queueId: sent.position!.queueId,
    offset: sent.position!.queueOffset,
    level: answer.acknowledgedLevel,
    recallHandle: sent.recallHandle,
    duplicate: answer.duplicate,
  }));
}
