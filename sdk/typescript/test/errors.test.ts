import assert from "node:assert/strict";
import { test } from "node:test";
import { status as Code } from "@grpc/grpc-js";
import { type ArianeError, errorOfStatus, ofNameServer } from "../src/errors.js";
import { Client, Producer } from "../src/index.js";
import { ErrorReason } from "../src/generated/ariane/common/v1/error_reason.js";
import { Process, refusalOf, saidOf, TOPIC } from "./cluster.js";

const refused = (reason: string): ArianeError => errorOfStatus(saidOf(reason), "broker-a");

/** Send where the name server that is asked first has no route, for a reason, and the other has one. */
async function sendPast(why: string): Promise<void> {
  const broker = await Process.start("broker-a");
  const nameServers = [await Process.start("", broker), await Process.start("", broker)];
  let asked = 0;
  for (const each of nameServers) each.route = () => asked++ ? undefined : refusalOf("ROUTE_NOT_FOUND", { [why]: "x" });
  const client = new Client(nameServers.map((each) => each.address));
  try {
    await new Producer(client).send({ topic: TOPIC, body: Buffer.from("x") });
  } finally {
    client.close();
    for (const each of [broker, ...nameServers]) each.stop();
  }
}

test("a topic that may come back is waited for", async () => {
  for (const why of ["warming_up", "queue_order", "away_brokers"]) await sendPast(why);
  await assert.rejects(sendPast("topic"), { reason: "ROUTE_NOT_FOUND", retriable: false });
});

test("who cannot be asked for routes is said", () => {
  const said = (code: Code): ArianeError => ofNameServer(errorOfStatus({ code, message: "refused", details: [] }, "nobody:1"), "nobody:1");
  const unreachable = said(Code.UNAVAILABLE);
  assert.equal(unreachable.message, "no name server answered: nobody:1: refused [NAME_SERVERS_UNREACHABLE]");
  assert.deepEqual([unreachable.retriable, unreachable.outcomeUnknown], [true, false]);
  const other = said(Code.UNIMPLEMENTED);
  assert.match(other.message, /^nobody:1 answers, and is no name server.*\[NOT_NAME_SERVER\]$/);
  assert.deepEqual([other.retriable, other.outcomeUnknown], [false, false]);
});

test("what a reason means is read from the contract", () => {
  const meant: Record<string, boolean[]> = { // Retriable, unknown, routing.
    SERVICE_BUSY: [true, false, false],
    FLUSH_UNCONFIRMED: [false, true, false],
    BROKER_NOT_PRIMARY: [true, false, true],
    TOPIC_NOT_FOUND: [false, false, true],
    FIELD_INVALID: [false, false, false],
    MOON_IN_THE_WAY: [false, true, false], // Of a later version.
  };
  for (const [reason, expected] of Object.entries(meant)) {
    const error = refused(reason);
    assert.deepEqual([error.retriable, error.outcomeUnknown, error.routing], expected, reason);
  }
  const names = Object.keys(ErrorReason).filter((name) => name.startsWith("ERROR_REASON_"));
  const all = names.map((name) => refused(name.slice("ERROR_REASON_".length)));
  assert.ok(all.every((error) => !(error.retriable && error.outcomeUnknown)), "repeated though it may have happened");
  const [retriable, unknown] = [all.filter((error) => error.retriable), all.filter((error) => error.outcomeUnknown)];
  assert.ok(retriable.length && unknown.length && retriable.length + unknown.length < names.length / 2);
});
