import assert from "node:assert/strict";
import { test } from "node:test";
import { status as Code } from "@grpc/grpc-js";
import { type ArianeError, errorOfStatus, ofNameServer } from "../src/errors.js";
import { ErrorReason } from "../src/generated/ariane/common/v1/error_reason.js";
import { ErrorInfo } from "../src/generated/google/rpc/error_details.js";

function refused(reason: string): ArianeError {
  const value = Buffer.from(ErrorInfo.encode({ domain: "ariane.mq", reason, metadata: {} }).finish());
  const details = [{ typeUrl: "type.googleapis.com/google.rpc.ErrorInfo", value }];
  return errorOfStatus({ code: Code.ABORTED, message: "", details }, "broker-a");
}

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
