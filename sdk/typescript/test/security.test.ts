import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { serverPart } from "../src/security.js";

test("over TLS nothing is signed without the server's certificate and name", () => {
  const [raw, name] = [Buffer.from("certificate"), "ariane://cluster/broker/broker-a"];
  const shown = { raw, subjectaltname: `DNS:localhost, URI:${name}` };
  const fingerprint = createHash("sha256").update(raw).digest();
  assert.deepEqual(serverPart(shown, true), Buffer.concat([fingerprint, Buffer.of(name.length), Buffer.from(name)]));
  for (const gone of [undefined, null, {}, { raw }, { subjectaltname: shown.subjectaltname }]) {
    assert.throws(() => serverPart(gone, true), /is not known any more \[UNAVAILABLE\]/);
  }
  assert.deepEqual(serverPart(undefined, false), Buffer.alloc(33));
});
