import { hostname, userInfo } from "node:os";
import type { Client, Stub, StubClass, Unary } from "./client.js";
import { errorOf, errorOfStatus } from "./errors.js";
import type { BrokerOutcome } from "./generated/ariane/admin/v1/cluster_service.js";
import {
  type ClusterGroup, CreateGroupRequest, GroupServiceClient, ResetGroupOffsetsRequest, UpdateGroupRequest,
} from "./generated/ariane/admin/v1/group_service.js";
import { type GroupLag, LagServiceClient } from "./generated/ariane/admin/v1/lag_service.js";
import type { SilentBroker } from "./generated/ariane/admin/v1/silent_broker.js";
import {
  type ClusterTopic, CreateTopicRequest, TopicServiceClient, UpdateTopicRequest,
} from "./generated/ariane/admin/v1/topic_service.js";
import type { ConsumerGroupChange } from "./generated/ariane/broker/v1/group_service.js";
import type { MessageType } from "./generated/ariane/common/v1/message.js";
import type { CallSettings } from "./limit.js";
import { timestampOf } from "./message.js";
import { isAddress } from "./sources.js";

/** What a topic is made with, or what changes of it. */
export interface TopicSettings {
  /** So many queues on each broker. Default of a new topic: 4. */
  queues?: number;
  /** What kind of messages it takes. Default of a new topic: any. */
  type?: MessageType;
  /** Such as "retention.ms"; an empty value removes one. */
  attributes?: Record<string, string>;
}

/** What a group is made with, or what changes of it. What is not said stays, or is the default. */
export type GroupSettings = Partial<Omit<ConsumerGroupChange, "consumerGroup">>;

/** What was found, and the brokers that did not answer: their part is missing then. */
export interface Found<A> {
  found: A;
  silentBrokers: SilentBroker[];
}

interface Page {
  nextPageToken: string;
  silentBrokers: SilentBroker[];
}

/** What brokers said of their part of a change. */
interface Outcomes {
  outcomes: BrokerOutcome[];
}

const PAGE_SIZE = 1000;
const CLAIMED_USER = "x-ariane-claimed-user";
/** How long admin takes for an answer that needs brokers, which are asked at most so long. */
const ANSWER_MS = 10_000;

/**
 * Topics and groups made, changed and shown, by admin. Nothing is repeated: a change that failed on some brokers throws
 * what one of them said, with an unknown outcome, for the others have made it; asked for again, it does what is missing.
 */
export class Admin {
  /** Ask the admin at an address, "host:port". */
  constructor(private readonly client: Client, private readonly address: string) {
    if (!isAddress(address)) throw new TypeError(`admin ${JSON.stringify(address)}: host:port is expected, as in 127.0.0.1:9881`);
  }

  /** Create a topic on every primary; TOPIC_EXISTS where all have it. */
  async createTopic(topic: string, settings: TopicSettings = {}, call?: CallSettings): Promise<void> {
    const { queues = 0, type, attributes = {} } = settings;
    const made = { topic, readQueueCount: queues, writeQueueCount: queues, messageType: type, attributes };
    const request = CreateTopicRequest.fromPartial({ topic: made });
    await this.change(TopicServiceClient, (s) => s.createTopic, request, call);
  }

  async updateTopic(topic: string, change: TopicSettings, call?: CallSettings): Promise<void> {
    const { queues, type: messageType, attributes = {} } = change;
    const request = UpdateTopicRequest.fromPartial({
      topic, readQueueCount: queues, writeQueueCount: queues, messageType, attributes,
    });
    await this.change(TopicServiceClient, (s) => s.updateTopic, request, call);
  }

  /** Delete a topic with its messages. */
  async deleteTopic(topic: string, call?: CallSettings): Promise<void> {
    await this.change(TopicServiceClient, (s) => s.deleteTopic, { topic, brokerNames: [] }, call);
  }

  async topic(topic: string, call?: CallSettings): Promise<Found<ClusterTopic>> {
    const { topic: found, silentBrokers } = await this.ask(TopicServiceClient, (s) => s.getTopic, { topic }, call);
    return { found: found!, silentBrokers };
  }

  /** The topics whose names begin so, but those of the system. */
  topics(namePrefix = "", call?: CallSettings): Promise<Found<ClusterTopic[]>> {
    const wanted = { clusterName: "", namePrefix, includeSystem: false, pageSize: PAGE_SIZE };
    return pages(
      (pageToken) => this.ask(TopicServiceClient, (s) => s.listTopics, { ...wanted, pageToken }, call),
      (page) => page.topics,
    );
  }

  /** Create a group on every primary; GROUP_EXISTS where all have it. */
  async createGroup(group: string, settings: GroupSettings = {}, call?: CallSettings): Promise<void> {
    const request = CreateGroupRequest.fromPartial({ group: { ...settings, consumerGroup: group } });
    await this.change(GroupServiceClient, (s) => s.createGroup, request, call);
  }

  async updateGroup(group: string, change: GroupSettings, call?: CallSettings): Promise<void> {
    const request = UpdateGroupRequest.fromPartial({ group: { ...change, consumerGroup: group } });
    await this.change(GroupServiceClient, (s) => s.updateGroup, request, call);
  }

  /** Delete a group with its offsets and its dead letters. */
  async deleteGroup(group: string, call?: CallSettings): Promise<void> {
    const request = { consumerGroup: group, keepDeadLetters: false };
    await this.change(GroupServiceClient, (s) => s.deleteGroup, request, call);
  }

  async group(group: string, call?: CallSettings): Promise<Found<ClusterGroup>> {
    const answer = await this.ask(GroupServiceClient, (s) => s.getGroup, { consumerGroup: group }, call);
    return { found: answer.group!, silentBrokers: answer.silentBrokers };
  }

  /** The groups whose names begin so, but those of the system. */
  groups(namePrefix = "", call?: CallSettings): Promise<Found<ClusterGroup[]>> {
    const wanted = { clusterName: "", namePrefix, includeSystem: false, pageSize: PAGE_SIZE };
    return pages(
      (pageToken) => this.ask(GroupServiceClient, (s) => s.listGroups, { ...wanted, pageToken }, call),
      (page) => page.groups,
    );
  }

  /** How far a group is behind in each of its topics, or in one. */
  lags(group: string, topic = "", call?: CallSettings): Promise<Found<GroupLag[]>> {
    const wanted = { consumerGroup: group, topic, messageCountMin: 0n, order: 0, pageSize: PAGE_SIZE };
    return pages(
      (pageToken) => this.ask(LagServiceClient, (s) => s.listGroupLags, { ...wanted, pageToken }, call),
      (page) => page.lags,
    );
  }

  /** Have a group go on at the oldest message of a topic, behind the newest, or at the first one stored since a time. */
  async resetOffsets(group: string, topic: string, to: "earliest" | "latest" | Date, call?: CallSettings): Promise<void> {
    const target = to instanceof Date ? { time: timestampOf(to) } : { earliest: to === "earliest" };
    const request = ResetGroupOffsetsRequest.fromPartial({ consumerGroup: group, topic, ...target });
    await this.change(GroupServiceClient, (s) => s.resetGroupOffsets, request, call);
  }

  /** Ask for what changes nothing. */
  private async ask<S extends Stub, Q, A>(
    kind: StubClass<S>, method: (stub: S) => Unary<Q, A>, request: Q, call?: CallSettings,
  ): Promise<A> {
    try {
      return await this.once(kind, method, request, call);
    } catch (error) {
      throw Object.assign(errorOf(error), { outcomeUnknown: false });
    }
  }

  /** Ask for a change, in the name of the local user: an open cluster notes it in its audit trail. */
  private async change<S extends Stub, Q>(
    kind: StubClass<S>, method: (stub: S) => Unary<Q, Outcomes>, request: Q, call?: CallSettings,
  ): Promise<void> {
    const claiming = (stub: S): Unary<Q, Outcomes> => (asked, metadata, options, answer) => {
      metadata.set(CLAIMED_USER, localUser());
      return method(stub).call(stub, asked, metadata, options, answer);
    };
    const { outcomes } = await this.once(kind, claiming, request, call);
    const failed = outcomes.find((each) => each.error);
    if (failed) throw Object.assign(errorOfStatus(failed.error!, `broker ${failed.brokerName}`), { outcomeUnknown: true });
  }

  private once<S extends Stub, Q, A>(
    kind: StubClass<S>, method: (stub: S) => Unary<Q, A>, request: Q, call?: CallSettings,
  ): Promise<A> {
    const { address } = this;
    const stub = this.client.stub(kind, { address, kind: "admin" });
    return this.client.call(stub, method, request, address, this.client.limitOf(call), ANSWER_MS);
  }
}

function localUser(): string {
  let name = "somebody";
  try {
    name = userInfo().username;
  } catch {
    // This machine has no name for who runs it.
  }
  return `${name}@${hostname()}`.replace(/[^ -~]/g, "?");
}

/** All pages of a list. */
async function pages<P extends Page, A>(ask: (pageToken: string) => Promise<P>, of: (page: P) => A[]): Promise<Found<A[]>> {
  const found: A[] = [];
  const silent = new Map<string, SilentBroker>();
  for (let pageToken = ""; ;) {
    const page = await ask(pageToken);
    found.push(...of(page));
    for (const each of page.silentBrokers) silent.set(each.address, each);
    pageToken = page.nextPageToken;
    if (!pageToken) return { found, silentBrokers: [...silent.values()] };
  }
}
