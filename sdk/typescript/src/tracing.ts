import type { Delivery, Receipt } from "./message.js";

/** What is sent by one call. */
export interface Sending {
  topic: string;
  /** Of each, `properties` may be replaced before it is sent. */
  messages: { readonly body: Uint8Array; properties: Record<string, string> }[];
  clientId: string;
  /** Of a request, or of a reply to one. */
  correlationId?: string | undefined;
}

/** What a listener is given. */
export interface Processing {
  delivery: Delivery;
  group: string;
  clientId: string;
}

/** Traces sends and the work of listeners. `openTelemetry` of "@arianemq/client/opentelemetry" makes one. */
export interface Tracing {
  /** Have `send` send the messages, whose properties take the context along. */
  send(sending: Sending, send: () => Promise<Receipt[]>): Promise<Receipt[]>;
  /** Have a listener work on a message, in the context that sent it. */
  process(processing: Processing, work: () => unknown): unknown;
}
