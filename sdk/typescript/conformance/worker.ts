// Lets a test play scenarios with this client: commands come as lines of JSON, and each is answered by a
// line. integration/clients/README.md of ArianeMQ has the commands.
import { createInterface } from "node:readline";
import { SpanKind } from "@opentelemetry/api";
import { InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-node";
import {
  Admin, ArianeError, Client, Compression, Consumer, type Delivery, type Message, type Outcome, Producer,
  type Receipt, type Tracing, type Transaction, TransactionProducer,
} from "../src/index.js";
import { openTelemetry } from "../src/opentelemetry.js";

interface WireMessage {
  topic: string;
  body: string;
  tag: string;
  keys: string[];
  group: string;
  properties: Record<string, string>;
  deliver_in_ms?: number;
  priority: number;
  id: string;
}

interface Command {
  call: number;
  do: string;
  name_servers: string[];
  token: string;
  messages: WireMessage[];
  topic: string;
  group: string;
  tags: string;
  sql: string;
  more: Record<string, string>;
  by_priority: boolean;
  compression: string;
  max: number;
  wait_ms: number;
  invisible_ms: number;
  delay_ms: number;
  dead_letter: boolean;
  numbers: number[];
  answer: Outcome;
  count: number;
  batch: number;
  in_flight: number;
  timeout_ms: number;
  address: string;
  act: string;
  queues: number;
  to_ms: number;
}

let nameServers: string[] = [];
let token = "";
const clients = new Map<string, Client>(); // By how they compress.
const senders = new Map<string, Producer>();
const receipts: Receipt[] = [];
const consumers = new Map<string, Consumer>();
const deliveries: { consumer: Consumer; delivery: Delivery }[] = [];
const producers = new Map<string, TransactionProducer>();
const transactions: Transaction[] = [];
const answers = new Map<string, Outcome>();
const heard: { body: string; attempt: number }[] = [];
let most = 0;
let stop: () => Promise<void> = async () => {};
const checked: { id: string; body: string }[] = [];
const spans = new InMemorySpanExporter();
let tracing: Tracing | undefined;

const COMPRESSIONS: Record<string, Compression> = {
  lz4: Compression.COMPRESSION_LZ4, zstd: Compression.COMPRESSION_ZSTD, zlib: Compression.COMPRESSION_ZLIB,
};

function clientOf(compression: string): Client {
  let client = clients.get(compression);
  if (!client) {
    client = new Client(nameServers, {
      compression: COMPRESSIONS[compression],
      producerGroup: "conformance",
      // No play fails because a machine is slow.
      tryTimeoutMs: Number(process.env["TRY_MS"] ?? 30_000),
      callTimeoutMs: Number(process.env["CALL_MS"] ?? 90_000),
      ...(token && { credentials: () => token }),
      ...(tracing && { tracing }),
    });
    clients.set(compression, client);
  }
  return client;
}

function senderOf(compression: string): Producer {
  let sender = senders.get(compression);
  if (!sender) senders.set(compression, (sender = new Producer(clientOf(compression))));
  return sender;
}

function sent(wire: WireMessage): Message {
  return {
    topic: wire.topic,
    body: Buffer.from(wire.body, "base64"),
    tag: wire.tag,
    keys: wire.keys,
    group: wire.group,
    properties: wire.properties,
    priority: wire.priority,
    id: wire.id,
    ...(wire.deliver_in_ms ? { deliverAt: new Date(Date.now() + wire.deliver_in_ms) } : {}),
  };
}

async function send(asked: Command): Promise<unknown> {
  const got = await senderOf(asked.compression).sendBatch(asked.messages.map(sent));
  return got.map((receipt) => {
    receipts.push(receipt);
    return {
      number: receipts.length - 1, id: receipt.id, broker: receipt.brokerName,
      queue_id: receipt.queueId, offset: Number(receipt.offset),
    };
  });
}

/** Send one message again and again, some calls at a time; resolves to the seconds. */
async function pump(asked: Command): Promise<number> {
  const sender = senderOf(asked.compression);
  const message = sent(asked.messages[0]!);
  const batch = Array.from({ length: asked.batch }, () => message);
  const call = () => (asked.batch > 1 ? sender.sendBatch(batch) : sender.send(message));
  let begun = 0;
  const began = performance.now();
  await Promise.all(Array.from({ length: asked.in_flight }, async () => {
    while ((begun += asked.batch) <= asked.count) await call();
  }));
  return (performance.now() - began) / 1000;
}

/** How many empty answers in a row say that no more messages come. */
const EMPTY_MAX = 2;

/** Receive and acknowledge until so many messages have come; resolves to the seconds. */
async function drain(asked: Command): Promise<number> {
  const consumer = consumerOf(asked);
  const began = performance.now();
  let empty = 0;
  for (let left = asked.count; left > 0;) {
    const some = await consumer.receive(10_000);
    await consumer.ack(some);
    left -= some.length;
    empty = some.length ? 0 : empty + 1;
    if (empty === EMPTY_MAX) throw new Error(`${left} of ${asked.count} messages are missing`);
  }
  return (performance.now() - began) / 1000;
}

function consumerOf(asked: Command): Consumer {
  let consumer = consumers.get(asked.group);
  if (!consumer) {
    consumer = new Consumer(clientOf(""), {
      group: asked.group, topic: asked.topic, tags: asked.tags, sql: asked.sql,
      more: Object.entries(asked.more).map(([topic, tags]) => ({ topic, tags })),
      byPriority: asked.by_priority, maxMessages: asked.max, invisibleMs: asked.invisible_ms,
    });
    consumers.set(asked.group, consumer);
  }
  return consumer;
}

/** Work on messages for a while each; one that is to fail does so at its first attempt. */
function listen(asked: Command): void {
  const ending = new AbortController();
  let busy = 0;
  const over = consumerOf(asked).listen(async ({ body, attempt }) => {
    most = Math.max(most, ++busy);
    heard.push({ body: Buffer.from(body).toString("base64"), attempt });
    await new Promise((resolve) => setTimeout(resolve, asked.wait_ms));
    busy--;
    if (Buffer.from(body).toString() === "fail" && attempt === 1) throw new Error("as told");
  }, { concurrency: asked.in_flight, signal: ending.signal });
  stop = () => (ending.abort(), over);
}

async function request(asked: Command): Promise<{ body: string }> {
  const reply = await senderOf("").request(sent(asked.messages[0]!), { timeoutMs: asked.timeout_ms });
  return { body: Buffer.from(reply.body).toString("base64") };
}

/** Answer each request with its body reversed. */
function answerRequests(asked: Command): void {
  const ending = new AbortController();
  const over = consumerOf(asked).listen(
    (delivery) => senderOf("").reply(delivery, Buffer.from(delivery.body).reverse()), { signal: ending.signal },
  );
  stop = () => (ending.abort(), over);
}

async function administer(asked: Command): Promise<unknown> {
  const admin = new Admin(clientOf(""), asked.address);
  const { topic, group, queues } = asked;
  switch (asked.act) {
    case "create_topic":
      return admin.createTopic(topic, { queues });
    case "update_topic":
      return admin.updateTopic(topic, { queues });
    case "delete_topic":
      return admin.deleteTopic(topic);
    case "topics":
      return { topics: (await admin.topics()).found.map((each) => each.topic) };
    case "create_group":
      return admin.createGroup(group);
    case "delete_group":
      return admin.deleteGroup(group);
    case "groups":
      return { groups: (await admin.groups()).found.map((each) => each.consumerGroup) };
    case "lag":
      return { lag: (await admin.lags(group, topic)).found.reduce((sum, each) => sum + Number(each.messageCount), 0) };
    case "reset":
      return admin.resetOffsets(group, topic, new Date(asked.to_ms));
    default:
      throw new Error(`no such act: ${asked.act}`);
  }
}

/** The spans so far of clients that are made from now on. */
function spansSoFar(): unknown {
  if (!tracing) {
    new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] }).register();
    tracing = openTelemetry();
    clients.clear();
    senders.clear();
  }
  return {
    spans: spans.getFinishedSpans().map((each) => ({
      name: each.name, kind: SpanKind[each.kind], trace: each.spanContext().traceId, span: each.spanContext().spanId,
      parent: each.parentSpanContext?.spanId ?? "", links: each.links.map(({ context }) => context.traceId),
      attributes: each.attributes,
    })),
  };
}

async function receive(asked: Command): Promise<unknown> {
  const found = consumerOf(asked);
  return (await found.receive(asked.wait_ms)).map((delivery) => {
    deliveries.push({ consumer: found, delivery });
    return {
      topic: delivery.topic, body: Buffer.from(delivery.body).toString("base64"), tag: delivery.tag,
      keys: delivery.keys, group: delivery.group, properties: delivery.properties, id: delivery.id,
      priority: delivery.priority,
      attempt: delivery.attempt, number: deliveries.length - 1,
    };
  });
}

async function settle(asked: Command): Promise<void> {
  const theirs = asked.numbers.map((number) => deliveries[number]!);
  const { consumer } = theirs[0]!;
  const messages = theirs.map((each) => each.delivery);
  if (asked.do === "ack") return consumer.ack(messages);
  if (asked.do === "nack") {
    return consumer.nack(messages, { delayMs: asked.delay_ms, deadLetter: asked.dead_letter });
  }
  theirs[0]!.delivery = await consumer.changeInvisible(messages[0]!, asked.invisible_ms);
}

async function openTransactions(asked: Command): Promise<void> {
  answers.set(asked.group, asked.answer);
  if (producers.has(asked.group)) return;
  const checker = (message: Message): Outcome => {
    checked.push({ id: message.id!, body: Buffer.from(message.body).toString("base64") });
    return answers.get(asked.group) ?? "unknown";
  };
  const opened = await TransactionProducer.open(clientOf(asked.compression), asked.group, [asked.topic], checker);
  producers.set(asked.group, opened);
}

async function perform(asked: Command): Promise<unknown> {
  const number = asked.numbers?.[0] ?? 0;
  switch (asked.do) {
    case "connect":
      ({ name_servers: nameServers, token } = asked);
      clients.clear();
      senders.clear();
      senderOf("");
      return { language: "typescript" };
    case "send":
      return send(asked);
    case "pump":
      return pump(asked);
    case "drain":
      return drain(asked);
    case "recall":
      return senderOf("").recall(receipts[number]!);
    case "receive":
      return receive(asked);
    case "listen":
      return listen(asked);
    case "request":
      return request(asked);
    case "answer":
      return answerRequests(asked);
    case "administer":
      return (await administer(asked)) ?? {};
    case "spans":
      return spansSoFar();
    case "heard":
      return { messages: heard, most };
    case "stop":
      return stop();
    case "lost":
      return consumers.get(asked.group)!.lostMessageCount;
    case "ack":
    case "nack":
    case "extend":
      return settle(asked);
    case "transactions":
      return openTransactions(asked);
    case "begin":
      transactions.push(await producers.get(asked.group)!.begin(sent(asked.messages[0]!)));
      return { number: transactions.length - 1, id: transactions.at(-1)!.id };
    case "commit":
      return transactions[number]!.commit();
    case "rollback":
      return transactions[number]!.rollback();
    case "checked":
      return checked;
    default:
      throw new Error(`no such command: ${asked.do}`);
  }
}

function told(error: unknown): unknown {
  const known = error instanceof ArianeError ? error : undefined;
  return { reason: known?.reason ?? "", text: String(error), outcome_unknown: known?.outcomeUnknown ?? false };
}

async function answer(line: string): Promise<void> {
  const asked = JSON.parse(line) as Command;
  let said: unknown;
  try {
    said = { call: asked.call, ok: (await perform(asked)) ?? null };
  } catch (error) {
    said = { call: asked.call, error: told(error) };
  }
  process.stdout.write(`${JSON.stringify(said)}\n`);
}

// Commands are carried out side by side.
const calls: Promise<void>[] = [];
for await (const line of createInterface({ input: process.stdin })) calls.push(answer(line));
await Promise.all(calls);
process.exit(0);
