import { randomBytes } from "node:crypto";
import { status as Code } from "@grpc/grpc-js";
import { type Client, VERSION } from "./client.js";
import { formatsLoaded } from "./compression.js";
import { ArianeError, causeOf, errorOfStatus } from "./errors.js";
import {
  AttachRequest, ClientServiceClient, type TransactionCheck, TransactionOutcome,
} from "./generated/ariane/broker/v1/client_service.js";
import { SendMessagesRequest, SendServiceClient } from "./generated/ariane/broker/v1/send_service.js";
import { TransactionServiceClient, UpdateTransactionsRequest } from "./generated/ariane/broker/v1/transaction_service.js";
import { type Message as WireMessage, MessageType } from "./generated/ariane/common/v1/message.js";
import type { CallSettings } from "./limit.js";
import { type Message, messageOf, wireOf } from "./message.js";
import { Producer } from "./producer.js";
import type { Peer } from "./security.js";

/** How a transaction ended; "unknown" lets the cluster ask again later. */
export type Outcome = "commit" | "rollback" | "unknown";

/**
 * Is asked how the transaction of a message ended, when its end never came: the producer died between, or
 * the call was lost. It may be asked in any process of the producer group.
 */
export type Checker = (message: Message) => Outcome | Promise<Outcome>;

const OUTCOMES: Record<Outcome, TransactionOutcome> = {
  unknown: TransactionOutcome.TRANSACTION_OUTCOME_UNKNOWN,
  commit: TransactionOutcome.TRANSACTION_OUTCOME_COMMIT,
  rollback: TransactionOutcome.TRANSACTION_OUTCOME_ROLLBACK,
};
const LOOK_MS = 30_000;
const HEARTBEAT_MS = 10_000;

/** One message without an outcome. */
export class Transaction {
  constructor(
    private readonly producer: TransactionProducer,
    private readonly broker: string,
    private readonly message: WireMessage,
  ) {}

  /** The transaction's id. */
  get id(): string {
    return this.message.uniqueId;
  }

  /** Make the message visible. Again is harmless. */
  commit(call?: CallSettings): Promise<void> {
    return this.producer.end(this.broker, this.message, "commit", call);
  }

  /** Let the message never become visible. Again is harmless. */
  rollback(call?: CallSettings): Promise<void> {
    return this.producer.end(this.broker, this.message, "rollback", call);
  }
}

/** Sends messages that become visible when their transactions commit. Close it at the end. */
export class TransactionProducer {
  private readonly id: string;
  private readonly producer: Producer;
  private readonly topics: Set<string>;
  private readonly attached = new Map<string, { cancel(): void }>();
  private timer: NodeJS.Timeout | undefined;
  private closed = false;

  private constructor(
    private readonly client: Client, private readonly group: string, topics: readonly string[],
    private readonly checker: Checker,
  ) {
    this.topics = new Set(topics);
    this.id = `${client.id}@${randomBytes(4).toString("hex")}`;
    this.producer = new Producer(client);
  }

  /**
   * Make a producer of a group, which the cluster asks by `checker`: the brokers of these topics from the
   * beginning, those of others once a message was sent there.
   */
  static async open(
    client: Client, group: string, topics: readonly string[], checker: Checker,
  ): Promise<TransactionProducer> {
    for (const topic of topics) await client.route(topic);
    const producer = new TransactionProducer(client, group, topics, checker);
    await producer.watch();
    return producer;
  }

  /** End the listening; others of the group are asked from then on. */
  close(): void {
    this.closed = true;
    clearTimeout(this.timer);
    for (const stream of this.attached.values()) stream.cancel();
  }

  /** Store a message that nobody sees until the transaction commits. */
  async begin(message: Message, call?: CallSettings): Promise<Transaction> {
    if (this.closed) throw new ArianeError("the transaction producer is closed", Code.FAILED_PRECONDITION, "CLIENT_NOT_RUNNING");
    if (message.deliverAt) throw new TypeError("the message of a transaction cannot be delayed");
    await formatsLoaded;
    const limit = this.client.limitOf(call);
    const wire = wireOf(message, this.client.settings.compression, MessageType.MESSAGE_TYPE_TRANSACTION);
    const { queueId, broker } = await this.producer.choose(message.topic, message.group ?? "", limit);
    if (!this.topics.has(message.topic)) {
      this.topics.add(message.topic);
      void this.watch();
    }
    const half = SendMessagesRequest.fromPartial({
      topic: message.topic, queueId, halfGroup: this.group, messages: [wire],
    });
    // To repeat is harmless, also when nobody knows what became of it: its id makes it one message.
    await this.client.onPrimary(broker, [message.topic], limit, (address) => {
      const stub = this.client.stub(SendServiceClient, { address, kind: "broker", name: broker });
      return this.client.call(stub, (s) => s.sendMessages, half, address, limit);
    });
    return new Transaction(this, broker, wire);
  }

  /** End a transaction. */
  async end(broker: string, message: WireMessage, outcome: Outcome, call?: CallSettings): Promise<void> {
    const { topic, uniqueId } = message;
    const end = { topic, transactionId: uniqueId, uniqueId, outcome: OUTCOMES[outcome], producerGroup: this.group };
    const request = UpdateTransactionsRequest.fromPartial({ ends: [end] });
    const limit = this.client.limitOf(call);
    await this.client.onPrimary(broker, [topic], limit, async (address) => {
      const stub = this.client.stub(TransactionServiceClient, { address, kind: "broker", name: broker });
      const answer = await this.client.call(stub, (s) => s.updateTransactions, request, address, limit);
      const failed = answer.ends[0]?.error;
      if (failed) throw errorOfStatus(failed, address);
    });
  }

  /** Keep a stream open to every broker of the topics, over which it asks. */
  private async watch(): Promise<void> {
    clearTimeout(this.timer);
    for (const topic of this.topics) {
      try {
        const route = await this.client.route(topic);
        for (const broker of route.brokers) {
          const address = broker.addresses.get(0n);
          if (address && !this.attached.has(address) && !this.closed) this.listen(address, broker.brokerName);
        }
      } catch {
        // The next look may tell.
      }
    }
    if (!this.closed) this.timer = setTimeout(() => void this.watch(), LOOK_MS).unref();
  }

  /** Answer what one broker asks, until the stream ends; then attach anew. */
  private listen(address: string, name: string): void {
    const peer: Peer = { address, kind: "broker", name };
    const stream = this.client.own(this.client.stub(ClientServiceClient, peer).attach());
    this.attached.set(address, stream);
    const hello = {
      clientId: this.id, language: "typescript", sdkVersion: VERSION, producerGroups: [this.group],
    };
    stream.write(AttachRequest.fromPartial({ hello }));
    const beat = () => stream.write(AttachRequest.fromPartial({ heartbeat: {} }));
    const heartbeat = setInterval(beat, HEARTBEAT_MS).unref();
    stream.on("data", (notice) => {
      if (!notice.transactionCheck) return;
      void this.answer(notice.transactionCheck).then((answer) => stream.write(answer));
    });
    const over = () => {
      if (this.attached.get(address) !== stream) return;
      clearInterval(heartbeat);
      this.attached.delete(address);
      for (const topic of this.topics) this.client.forgetRoute(topic); // Another may be the primary.
      if (!this.closed) setTimeout(() => void this.watch(), 500).unref();
    };
    stream.on("error", over);
    stream.on("end", over);
  }

  private async answer(check: TransactionCheck): Promise<AttachRequest> {
    let outcome: Outcome = "unknown";
    let cause = "";
    try {
      if (!check.message) throw new Error("the broker did not say the message");
      await formatsLoaded;
      const said = await this.checker(messageOf(check.message));
      if (!Object.hasOwn(OUTCOMES, said)) throw new TypeError(`the checker said ${causeOf(said)}`);
      outcome = said;
    } catch (error) {
      cause = causeOf(error); // The broker keeps it, and asks again.
    }
    const answer = { transactionId: check.transactionId, outcome: OUTCOMES[outcome], cause };
    return AttachRequest.fromPartial({ transactionAnswer: answer });
  }
}
