import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "../src/client.js";
import { isSource, Sources } from "../src/sources.js";

test("a source that hangs holds nobody up, and old addresses hold meanwhile", async () => {
  const folder = await mkdtemp(join(tmpdir(), "sources-"));
  const file = join(folder, "names");
  await writeFile(file, "# ours\n127.0.0.1:2, 127.0.0.1:3\n");
  const sources = new Sources([`file:${file}`]);
  assert.deepEqual(await sources.addresses(), ["127.0.0.1:2", "127.0.0.1:3"]);
  await rm(file);
  execFileSync("mkfifo", [file]); // As a file of a server that is away: whoever reads it waits.
  sources.doubt();
  assert.deepEqual(await sources.addresses(), ["127.0.0.1:2", "127.0.0.1:3"]);
  const other = join(folder, "others");
  execFileSync("mkfifo", [other]);
  const client = new Client([`file:${other}`], { callTimeoutMs: 50 });
  await assert.rejects(client.route("orders"), /a source of name servers: no answer in time/);

  await Promise.all([writeFile(file, "127.0.0.1:4"), writeFile(other, "")]); // Both readings end.
  for (let known: readonly string[] = []; known[0] !== "127.0.0.1:4"; known = await sources.addresses()) await sleep(1);
  client.close();
  await rm(folder, { recursive: true });
});

test("the environment names name servers", () => {
  process.env["ARIANE_NAME_SERVERS"] = "127.0.0.1:2; names,";
  assert.throws(() => new Client(), /name server "names": host:port/);
  process.env["ARIANE_NAME_SERVERS"] = "127.0.0.1:2; 127.0.0.1:3,";
  new Client().close();
  delete process.env["ARIANE_NAME_SERVERS"];
  assert.throws(() => new Client(), /pass it, or set ARIANE_NAME_SERVERS/);
});

test("what can never be read is no source", () => {
  const sources = ["dns:names:9876", "dns:[::1]:9876", "file:names", "https://names", "http://names:80/list?of=all"];
  assert.deepEqual(sources.filter(isSource), sources);
  for (const wrong of ["dns:names", "dns:names:0", "dns:names:65536", "file:", "http://", "ftp://names/list", "names"]) {
    assert.throws(() => new Client([wrong]), /host:port, dns:host:port, file:path or a URL is expected/);
  }
});
