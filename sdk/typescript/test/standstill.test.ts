import assert from "node:assert/strict";
import { test } from "node:test";
import type { Delivery } from "../src/index.js";
import { Standstill } from "../src/standstill.js";

const delivery = (id: string) => ({ topic: "orders", brokerName: "broker-a", queueId: 3, id }) as Delivery;
const told = (seconds: number, count: number, oldest: string): string =>
  `orders@broker-a#3 of group waiters: no progress for ${seconds} s; the listener has ${count} message${count === 1 ? "" : "s"}, the oldest is ${oldest}`;

test("a message that a listener does not finish is told of, and again after twice the time", () => {
  const had = new Standstill("waiters");
  const after = (seconds: number): string | undefined => had.look(seconds * 1000);
  const end = had.begin(delivery("first"), 0);
  had.begin(delivery("second"), 30_000);
  assert.equal(after(59), undefined);
  assert.equal(after(61), told(61, 2, "first"));
  assert.equal(after(71), undefined);
  assert.equal(after(119), undefined);
  assert.equal(after(121), told(121, 2, "first"));
  end();
  assert.equal(after(122), told(92, 1, "second"));
  assert.equal(after(123), undefined);
});
