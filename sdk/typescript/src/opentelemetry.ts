import {
  type Attributes, context, type Context, defaultTextMapGetter, defaultTextMapSetter, type Link, ROOT_CONTEXT, type Span,
  SpanKind, SpanStatusCode, trace, TraceFlags, type TracerProvider,
} from "@opentelemetry/api";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import { VERSION } from "./client.js";
import { ArianeError, causeOf } from "./errors.js";
import type { Processing, Sending, Tracing } from "./tracing.js";
import type { Receipt } from "./message.js";

/** The most links of the span of a batch. */
const LINKS_MAX = 16;
const TRACE_PARENT = "traceparent";
/** What clients in every language carry. */
const propagator = new W3CTraceContextPropagator();

/**
 * Spans by OpenTelemetry, named after its conventions for messaging: of each send, and of each call of a listener, in the
 * trace of the send. By default of the provider that the application has registered.
 */
export function openTelemetry(provider: TracerProvider = trace.getTracerProvider()): Tracing {
  const tracer = provider.getTracer("@arianemq/client", VERSION);

  const send = (sending: Sending, work: () => Promise<Receipt[]>): Promise<Receipt[]> => {
    const { topic, messages, clientId, correlationId } = sending;
    const attributes = common("send", topic, clientId);
    if (messages.length > 1) attributes["messaging.batch.message_count"] = messages.length;
    else attributes["messaging.message.body.size"] = messages[0]!.body.length;
    if (correlationId) attributes["messaging.message.conversation_id"] = correlationId;
    const options = { kind: SpanKind.PRODUCER, attributes, links: linksOf(messages) };
    return tracer.startActiveSpan(`send ${topic}`, options, async (span) => {
      const carried: Record<string, string> = {};
      // A batch that is not sampled stays as it is: a context that is not exported is useless to it.
      if (messages.length === 1 || span.spanContext().traceFlags & TraceFlags.SAMPLED) {
        propagator.inject(trace.setSpan(context.active(), span), carried, defaultTextMapSetter);
      }
      for (const each of messages) {
        if (!(TRACE_PARENT in each.properties)) each.properties = { ...each.properties, ...carried };
      }
      return ended(span, async () => {
        const receipts = await work();
        if (receipts.length === 1) span.setAttributes(stored(receipts[0]!));
        return receipts;
      });
    });
  };

  const process = ({ delivery, group, clientId }: Processing, work: () => unknown): Promise<unknown> => {
    const { topic, id, body, brokerName, queueId } = delivery;
    const attributes = {
      ...common("process", topic, clientId), ...idOf(id), ...partitionOf(brokerName, queueId),
      "messaging.consumer.group.name": group, "messaging.message.body.size": body.length,
    };
    const options = { kind: SpanKind.CONSUMER, attributes, links: linksOf([delivery]) };
    return tracer.startActiveSpan(`process ${topic}`, options, contextOf(delivery), (span) => ended(span, async () => work()));
  };

  return { send, process };
}

function common(operation: string, topic: string, clientId: string): Attributes {
  return {
    "messaging.system": "arianemq",
    "messaging.operation.name": operation,
    "messaging.operation.type": operation,
    "messaging.destination.name": topic,
    "messaging.client.id": clientId,
  };
}

function idOf(id: string): Attributes {
  return { "messaging.message.id": id };
}

function partitionOf(brokerName: string, queueId: number): Attributes {
  return { "messaging.destination.partition.id": `${brokerName}#${queueId}` };
}

function stored({ id, brokerName, brokerAddress, queueId }: Receipt): Attributes {
  const colon = brokerAddress.lastIndexOf(":");
  return {
    ...idOf(id), ...partitionOf(brokerName, queueId),
    "server.address": brokerAddress.slice(0, colon), "server.port": Number(brokerAddress.slice(colon + 1)),
  };
}

interface Carrying {
  readonly properties: Record<string, string>;
}

/** The context that sent a message; where it has none, that of now. */
function contextOf({ properties }: Carrying): Context {
  return propagator.extract(TRACE_PARENT in properties ? ROOT_CONTEXT : context.active(), properties, defaultTextMapGetter);
}

function linksOf(messages: readonly Carrying[]): Link[] {
  return messages.slice(0, LINKS_MAX).flatMap((each) => {
    const found = TRACE_PARENT in each.properties && trace.getSpanContext(contextOf(each));
    return found ? [{ context: found }] : [];
  });
}

/** End a span with what becomes of the work. */
async function ended<A>(span: Span, work: () => Promise<A>): Promise<A> {
  try {
    return await work();
  } catch (error) {
    const message = causeOf(error);
    const name = error instanceof Error ? error.name : typeof error;
    span.recordException(error instanceof Error ? error : message);
    span.setAttribute("error.type", (error instanceof ArianeError && error.reason) || name);
    span.setStatus({ code: SpanStatusCode.ERROR, message });
    throw error;
  } finally {
    span.end();
  }
}
