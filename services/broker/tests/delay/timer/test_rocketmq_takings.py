"""What waits goes by the log alone: RocketMQ's files, damaged or not, take out nothing."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from ariane.broker.v1 import broker_service_pb2 as broker_pb
from ariane_broker.log.derived.log_rows import is_of_topic, records_where
from ariane_record import encode_block
from ariane_record.names import TIMER_TOPIC
from ariane_storage.store import Store

CHECK_BITS = 448
HOUR_MS = 3_600_000


def in_an_hour(count=1):
    return np.full(count, time.time_ns() // 1_000_000 + HOUR_MS, "<i8").tobytes()


async def waiting(broker):
    state = await broker.broker.GetBrokerState(broker_pb.GetBrokerStateRequest())
    return state.delayed_messages.timed_pending_count


async def come(broker, count):
    """The messages of the topic, sorted, once there are so many and time was for more."""
    async with asyncio.timeout(60):
        while len(await broker.bodies("orders")) < count:  # noqa: ASYNC110 - a broker.
            await asyncio.sleep(0.02)
    await asyncio.sleep(0.2)
    return sorted(await broker.bodies("orders"))


@pytest.fixture
def rocketmq(tmp_path, settings_for):
    """The closed store, for copies of parked records as RocketMQ makes them."""

    @contextmanager
    def run():
        with Store.open(tmp_path / "store", settings_for().store_config()) as store:
            yield RocketmqAtWork(store)

    return run


class RocketmqAtWork:
    """Takes records out of the timer topic as RocketMQ does."""

    def __init__(self, store):
        self.store = store

    def parked(self, body):
        """The parked records with a body."""
        for stretch in self.store.stretches(0):
            for record in records_where(stretch, is_of_topic(stretch, TIMER_TOPIC)):
                if record.body == body:
                    yield record

    def deliver(self, body):
        (record,) = self.parked(body)
        properties = {**record.properties, "TIMER_DEQUEUE_MS": "1"}
        topic = properties.pop("REAL_TOPIC")
        self.append(replace(record, topic=topic, properties=properties), properties.pop("REAL_QID"))

    def roll(self, body):
        record = next(self.parked(body))
        said = {"TIMER_DEQUEUE_MS": "1", "TIMER_ROLL_TIMES": "1"}
        self.append(replace(record, properties={**record.properties, **said}), 0)

    def recall(self, body):
        (record,) = self.parked(body)
        kept = ("REAL_TOPIC", "REAL_QID", "TIMER_OUT_MS", "UNIQ_KEY", "TIMER_DELIVER_MS")
        properties = {name: record.properties[name] for name in kept}
        properties["TIMER_DEL_UNIQKEY"] = "orders+" + properties["UNIQ_KEY"]
        self.append(replace(record, body=b"0", properties=properties), 0)

    def append(self, record, queue_id):
        block = encode_block(record.topic, [record])
        if record.topic == TIMER_TOPIC:
            due = np.array([int(record.properties["TIMER_DELIVER_MS"])], np.int64)
            block = replace(block, delivery_times_ms=due)
        self.store.append(block, int(queue_id))


async def test_no_flipped_bit_of_timercheck_takes_out_what_waits(running, tmp_path):
    path = tmp_path / "store" / "config" / "timercheck"
    async with running() as broker:
        await broker.create_topic("orders")
        await broker.store("orders", [b"a", b"b"], delivery_times_ms=in_an_hour(2))
    for bit in range(1, CHECK_BITS, 37):
        content = bytearray(path.read_bytes())
        content[bit // 8] ^= 0x80 >> bit % 8
        path.write_bytes(content)
        async with running() as broker:
            assert await waiting(broker) == 2, bit


async def test_what_rocketmq_took_out_by_the_log_does_not_come(running, rocketmq, clock):
    async with running() as broker:
        await broker.create_topic("orders")
        await broker.store(
            "orders", [b"theirs", b"ours", b"rolled", b"back"], delivery_times_ms=in_an_hour(4)
        )
    with rocketmq() as at_work:
        at_work.deliver(b"theirs")
        at_work.roll(b"rolled")
        at_work.recall(b"back")
    for _ in range(2):
        async with running() as broker:
            assert await waiting(broker) == 3, "ours, the copy of rolled, and the note"
            assert await broker.bodies("orders") == [b"theirs"]
    clock.advance(3600)
    async with running() as broker:
        assert await come(broker, 3) == [b"ours", b"rolled", b"theirs"]


async def test_of_two_that_are_alike_one_still_comes(running, rocketmq, clock):
    async with running() as broker:
        await broker.create_topic("orders")
        await broker.store("orders", [b"first"], delivery_times_ms=in_an_hour())
        for _ in range(2):
            await broker.store("orders", [b"twin"], delivery_times_ms=in_an_hour())
    with rocketmq() as at_work:
        twin = next(at_work.parked(b"twin"))
        taken = {"TIMER_DEQUEUE_MS": "1", "UNIQ_KEY": twin.properties["UNIQ_KEY"]}
        at_work.append(replace(twin, topic="orders", properties=taken), 0)
    clock.advance(3600)
    async with running() as broker:
        assert await come(broker, 3) == [b"first", b"twin", b"twin"]
