import { status as Code, type Metadata, type ServiceError } from "@grpc/grpc-js";
import { protoMetadata } from "./generated/ariane/common/v1/error_reason.js";
import { ErrorInfo, RetryInfo } from "./generated/google/rpc/error_details.js";
import { Status } from "./generated/google/rpc/status.js";

const DOMAIN = "ariane.mq";
const DETAILS = "grpc-status-details-bin";

// What the contract says of each reason.
const REASONS = protoMetadata.options?.enums?.["ErrorReason"]?.values;

function says(reason: string, option: "retriable" | "outcome_unknown" | "routing"): boolean {
  const options = REASONS?.[`ERROR_REASON_${reason}`];
  // Only a later version knows the reason otherwise, or there is none.
  return options ? options[option] === true : reason !== "" && option === "outcome_unknown";
}

export const UNCONFIRMED_REASONS: ReadonlySet<string> = new Set([
  "FLUSH_UNCONFIRMED", "REPLICATION_UNCONFIRMED",
]);

// A topic without a route exists: name servers know the order of its queues, or remember a broker that had it and is away.
const EXISTS = ["queue_order", "away_brokers"];
// It may: they have just started.
const MAY_COME_BACK = ["warming_up", ...EXISTS];

const RETRIABLE_CODES = new Set([
  Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.CANCELLED, Code.INTERNAL, Code.ABORTED,
]);
const UNKNOWN_CODES = new Set([
  ...RETRIABLE_CODES, Code.UNKNOWN, Code.DATA_LOSS, Code.RESOURCE_EXHAUSTED,
]);

/** What a process of the cluster, or gRPC on the way to it, said of a call. */
export class ArianeError extends Error {
  override readonly name = "ArianeError";
  /** Whether the same may succeed later, or elsewhere. */
  retriable = false;
  /** Whether what was asked for may have happened. */
  outcomeUnknown = false;
  /** How long the process asks to wait before. */
  retryAfterMs = 0;
  /** Every number and name that the message speaks of. */
  metadata: Record<string, string> = {};

  constructor(
    message: string,
    /** gRPC's. */
    readonly code: Code,
    /** The contract's, without its prefix; empty where gRPC itself failed, but for a time that was over. */
    readonly reason = "",
    options?: ErrorOptions,
  ) {
    super(`${message} [${reason || Code[code]}]`, options);
  }

  /** Whether the route that led here may be out of date, or another broker serve what this one refuses. */
  get routing(): boolean {
    return says(this.reason, "routing");
  }

  /** Whether the same may pass later, or where the next route leads. */
  get mayPass(): boolean {
    return this.retriable || this.routing;
  }

  /** The same for somebody else: whoever gets an error may add to it. */
  copy(): ArianeError {
    const copy = new ArianeError("", this.code, this.reason, { cause: this.cause });
    const { message, retriable, outcomeUnknown, retryAfterMs, metadata } = this;
    return Object.assign(copy, { message, retriable, outcomeUnknown, retryAfterMs, metadata: { ...metadata } });
  }
}

/** The error that a call ended with. */
export function errorOf(error: unknown, peer = ""): ArianeError {
  if (error instanceof ArianeError) {
    return error;
  }
  const said = error as Partial<ServiceError>;
  if (typeof said?.code !== "number") {
    return new ArianeError(String(error), Code.UNKNOWN, "", { cause: error });
  }
  const packed = (said.metadata as Metadata | undefined)?.get(DETAILS)[0];
  if (packed instanceof Uint8Array) {
    return errorOfStatus(Status.decode(packed), peer);
  }
  return errorOfStatus({ code: said.code, message: said.details ?? "", details: [] }, peer);
}

/** The error that a status inside an answer stands for. */
export function errorOfStatus(said: Status, peer: string): ArianeError {
  let info: ErrorInfo | undefined;
  let retryAfterMs = 0;
  for (const detail of said.details) {
    if (detail.typeUrl.endsWith("/google.rpc.ErrorInfo")) {
      const found = ErrorInfo.decode(detail.value);
      info = found.domain === DOMAIN ? found : info;
    } else if (detail.typeUrl.endsWith("/google.rpc.RetryInfo")) {
      const delay = RetryInfo.decode(detail.value).retryDelay;
      retryAfterMs = delay ? Number(delay.seconds) * 1000 + delay.nanos / 1e6 : 0;
    }
  }
  const late = said.code === Code.DEADLINE_EXCEEDED ? "DEADLINE_PASSED" : "";
  const known = new ArianeError(`${peer && `${peer}: `}${said.message}`, said.code as Code, info?.reason ?? late);
  known.retryAfterMs = retryAfterMs;
  if (info) {
    known.metadata = info.metadata;
    known.retriable = says(info.reason, "retriable") || MAY_COME_BACK.some((why) => why in info.metadata);
    known.outcomeUnknown = says(info.reason, "outcome_unknown");
  } else {
    // What gRPC says itself leaves open whether the call had its effect.
    known.retriable = RETRIABLE_CODES.has(known.code);
    known.outcomeUnknown = UNKNOWN_CODES.has(known.code);
  }
  return known;
}

/** Whether name servers have no route of a topic, and nothing to say that it exists. */
export function saysThatTopicIsUnknown({ reason, metadata }: ArianeError): boolean {
  return reason === "ROUTE_NOT_FOUND" && !EXISTS.some((why) => why in metadata);
}

/** What is wrong where nobody could be asked for routes. */
export function ofNameServer(failure: ArianeError, address: string): ArianeError {
  const { code, cause, message } = failure;
  if (code === Code.UNIMPLEMENTED) {
    const text = `${address} answers, and is no name server: is it the address of a broker?`;
    return new ArianeError(text, code, "NOT_NAME_SERVER", { cause });
  }
  if (code !== Code.UNAVAILABLE || failure.reason) return failure;
  const text = `no name server answered: ${message.replace(" [UNAVAILABLE]", "")}`;
  return Object.assign(new ArianeError(text, code, "NAME_SERVERS_UNREACHABLE", { cause }), { retriable: true });
}

/** A count with its thing: "1 message", "12 messages". */
export function counted(count: number, thing: string): string {
  return `${count} ${thing}${count === 1 ? "" : "s"}`;
}

const CAUSE_LENGTH = 1024;

/** The beginning of the text of what an application threw, which may be anything. */
export function causeOf(error: unknown): string {
  try {
    return String(error).slice(0, CAUSE_LENGTH);
  } catch {
    return "an error without a text";
  }
}
