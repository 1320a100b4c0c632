// Name servers and brokers that say what a test wants.
import { Metadata, Server, ServerCredentials, type ServiceError, status, type UntypedServiceImplementation } from "@grpc/grpc-js";
import {
  ListQueueBoundsResponse, PullMessagesResponse, PullServiceService, type PullServiceServer,
} from "../src/generated/ariane/broker/v1/pull_service.js";
import {
  AckMessagesResponse, ChangeInvisibleDurationResponse, NackMessagesResponse, ReceiveMessagesResponse, ReceiveServiceService,
  type ReceiveServiceServer,
} from "../src/generated/ariane/broker/v1/receive_service.js";
import {
  type SendMessagesRequest, SendMessagesResponse, type SendServiceServer, SendServiceService,
} from "../src/generated/ariane/broker/v1/send_service.js";
import { AcknowledgedLevel, type Message as WireMessage } from "../src/generated/ariane/common/v1/message.js";
import { TopicPermission } from "../src/generated/ariane/namesrv/v1/route.js";
import {
  GetMessageGroupQueueResponse, GetRouteResponse, ListBrokersResponse, type RouteServiceServer, RouteServiceService,
} from "../src/generated/ariane/namesrv/v1/route_service.js";
import { ErrorInfo } from "../src/generated/google/rpc/error_details.js";
import { Status } from "../src/generated/google/rpc/status.js";

export const TOPIC = "orders";
const SENT_MAX = 200;

export function saidOf(reason: string, metadata: Record<string, string> = {}): Status {
  const value = Buffer.from(ErrorInfo.encode({ domain: "ariane.mq", reason, metadata }).finish());
  return { code: status.ABORTED, message: "", details: [{ typeUrl: "type.googleapis.com/google.rpc.ErrorInfo", value }] };
}

/** What a call is refused with, for a reason of the contract. */
export function refusalOf(reason: string, about: Record<string, string> = {}): Partial<ServiceError> {
  const metadata = new Metadata();
  metadata.set("grpc-status-details-bin", Buffer.from(Status.encode(saidOf(reason, about)).finish()));
  return { code: status.ABORTED, metadata };
}

/** A name server, a broker, or both. */
export class Process {
  address = "";
  /** How often something was asked. */
  readonly counts: Record<string, number> = {};
  readonly sent: SendMessagesRequest[] = [];
  queues = 1;
  level = AcknowledgedLevel.ACKNOWLEDGED_LEVEL_MEMORY;
  readonly settled: string[] = [];
  /** Handles of what failed, each with its cause. */
  readonly failed = new Map<string, string>();
  /** Handles of what was shown to others at once. */
  readonly shown: string[] = [];
  /** What a send waits for, once it is stored, before it is acknowledged. */
  acknowledge: () => Promise<unknown> = () => Promise.resolve();
  /** Whether a message is no message for this broker. */
  refuses: (message: WireMessage) => boolean = () => false;
  /** Bodies of what comes with one call, which is UNAVAILABLE where it throws. */
  receive: () => Promise<string[]> = () => new Promise(() => {});
  /** What sends are refused with. */
  refusal: Partial<ServiceError> | undefined;
  /** Whether routes have it as a replica without a primary. */
  isReplica = false;
  /** Brokers that are listed. */
  present: readonly Process[] = [];
  /** What routes are refused with. */
  route: () => Partial<ServiceError> | undefined = () => undefined;
  /** What the bounds of queues wait for; where it throws, they are refused so. */
  bounds: () => Promise<unknown> = () => Promise.resolve();
  private readonly server = new Server();

  private constructor(readonly name: string, private readonly brokers: readonly Process[]) {}

  static async start(name: string, ...brokers: Process[]): Promise<Process> {
    const made = new Process(name, brokers);
    made.server.addService(RouteServiceService, made.routes() as UntypedServiceImplementation);
    made.server.addService(SendServiceService, made.sends() as UntypedServiceImplementation);
    made.server.addService(PullServiceService, made.pulls() as UntypedServiceImplementation);
    made.server.addService(ReceiveServiceService, made.receives() as UntypedServiceImplementation);
    const port = await new Promise<number>((resolve, reject) => {
      made.server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
        error ? reject(error) : resolve(bound));
    });
    made.address = `127.0.0.1:${port}`;
    return made;
  }

  stop(): void {
    this.server.forceShutdown();
  }

  count(what: string): number {
    return (this.counts[what] = (this.counts[what] ?? 0) + 1);
  }

  private routes(): Partial<RouteServiceServer> {
    return {
      getRoute: ({ request: { topic } }, answer) => {
        this.count("route");
        const refusal = this.route();
        if (refusal) {
          answer(refusal);
          return;
        }
        const brokers = this.brokers.map((each) => ({
          brokerName: each.name, addresses: new Map([[each.isReplica ? 1n : 0n, each.address]]), writeQueueCount: each.queues, readQueueCount: each.queues,
          clusterName: "main",
          permission: TopicPermission.TOPIC_PERMISSION_READ_WRITE,
        }));
        answer(null, GetRouteResponse.fromPartial({ route: { topic, brokers } }));
      },
      listBrokers: (_, answer) => {
        const brokers = this.present.map((each) => (
          { identity: { clusterName: "main", brokerName: each.name, address: each.address } }));
        answer(null, ListBrokersResponse.fromPartial({ brokers }));
      },
      getMessageGroupQueue: (_, answer) => {
        this.count("group");
        const { name: brokerName, address } = this.brokers[0]!;
        answer(null, GetMessageGroupQueueResponse.fromPartial({ queue: { topic: TOPIC, brokerName }, address }));
      },
    };
  }

  private sends(): Partial<SendServiceServer> {
    return {
      sendMessages: (call, answer) => {
        if (this.refusal) {
          answer(this.refusal);
          return;
        }
        if (call.request.messages.some((each) => this.refuses(each))) {
          answer({ code: status.INVALID_ARGUMENT, details: "no message" });
          return;
        }
        this.sent.push(call.request);
        // What a test of memory sends is not kept.
        if (this.sent.length > SENT_MAX) this.sent.shift();
        const messages = call.request.messages.map(({ uniqueId }) => ({ uniqueId, position: {} }));
        const said = { messages, acknowledgedLevel: this.level };
        void this.acknowledge().then(() => answer(null, SendMessagesResponse.fromPartial(said)));
      },
    };
  }

  /** One queue of replies. */
  private pulls(): Partial<PullServiceServer> {
    return {
      listQueueBounds: (_, answer) => void this.bounds().then(
        () => answer(null, ListQueueBoundsResponse.fromPartial({ queues: [{ maxQueueOffset: 0n }] })),
        (error: Error) => answer({ code: status.UNKNOWN, details: error.message })),
      pullMessages: ({ request }, answer) => {
        this.count("pull");
        const begin = Number(request.positions[0]!.queueOffset);
        const all = this.sent.filter((each) => each.topic.endsWith("_REPLY_TOPIC")).flatMap((each) => each.messages);
        const queue = { messages: all.slice(begin), nextQueueOffset: BigInt(all.length) };
        setTimeout(() => answer(null, PullMessagesResponse.fromPartial({ queues: [queue] })), queue.messages.length ? 0 : 20);
      },
    };
  }

  private receives(): Partial<ReceiveServiceServer> {
    return {
      receiveMessages: (call) => {
        void this.receive().then((bodies) => {
          const messages = bodies.map((body) => ({
            receiptHandle: body,
            message: { topic: TOPIC, body: Buffer.from(body), position: { brokerName: this.name } },
          }));
          call.write(ReceiveMessagesResponse.fromPartial({ messages }));
          call.end();
        }, (error: Error) => call.emit("error", { code: status.UNAVAILABLE, details: error.message }));
      },
      changeInvisibleDuration: ({ request }, answer) => {
        if (request.invisibleDuration?.seconds === 0n) this.shown.push(request.receiptHandle);
        answer(null, ChangeInvisibleDurationResponse.fromPartial({ receiptHandle: request.receiptHandle }));
      },
      nackMessages: ({ request }, answer) => {
        for (const each of request.receiptHandles) this.failed.set(each, request.nack!.cause);
        answer(null, NackMessagesResponse.fromPartial({ results: request.receiptHandles.map(() => ({})) }));
      },
      ackMessages: (call, answer) => {
        this.settled.push(...call.request.receiptHandles);
        answer(null, AckMessagesResponse.fromPartial({ results: call.request.receiptHandles.map(() => ({})) }));
      },
    };
  }
}
