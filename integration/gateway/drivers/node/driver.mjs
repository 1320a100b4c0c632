// Speaks the lines of README.md and acts with RocketMQ's own client for Node.

import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import rocketmq from "rocketmq-client-nodejs";

const { ConsumeResult, FilterExpression, Producer, PushConsumer, SimpleConsumer } = rocketmq;

const AWAIT_MS = 5000;
const SQL = 2; // FilterType, which the package does not export.
const RESOLUTIONS = { unknown: 0, commit: 1, rollback: 2 };
const quiet = () => {};
const logger = { info: quiet, warn: quiet, error: quiet, debug: quiet, close: quiet };

let connected;
const clients = new Map();
const deliveries = [];
const transactions = [];

/** A client, started by the first who asks for it. */
async function client(name, start) {
  if (!clients.has(name)) clients.set(name, start());
  try {
    return await clients.get(name);
  } catch (error) {
    clients.delete(name);
    throw error;
  }
}

function options() {
  const credentials = connected.key && {
    accessKey: connected.key,
    accessSecret: connected.secret,
  };
  return {
    endpoints: connected.endpoints,
    namespace: connected.namespace,
    sslEnabled: connected.tls,
    requestTimeout: connected.timeout_ms,
    logger,
    ...(credentials ? { sessionCredentials: credentials } : {}),
  };
}

function producer(asked) {
  return client(`producer ${asked.topic}`, async () => {
    const found = { answer: "unknown", asked: [] };
    const checker = {
      async check(message) {
        found.asked.push({ id: message.messageId, body: message.body.toString("base64") });
        return RESOLUTIONS[found.answer];
      },
    };
    found.producer = new Producer({ ...options(), topics: [asked.topic], checker });
    await found.producer.startup();
    return found;
  });
}

function subscriptions(asked) {
  const filter = asked.sql ? new FilterExpression(asked.sql, SQL) : asked.tags || "*";
  return new Map([[asked.topic, filter]]);
}

function sent(said) {
  const properties = new Map(Object.entries(said.properties));
  return {
    topic: said.topic,
    body: Buffer.from(said.body, "base64"),
    keys: said.keys,
    properties,
    ...(said.tag ? { tag: said.tag } : {}),
    ...(said.group ? { messageGroup: said.group } : {}),
    ...(said.deliver_in_ms ? { deliveryTimestamp: new Date(Date.now() + said.deliver_in_ms) } : {}),
    ...(said.priority === null ? {} : { priority: said.priority }),
  };
}

function received(message) {
  return {
    topic: message.topic,
    body: message.body.toString("base64"),
    tag: message.tag ?? "",
    keys: [...message.keys].sort(),
    group: message.messageGroup ?? "",
    properties: Object.fromEntries(message.properties),
    id: message.messageId,
    attempt: message.deliveryAttempt,
    corrupted: message.corrupted === true,
    at_ms: Date.now(),
  };
}

const commands = {
  async connect(asked) {
    connected = asked;
  },

  async send(asked) {
    const { producer: sender } = await producer(asked);
    const receipts = [];
    for (const each of asked.messages) {
      const receipt = await sender.send(sent(each));
      receipts.push({ id: receipt.messageId, recall: receipt.recallHandle });
    }
    return receipts;
  },

  async recall(asked) {
    const { producer: sender } = await producer(asked);
    return (await sender.recallMessage(asked.topic, asked.recall)).messageId;
  },

  async receive(asked) {
    const consumer = await client(`simple ${asked.group}`, async () => {
      const made = new SimpleConsumer({
        ...options(),
        consumerGroup: asked.group,
        subscriptions: subscriptions(asked),
        awaitDuration: AWAIT_MS,
      });
      await made.startup();
      return made;
    });
    const found = await consumer.receive(asked.max, asked.invisible_ms);
    return found.map((message) => {
      deliveries.push([consumer, message]);
      return { ...received(message), number: deliveries.length - 1 };
    });
  },

  async ack(asked) {
    for (const number of asked.numbers) {
      const [consumer, message] = deliveries[number];
      await consumer.ack(message);
    }
  },

  async extend(asked) {
    for (const number of asked.numbers) {
      const [consumer, message] = deliveries[number];
      await consumer.changeInvisibleDuration(message, asked.invisible_ms);
    }
  },

  async listen(asked) {
    await client(`push ${asked.group}`, async () => {
      const found = { heard: [] };
      const messageListener = {
        async consume(message) {
          await sleep(asked.take_ms);
          found.heard.push(received(message));
          return message.deliveryAttempt <= asked.fail
            ? ConsumeResult.FAILURE
            : ConsumeResult.SUCCESS;
        },
      };
      const limits = {
        maxCacheMessageCount: asked.cached_max,
        maxCacheMessageSizeInBytes: asked.cached_max,
      };
      found.consumer = new PushConsumer({
        ...options(),
        consumerGroup: asked.group,
        subscriptions: subscriptions(asked),
        messageListener,
        longPollingTimeout: AWAIT_MS,
        enableFifoConsumeAccelerator: asked.at_once,
        ...(asked.cached_max ? limits : {}),
      });
      await found.consumer.startup();
      return found;
    });
  },

  async heard(asked) {
    const found = await clients.get(`push ${asked.group}`);
    return found.heard.splice(0);
  },

  async leave(asked) {
    for (const kind of ["push", "simple"]) {
      const name = `${kind} ${asked.group}`;
      if (!clients.has(name)) continue;
      const found = await clients.get(name);
      clients.delete(name);
      await (found.consumer ?? found).shutdown();
    }
  },

  async transactions(asked) {
    (await producer(asked)).answer = asked.answer;
  },

  async begin(asked) {
    const { producer: sender } = await producer(asked);
    const transaction = sender.beginTransaction();
    const receipt = await sender.send(sent(asked.messages[0]), transaction);
    transactions.push(transaction);
    return { number: transactions.length - 1, id: receipt.messageId };
  },

  async commit(asked) {
    await transactions[asked.numbers[0]].commit();
  },

  async rollback(asked) {
    await transactions[asked.numbers[0]].rollback();
  },

  async checked(asked) {
    return (await producer(asked)).asked;
  },
};

async function answer(asked) {
  let said;
  try {
    said = { call: asked.call, ok: (await commands[asked.do](asked)) ?? null };
  } catch (error) {
    const failed = { reason: String(error.code ?? error.name), text: `${error.stack}` };
    said = { call: asked.call, error: { ...failed, outcome_unknown: false } };
  }
  process.stdout.write(`${JSON.stringify(said)}\n`);
}

process.on("unhandledRejection", (error) => console.error("unhandled", error));

const asked = [];
for await (const line of createInterface({ input: process.stdin })) {
  asked.push(answer(JSON.parse(line)));
}
await Promise.allSettled(asked);
for (const each of clients.values()) {
  const found = await each;
  await (found.producer ?? found.consumer ?? found).shutdown();
}
process.exit(0);
