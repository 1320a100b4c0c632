import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { status } from "@grpc/grpc-js";
import { ArianeError, Client, Producer } from "../src/index.js";
import { messageOf, type Received } from "../src/message.js";
import { Process, TOPIC } from "./cluster.js";

const QUESTION = { topic: TOPIC, body: Buffer.from("why?") };
const running: { stop(): unknown }[] = [];

afterEach(() => {
  for (const each of running.splice(0)) each.stop();
});

/** A broker, a client, and what a consumer gets of the first request. */
async function start(): Promise<[Process, Client, Promise<Received>]> {
  const broker = await Process.start("broker-a");
  const nameServer = await Process.start("", broker);
  const client = new Client([nameServer.address]);
  running.push(broker, nameServer, { stop: () => client.close() });
  const asked = new Promise<Received>((resolve) => {
    broker.acknowledge = async () => {
      const wire = broker.sent[0]!.messages[0]!;
      resolve(messageOf({ ...wire, replyAddress: { ...wire.replyAddress!, replyTopic: "main_REPLY_TOPIC" } }));
    };
  });
  return [broker, client, asked];
}

async function refusal(call: Promise<unknown>): Promise<ArianeError> {
  const error = await call.then(() => assert.fail("nothing was refused"), (refused: unknown) => refused);
  assert.ok(error instanceof ArianeError, String(error));
  return error;
}

test("the first reply counts, those to others are dropped, and nothing is left", async () => {
  const [broker, client, asked] = await start();
  const producer = new Producer(client);
  const reply = producer.request(QUESTION);
  const question = await asked;
  const other = { ...question, replyTo: { ...question.replyTo!, correlationId: "another" } };
  for (const [to, body] of [[other, "other"], [question, "first"], [question, "second"]] as const) {
    await producer.reply(to, Buffer.from(body), { by: "me" });
  }
  const { body, properties } = await reply;
  assert.deepEqual([Buffer.from(body).toString(), properties], ["first", { by: "me" }]);
  const pulls = broker.counts["pull"]!;
  while (broker.counts["pull"]! < pulls + 3) await new Promise(setImmediate);
  assert.equal(client.replies["waiting"].size, 0);
});

test("an aborted request may have been acted on", async () => {
  const [, client, asked] = await start();
  const controller = new AbortController();
  const waiting = refusal(new Producer(client).request(QUESTION, { signal: controller.signal }));
  await asked;
  controller.abort(new Error("enough"));
  const aborted = await waiting;
  assert.deepEqual([(aborted.cause as Error).message, aborted.outcomeUnknown], ["enough", true]);
  assert.equal((await refusal(new Producer(client).request(QUESTION, { signal: controller.signal }))).outcomeUnknown, false);
});

test("whoever waits for a reply learns that the client was closed, and nothing goes on", async () => {
  const [broker, client, asked] = await start();
  const waiting = refusal(new Producer(client).request(QUESTION));
  await asked;
  // The send is over once its answer is here.
  while ((broker.counts["pull"] ?? 0) < 3) await new Promise(setImmediate);
  client.close();
  const closed = await waiting;
  assert.deepEqual([closed.reason, closed.outcomeUnknown], ["CLIENT_NOT_RUNNING", true]);
  assert.equal((await refusal(new Producer(client).request(QUESTION))).reason, "CLIENT_NOT_RUNNING");
  await new Promise((resolve) => setTimeout(resolve, 100)); // Answers of the broker, which are timed here.
  assert.deepEqual(process.getActiveResourcesInfo().filter((each) => each.startsWith("Timeout")), []);
});

test("what is no request has no reply", async () => {
  const [, client] = await start();
  const plain = { id: "m-1", replyTo: undefined } as Received;
  assert.equal((await refusal(new Producer(client).reply(plain, Buffer.from("because")))).reason, "NO_REQUEST");
});

test("a request that nobody would hear a reply to was surely not sent", async () => {
  const [broker, client] = await start();
  broker.bounds = () => Promise.reject(new Error("broken"));
  const producer = new Producer(client);
  const both = await Promise.all([refusal(producer.request(QUESTION)), refusal(producer.request(QUESTION))]);
  assert.deepEqual(both.map((each) => [each.code, each.outcomeUnknown]), Array(2).fill([status.UNKNOWN, false]));
  assert.notEqual(both[0], both[1]);
  await assert.rejects(producer.request({ ...QUESTION, deliverAt: new Date() }), /cannot be delayed/);
  assert.deepEqual(broker.sent, []);
});

test("a client that has lived for long does not hurry", async ({ mock }) => {
  const [broker, client, asked] = await start();
  const waiting = refusal(new Producer(client).request(QUESTION));
  await asked;
  mock.timers.enable({ apis: ["Date"], now: Date.now() + 30 * 86_400_000 });
  let failures = 0;
  Object.assign(client.replies, { pull: async () => (failures++, Promise.reject(new Error("away"))) });
  await new Promise((resolve) => setTimeout(resolve, 300)); // As many as there are.
  assert.ok(failures > 0 && failures < 10, String(failures));
  client.close();
  await waiting;
  assert.equal(broker.sent.length, 1);
});
