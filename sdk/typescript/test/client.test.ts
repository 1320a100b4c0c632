import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { afterEach, test } from "node:test";
import { setTimeout as passed } from "node:timers/promises";
import { status } from "@grpc/grpc-js";
import { ArianeError, Client, Consumer, type Delivery, Producer, TransactionProducer } from "../src/index.js";
import { TransactionOutcome } from "../src/generated/ariane/broker/v1/client_service.js";
import { AcknowledgedLevel } from "../src/generated/ariane/common/v1/message.js";
import { Process, refusalOf, TOPIC } from "./cluster.js";

const PATIENCE_MS = 30_000;
const running: { stop(): unknown }[] = [];

afterEach(() => {
  for (const each of running.splice(0)) each.stop();
});

async function start(name: string, ...brokers: Process[]): Promise<Process> {
  const made = await Process.start(name, ...brokers);
  running.push(made);
  return made;
}

function clientOf(...nameServers: Process[]): Client {
  const client = new Client(nameServers.map((each) => each.address));
  running.push({ stop: () => client.close() });
  return client;
}

function consumerOf(client: Client, invisibleMs?: number): Consumer {
  const consumer = new Consumer(client, { group: "waiters", topic: TOPIC, ...(invisibleMs ? { invisibleMs } : {}) });
  running.unshift({ stop: () => consumer.close() });
  return consumer;
}

const bodies = (deliveries: Delivery[]): string[] => deliveries.map((each) => Buffer.from(each.body).toString());
const message = (body: string, group = "") => ({ topic: TOPIC, body: Buffer.from(body), group });

async function refusal(call: Promise<unknown>): Promise<ArianeError> {
  const error = await call.then(() => assert.fail("nothing was refused"), (refused: unknown) => refused);
  assert.ok(error instanceof ArianeError, String(error));
  return error;
}

test("an aborted signal ends a wait, and nothing is lost", async () => {
  const broker = await start("broker-a");
  let arrive = (_: string[]) => {};
  const asked = new Promise<void>((resolve) => {
    broker.receive = () => {
      resolve();
      return new Promise((later) => (arrive = later));
    };
  });
  const consumer = consumerOf(clientOf(await start("", broker)));
  const controller = new AbortController();
  const waiting = refusal(consumer.receive(PATIENCE_MS, { signal: controller.signal }));
  await asked;
  controller.abort(new Error("enough"));
  assert.equal(((await waiting).cause as Error).message, "enough");
  assert.equal((await refusal(consumer.receive(PATIENCE_MS, { signal: controller.signal }))).cause, controller.signal.reason);
  arrive(["late"]);
  assert.deepEqual(bodies(await consumer.receive(PATIENCE_MS)), ["late"]);
  assert.deepEqual(await consumer.receive(0), []);
});

test("many receive at a time, and each message comes once", async () => {
  const broker = await start("broker-a");
  broker.receive = async () => {
    const number = broker.count("receive");
    return number <= 100 ? [String(number)] : new Promise<string[]>(() => {});
  };
  const consumer = consumerOf(clientOf(await start("", broker)));
  const found: string[] = [];
  await Promise.all(Array.from({ length: 8 }, async () => {
    while (found.length < 100) found.push(...bodies(await consumer.receive(200)));
  }));
  assert.equal(found.length, new Set(found).size);
  assert.equal(found.length, 100);
});

test("what others see again by now is not given out", async ({ mock }) => {
  const broker = await start("broker-a");
  let arrive = () => {};
  const arrived = new Promise<void>((resolve) => (arrive = resolve));
  broker.receive = async () => {
    const number = broker.count("receive");
    await arrived;
    return [String(number)];
  };
  const consumer = consumerOf(clientOf(await start("", broker)), 60_000);
  assert.deepEqual(await consumer.receive(0), []); // Whoever finds it comes later.
  arrive();
  await Promise.all(consumer["pending"].values());
  const now = Date.now;
  mock.method(Date, "now", () => now() + 60_000);
  assert.deepEqual(await consumer.receive(0), []);
  assert.deepEqual(bodies(await consumer.receive(PATIENCE_MS)), ["2"]);
});

test("batches come until the consumer is closed, over an outage, too", async () => {
  const broker = await start("broker-a");
  const nameServer = await start("", broker);
  broker.receive = async () => {
    const number = broker.count("receive");
    if (number === 2) throw new Error("out of order");
    return number < 5 ? ["again"] : new Promise<string[]>(() => {});
  };
  const consumer = consumerOf(clientOf(nameServer));
  const found: string[] = [];
  for await (const batch of consumer) {
    found.push(...bodies(batch));
    if (found.length === 3) setTimeout(() => consumer.close(), 50);
  }
  assert.deepEqual(found, ["again", "again", "again"]);
});

test("what came and nobody took goes back when the consumer is closed", async () => {
  const [one, other] = [await start("broker-a"), await start("broker-b")];
  one.receive = async () => ["a1", "a2"];
  other.receive = async () => ["b1"];
  const consumer = consumerOf(clientOf(await start("", one, other)));
  const taken = bodies(await consumer.receive(PATIENCE_MS));
  await Promise.all(consumer["pending"].values());
  await consumer.close();
  assert.deepEqual([...taken, ...one.shown, ...other.shown].sort(), ["a1", "a2", "b1"]);
  await assert.rejects(consumer.receive(0), /closed/);
});

test("a send ends in its time behind one that takes longer", async () => {
  const broker = await start("broker-a");
  const stored = new Promise<void>((resolve) => {
    broker.acknowledge = () => {
      resolve();
      return new Promise(() => {});
    };
  });
  const producer = new Producer(clientOf(await start("", broker)));
  const slow = refusal(producer.send(message("slow"), { timeoutMs: 2000 }));
  await stored;
  const behind = await refusal(producer.send(message("behind"), { timeoutMs: 200 }));
  assert.equal(behind.reason, "DEADLINE_PASSED");
  assert.equal(behind.outcomeUnknown, false);
  assert.deepEqual(new Set(broker.sent.map((each) => each.messages[0]!.body.toString())), new Set(["slow"]));
  assert.equal((await slow).outcomeUnknown, true);
});

test("an aborted send may have been stored, and the next one is no repeat of it", async () => {
  const broker = await start("broker-a");
  const producer = new Producer(clientOf(await start("", broker)));
  await producer.send(message("before"));
  const controller = new AbortController();
  broker.acknowledge = async () => {
    controller.abort();
    return new Promise(() => {});
  };
  const aborted = await refusal(producer.send(message("aborted"), { signal: controller.signal }));
  assert.equal(aborted.outcomeUnknown, true);
  assert.equal(aborted.cause, controller.signal.reason);
  broker.acknowledge = () => Promise.resolve();
  await producer.send(message("after"));
  const [first, second, third] = broker.sent.map(({ sequence }) => [sequence!.producerEpoch, sequence!.firstSequence]);
  assert.deepEqual([first, second, third], [[0, 0n], [0, 1n], [1, 0n]]);
  const early = await refusal(producer.send(message("never"), { signal: controller.signal }));
  assert.equal(early.outcomeUnknown, false);
  assert.equal(broker.sent.length, 3);
});

test("what is sent while a call is in flight goes together, and each sender hears of its own", async () => {
  const broker = await start("broker-a");
  let acknowledge = () => {};
  broker.acknowledge = () => new Promise<void>((resolve) => (acknowledge = resolve));
  const producer = new Producer(clientOf(await start("", broker)));
  const first = producer.send(message("first"));
  while (broker.sent.length === 0) await passed(1);
  const many = Array.from({ length: 100 }, (_, number) => producer.send({ ...message(String(number)), id: `id-${number}` }));
  const short = refusal(producer.send(message("short"), { timeoutMs: 1 }));
  assert.equal((await short).outcomeUnknown, false); // It had not begun.
  acknowledge();
  broker.acknowledge = () => Promise.resolve();
  await first;
  const receipts = await Promise.all(many);
  assert.deepEqual(receipts.map((each) => each.id), Array.from(many, (_, number) => `id-${number}`));
  assert.deepEqual(broker.sent.map((each) => each.messages.length), [1, 100]);
});

for (const [level, counts] of [
  [AcknowledgedLevel.ACKNOWLEDGED_LEVEL_MEMORY, [1, 500, 500]], [AcknowledgedLevel.ACKNOWLEDGED_LEVEL_FLUSHED, [1, 1000]],
] as const) {
  test(`many go in ${counts.length - 1} calls at a time where the broker answers at level ${level}`, async () => {
    const broker = await start("broker-a");
    Object.assign(broker, { queues: 2, level });
    const producer = new Producer(clientOf(await start("", broker)));
    await producer.send(message("first"));
    let acknowledge = () => {};
    const allowed = new Promise<void>((resolve) => (acknowledge = resolve));
    broker.acknowledge = () => allowed;
    const many = Array.from({ length: 1000 }, () => producer.send(message("x")));
    while (broker.sent.length < counts.length) await passed(1);
    acknowledge();
    await Promise.all(many);
    assert.deepEqual(broker.sent.map((each) => each.messages.length), counts);
    assert.equal(new Set(broker.sent.slice(1).map((each) => each.queueId)).size, counts.length - 1);
  });
}

test("one that shares a call ends in its own time, and the others have their outcome", async () => {
  const broker = await start("broker-a");
  let acknowledge = () => {};
  const stored = new Promise<void>((resolve) => {
    broker.acknowledge = () => new Promise<void>((answer) => (acknowledge = answer, resolve()));
  });
  const producer = new Producer(clientOf(await start("", broker)));
  const patient = producer.send(message("patient"));
  const hasty = await refusal(Promise.all([stored, producer.send(message("hasty"), { timeoutMs: 500 })]));
  assert.equal(hasty.outcomeUnknown, true);
  acknowledge();
  assert.ok(await patient);
  assert.deepEqual(broker.sent.map((each) => each.messages.length), [2]);
});

test("of those that share a call, each is refused for itself", async () => {
  const broker = await start("broker-a");
  broker.refuses = (each) => each.body.toString() === "bad";
  const producer = new Producer(clientOf(await start("", broker)));
  const sends = ["one", "bad", "two"].map((body) => producer.send(message(body)));
  assert.equal((await refusal(sends[1]!)).code, status.INVALID_ARGUMENT);
  assert.equal((await Promise.all([sends[0], sends[2]])).length, 2);
});

test("one that waits for its turn after a shared refusal ends in its own time", async () => {
  const broker = await start("broker-a");
  let acknowledge = () => {};
  broker.acknowledge = () => new Promise<void>((resolve) => (acknowledge = resolve));
  broker.refuses = (each) => each.body.toString() === "bad";
  const producer = new Producer(clientOf(await start("", broker)));
  const slow = producer.send(message("slow"));
  const late = refusal(producer.send(message("late"), { timeoutMs: 500 }));
  const bad = refusal(producer.send(message("bad")));
  assert.equal((await late).outcomeUnknown, false);
  acknowledge();
  await Promise.all([slow, bad]);
  assert.deepEqual(broker.sent.map((each) => each.messages[0]!.body.toString()), ["slow"]);
});

test("ten thousand sends at once ask for the route once", async () => {
  const nameServer = await start("", await start("broker-a"));
  const producer = new Producer(clientOf(nameServer));
  const receipts = await Promise.all(Array.from({ length: 10_000 }, () => producer.send(message("x"))));
  assert.equal(receipts.length, 10_000);
  assert.deepEqual(nameServer.counts, { route: 1 });
});

test("a send leaves nothing behind", async () => {
  const producer = new Producer(clientOf(await start("", await start("broker-a"))));
  const used = async (count: number): Promise<number> => {
    for (let number = 0; number < count; number++) await producer.sendBatch([message("x")]);
    globalThis.gc!();
    return process.memoryUsage().heapUsed;
  };
  const before = await used(3000);
  const bytes = (await used(4000)) - before;
  assert.ok(bytes < 4000 * 250, `${bytes} bytes for 4,000 sends`);
});

test("what was known holds while name servers are away", async () => {
  const broker = await start("broker-a");
  const nameServers = [await start("", broker), await start("", broker)];
  const client = clientOf(...nameServers);
  const producer = new Producer(client);
  await producer.send(message("plain"));
  await producer.send(message("grouped", "table-7"));
  for (const each of nameServers) each.stop();
  client.forgetRoute(TOPIC); // As when it is old.
  for (let number = 0; number < 20; number++) {
    await producer.send(message("plain"), { timeoutMs: 2000 });
    await producer.send(message("grouped", "table-7"), { timeoutMs: 2000 });
  }
  assert.equal(broker.sent.length, 42);
});

test("a group is asked for once", async () => {
  const nameServer = await start("", await start("broker-a"));
  const producer = new Producer(clientOf(nameServer));
  for (let number = 0; number < 10; number++) await producer.send(message("x", "table-7"));
  await producer.send(message("x", "table-8"));
  assert.deepEqual(nameServer.counts, { group: 2, route: 1 });
});

for (const before of ["refuses", "is gone"]) {
  for (const [why, follows] of Object.entries({ topic: true, warming_up: true, queue_order: false, away_brokers: false })) {
    test(`a topic without a route (${why}), whose primary ${before}, is ${follows ? "" : "not "}sent to the next primary`, async () => {
      const [first, next] = [await start("broker-a"), await start("broker-a")];
      const nameServer = await start("", first);
      const producer = new Producer(clientOf(nameServer));
      for (const group of ["", "table-7"]) await producer.send(message("before", group));
      nameServer.present = [await start("broker-b"), next];
      nameServer.route = () => refusalOf("ROUTE_NOT_FOUND", { [why]: "x" });
      first.refusal = refusalOf("BROKER_NOT_PRIMARY");
      if (before === "is gone") first.stop();
      for (const group of ["", "table-7"]) {
        if (follows) await producer.send(message("after", group));
        else await refusal(producer.send(message("after", group), { timeoutMs: 1000 }));
      }
      assert.equal(next.sent.length, follows ? 2 : 0);
    });
  }
}

test("a send whose time is over before its call is surely not stored", async () => {
  const broker = await start("broker-a");
  const producer = new Producer(clientOf(await start("", broker)));
  await producer.send(message("x"));
  const late = { timeoutMs: 0 };
  for (const send of [() => producer.send(message("y"), late), () => producer.sendBatch([message("y")], late)]) {
    const { reason, outcomeUnknown } = await refusal(send());
    assert.deepEqual([reason, outcomeUnknown], ["DEADLINE_PASSED", false]);
  }
  assert.equal(broker.sent.length, 1);
});

test("a call to receive that cannot be made keeps no later one from being made", async () => {
  const broker = await start("broker-a");
  broker.receive = async () => ["x"];
  const client = clientOf(await start("", broker));
  const consumer = consumerOf(client);
  await client.route(TOPIC);
  const { stub } = client;
  client.stub = () => {
    throw new Error("the file of a certificate is being replaced");
  };
  await refusal(consumer.receive(PATIENCE_MS));
  client.stub = stub;
  assert.deepEqual(bodies(await consumer.receive(PATIENCE_MS)), ["x"]);
});

for (const [why, isGone] of Object.entries({ topic: true, warming_up: false, queue_order: false, away_brokers: false })) {
  test(`a topic without a route (${why}), which has no primary, is ${isGone ? "" : "not "}gone`, async () => {
    const broker = await start("broker-a");
    const nameServer = await start("", broker);
    const client = clientOf(nameServer);
    const producer = new Producer(client);
    const send = (group = "") => producer.send(message("x", group), { timeoutMs: 1000 });
    const refused = async (group = "") => {
      const { reason, retriable, outcomeUnknown } = await refusal(send(group));
      return [reason, retriable, outcomeUnknown];
    };
    for (const group of ["", "table-7"]) await send(group);
    broker.isReplica = true;
    client.forgetRoute(TOPIC);
    assert.deepEqual(await refused(), ["TOPIC_NOT_WRITABLE", true, false]);
    nameServer.route = () => refusalOf("ROUTE_NOT_FOUND", { [why]: "x" });
    client.forgetRoute(TOPIC);
    assert.deepEqual(await refused(), isGone ? ["ROUTE_NOT_FOUND", false, false] : ["TOPIC_NOT_WRITABLE", true, false]);
    assert.deepEqual(await refused("table-7"), ["ROUTE_NOT_FOUND", !isGone, false]);
    broker.isReplica = false;
    nameServer.route = () => undefined;
    for (const group of ["", "table-7"]) if (isGone) await send(group);
  });
}

test("a broker that is away keeps no other from hearing", async () => {
  const [gone, there] = [await start("broker-a"), await start("broker-b")];
  for (const broker of [gone, there]) broker.receive = async () => [`of ${broker.name}`];
  const consumer = consumerOf(clientOf(await start("", gone, there)));
  const held: Delivery[] = [];
  while (new Set(held.map((each) => each.brokerName)).size < 2) held.push(...await consumer.receive(PATIENCE_MS));
  const deliveries = [gone, there].map(({ name }) => held.find((each) => each.brokerName === name)!);
  gone.stop();
  assert.match((await refusal(consumer.ack(deliveries, { timeoutMs: 1000 }))).message, new RegExp(gone.address));
  assert.deepEqual(there.settled, ["of broker-b"]);
});

test("whoever waits learns that the client was closed, and nothing goes on", async () => {
  const broker = await start("broker-a");
  const client = clientOf(await start("", broker));
  const stored = new Promise<void>((resolve) => {
    broker.acknowledge = () => {
      resolve();
      return new Promise(() => {});
    };
  });
  const sending = refusal(new Producer(client).send(message("x")));
  const receiving = refusal(consumerOf(client).receive(PATIENCE_MS));
  await stored;
  const begin = Date.now();
  client.close();
  assert.equal((await sending).outcomeUnknown, true);
  assert.match((await receiving).message, /closed/);
  assert.ok(Date.now() - begin < 10_000);
  assert.deepEqual(process.getActiveResourcesInfo().filter((each) => each.startsWith("Timeout")), []);
});

test("the package can be required by the versions of Node.js that it names", () => {
  assert.equal(createRequire(import.meta.url)("../src/index.js").Client, Client);
});

test("what the wire would change in silence is refused", async () => {
  const client = clientOf(await start("", await start("broker-a")));
  await assert.rejects(new Producer(client).send({ ...message("x"), keys: ["\ud800"] }), TypeError);
  const producer = await TransactionProducer.open(client, "tellers", [], () => "unknown");
  await assert.rejects(producer.begin({ ...message("x"), deliverAt: new Date() }), /delayed/);
  producer.close();
  await assert.rejects(producer.begin(message("x")), /closed/); // Nobody would be asked how it ended.
});

test("a message is settled whatever its listener throws", async () => {
  const broker = await start("broker-a");
  const thrown: Record<string, unknown> = {
    error: new Error("fire"), nothing: undefined, bare: Object.create(null), long: "x".repeat(5000),
  };
  broker.receive = async () => (broker.count("receive") === 1 ? Object.keys(thrown) : new Promise(() => {}));
  const consumer = consumerOf(clientOf(await start("", broker)));
  const listening = consumer.listen((delivery) => {
    throw thrown[Buffer.from(delivery.body).toString()];
  }, { concurrency: 2 });
  while (broker.failed.size < 4) await passed(1);
  consumer.close();
  await listening;
  assert.deepEqual(Object.fromEntries(broker.failed), {
    error: "Error: fire", nothing: "undefined", bare: "an error without a text", long: "x".repeat(1024),
  });
});

test("a checker that throws or says anything does not know", async () => {
  const client = clientOf(await start("", await start("broker-a")));
  const said: Record<string, () => unknown> = {
    "Error: fire": () => { throw new Error("fire"); },
    "an error without a text": () => { throw Object.create(null); },
    "TypeError: the checker said done": () => "done",
    "TypeError: the checker said toString": () => "toString",
  };
  for (const [cause, checker] of Object.entries(said)) {
    const producer = await TransactionProducer.open(client, "tellers", [], checker as () => "unknown");
    const check = { message: { topic: TOPIC }, transactionId: "t" } as never;
    const { transactionAnswer } = await producer["answer"](check);
    assert.equal(transactionAnswer?.outcome, TransactionOutcome.TRANSACTION_OUTCOME_UNKNOWN);
    assert.equal(transactionAnswer?.cause, cause);
    producer.close();
  }
});

test("a message is sent as it was when it was given", async () => {
  const broker = await start("broker-a");
  const producer = new Producer(clientOf(await start("", broker)));
  const given = { ...message("x"), keys: ["before"], properties: { when: "before" } };
  const sending = producer.send(given);
  await Promise.resolve(); // It waits for its route now.
  given.keys[0] = given.properties.when = "after";
  await sending;
  const { keys, properties } = broker.sent[0]!.messages[0]!;
  assert.deepEqual([keys, properties], [["before"], { when: "before" }]);
});
