import { randomUUID } from "node:crypto";
import { packed, unpacked } from "./compression.js";
import type { ReceivedMessage } from "./generated/ariane/broker/v1/receive_service.js";
import {
  type AcknowledgedLevel, type Compression, type Message as WireMessage, MessageType, type ReplyAddress,
} from "./generated/ariane/common/v1/message.js";
import type { Duration } from "./generated/google/protobuf/duration.js";
import type { Timestamp } from "./generated/google/protobuf/timestamp.js";

/** What of a message is not said by a producer, or later. */
const UNSET = {
  flag: 0, delayLevel: 0, position: undefined, origin: undefined, replyAddress: undefined, delay: undefined, expireTime: undefined,
};

/** What a producer sends. */
export interface Message {
  topic: string;
  body: Uint8Array;
  /** One coarse label to filter by. */
  tag?: string;
  /** Find the message again. */
  keys?: string[];
  /** Keeps messages in order: those of one group go to one queue. */
  group?: string;
  /** The application's own. */
  properties?: Record<string, string>;
  /** When the message becomes visible. Default: at once. */
  deliverAt?: Date;
  /** Consumers with `byPriority` get messages of a higher one first. Default 0. */
  priority?: number;
  /** Unique for ever; made when it is missing. */
  id?: string;
}

/** Where a message was stored, and how safely. */
export interface Receipt {
  id: string;
  topic: string;
  brokerName: string;
  /** Where the broker was, "host:port". */
  brokerAddress: string;
  queueId: number;
  offset: bigint;
  level: AcknowledgedLevel;
  /** Takes a message with a delivery time back; empty for others. */
  recallHandle: string;
  /** Whether an earlier try of this send had stored it. */
  duplicate: boolean;
}

/** A message as it comes. */
export interface Received extends Required<Omit<Message, "deliverAt">> {
  /** How the body is still compressed: not at all, unless it is damaged. */
  compression: Compression;
  /** Who waits for a reply to it, if somebody does. */
  replyTo: ReplyAddress | undefined;
}

/** A message in a consumer's hands. */
export interface Delivery extends Received {
  brokerName: string;
  queueId: number;
  offset: bigint;
  /** Counts deliveries of the message, this one included: 1 for the first. */
  attempt: number;
  /** When others see the message again, unless it is settled. */
  invisibleUntil: Date;
  /** Settles it. */
  handle: string;
}

/**
 * The message as the contract has it. All that the broker would fill in is filled in here, so that a
 * repeat is the same message to the byte.
 */
export function wireOf(message: Message, packing: Compression, kind?: MessageType): WireMessage {
  if (!(message.body instanceof Uint8Array)) {
    throw new TypeError("the body of a message is bytes, such as Buffer.from(text)");
  }
  if (message.deliverAt && !Number.isFinite(message.deliverAt.getTime())) {
    throw new RangeError("deliverAt is an invalid Date");
  }
  for (const text of textsOf(message)) {
    if (typeof text !== "string" || !text.isWellFormed()) {
      throw new TypeError(`${JSON.stringify(text)} is no text, or no Unicode because a surrogate is alone`);
    }
  }
  const { body, compression } = packed(message.body, packing);
  const plain = message.deliverAt ? MessageType.MESSAGE_TYPE_DELAY
    : message.group ? MessageType.MESSAGE_TYPE_FIFO : MessageType.MESSAGE_TYPE_UNSPECIFIED;
  return {
    topic: message.topic,
    body: body as Buffer,
    compression,
    tag: message.tag ?? "",
    keys: message.keys ? [...message.keys] : [],
    messageGroup: message.group ?? "",
    properties: message.properties ? { ...message.properties } : {},
    priority: message.priority || undefined,
    uniqueId: message.id || randomUUID(),
    createTime: timestampOf(new Date()),
    deliveryTime: kind === undefined && message.deliverAt ? timestampOf(message.deliverAt) : undefined,
    messageType: kind ?? plain,
    ...UNSET,
  };
}

function textsOf(message: Message): string[] {
  const { topic, tag = "", group = "", id = "", keys = [], properties = {} } = message;
  return [topic, tag, group, id, ...keys, ...Object.entries(properties).flat()];
}

export function messageOf(wire: WireMessage): Received {
  return {
    topic: wire.topic,
    ...unpacked(wire.body, wire.compression),
    tag: wire.tag,
    keys: wire.keys,
    group: wire.messageGroup,
    properties: wire.properties,
    priority: wire.priority ?? 0,
    id: wire.uniqueId,
    replyTo: wire.replyAddress,
  };
}

export function deliveryOf(received: ReceivedMessage): Delivery {
  const position = received.message!.position!;
  return {
    ...messageOf(received.message!),
    brokerName: position.brokerName,
    queueId: position.queueId,
    offset: position.queueOffset,
    attempt: position.attempts + 1,
    invisibleUntil: dateOf(received.invisibleUntil),
    handle: received.receiptHandle,
  };
}

export function timestampOf(date: Date): Timestamp {
  const ms = date.getTime();
  const seconds = Math.floor(ms / 1000);
  return { seconds: BigInt(seconds), nanos: (ms - seconds * 1000) * 1e6 };
}

export function dateOf(time: Timestamp | undefined): Date {
  return new Date(time ? Number(time.seconds) * 1000 + time.nanos / 1e6 : 0);
}

export function durationOf(ms: number): Duration {
  if (!Number.isFinite(ms) || ms < 0) throw new RangeError(`${ms} ms is no duration`);
  const seconds = Math.trunc(ms / 1000);
  return { seconds: BigInt(seconds), nanos: Math.round((ms - seconds * 1000) * 1e6) };
}
