import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { trace } from "@opentelemetry/api";
import { AlwaysOffSampler, InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-node";
import { Client, Consumer, Producer } from "../src/index.js";
import { openTelemetry } from "../src/opentelemetry.js";
import { Process, TOPIC } from "./cluster.js";

test("nothing is loaded of OpenTelemetry by who does not ask for it", () => {
  const sources = new URL("../src/", import.meta.url);
  const users = readdirSync(sources).filter((name) =>
    name.endsWith(".js") && /@opentelemetry|\.\/opentelemetry/.test(readFileSync(new URL(name, sources), "utf8").replace(/\/\*[^]*?\*\//g, "")));
  assert.deepEqual(users, ["opentelemetry.js"]);
});

test("a batch that is not sampled stays as it is", async () => {
  const broker = await Process.start("broker-a");
  const nameServer = await Process.start("", broker);
  const provider = new NodeTracerProvider({ sampler: new AlwaysOffSampler() }); // Not registered: nor is a propagator.
  const client = new Client([nameServer.address], { tracing: openTelemetry(provider) });
  const message = { topic: TOPIC, body: Buffer.from("x") };
  const producer = new Producer(client);
  await producer.send(message);
  await producer.sendBatch([message, message]);
  const carried = broker.sent.map((each) => each.messages.map(({ properties }) => properties["traceparent"]?.slice(-2)));
  assert.deepEqual(carried, [["00"], [undefined, undefined]]);
  client.close();
  for (const each of [broker, nameServer]) each.stop();
});

test("a send is a child of what the application does, and a listener's span is current over its awaits", async () => {
  const spans = new InMemorySpanExporter();
  const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] });
  provider.register();
  const broker = await Process.start("broker-a");
  const nameServer = await Process.start("", broker);
  const client = new Client([nameServer.address], { tracing: openTelemetry(provider) });
  const message = { topic: TOPIC, body: Buffer.from("x"), properties: Object.freeze({ own: "1" }) };
  await trace.getTracer("app").startActiveSpan("order", async (span) => {
    await Promise.all([new Producer(client).send(message), new Producer(client).sendBatch([message, message])]);
    span.end();
  });
  const [order] = spans.getFinishedSpans().filter((each) => each.name === "order");
  const sends = spans.getFinishedSpans().filter((each) => each.name === `send ${TOPIC}`);
  assert.deepEqual(sends.map((each) => each.parentSpanContext?.spanId), Array(2).fill(order!.spanContext().spanId));
  const carried = broker.sent.map((each) => each.messages.map(({ properties }) => properties["traceparent"]!.slice(36, 52)));
  assert.deepEqual(new Set(carried.flat()), new Set(sends.map((each) => each.spanContext().spanId)));
  assert.deepEqual(message.properties, { own: "1" });

  const current: (string | undefined)[] = [];
  broker.receive = async () => (broker.count("receive") === 1 ? ["x"] : new Promise(() => {}));
  const consumer = new Consumer(client, { group: "waiters", topic: TOPIC });
  const ending = new AbortController();
  await consumer.listen(async () => {
    await new Promise(setImmediate);
    current.push(trace.getActiveSpan()?.spanContext().spanId);
    ending.abort();
  }, { signal: ending.signal });
  const [processed] = spans.getFinishedSpans().filter((each) => each.name === `process ${TOPIC}`);
  assert.deepEqual(current, [processed!.spanContext().spanId]);
  await consumer.close();
  client.close();
  for (const each of [broker, nameServer]) each.stop();
  await provider.shutdown();
});
