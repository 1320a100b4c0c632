"""Batches whose records have delivery times, over deaths and power cuts at any step of any call.

Each record comes once, none before its time, and what was due at the commit with the commit.
"""

import asyncio
import random
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from ariane_broker.delay.delivery import Delivery
from ariane_broker.delay.parked.parked_queue import ParkedRows
from ariane_broker.delay.parking import Parking
from ariane_broker.delay.timer.timer_handover import TimerHandover
from ariane_broker.delay.timer.timer_queue import TIMER_QUEUE, TimerQueue
from ariane_broker.spark_batches import batch_publication
from ariane_broker.spark_batches.batch_commits import BatchCommits
from ariane_broker.spark_batches.batch_coordinator import BatchCoordinator
from ariane_broker.spark_batches.batch_publication import BatchPublication
from ariane_broker.spark_batches.batch_staging import BatchStaging
from ariane_broker.spark_batches.records.batch_records import (
    AttemptKey,
    BatchKey,
    Contents,
    NamedAttempt,
    StageRequest,
    checksum_of,
)
from ariane_broker.spark_batches.records.batch_table import BatchTable
from ariane_broker.spark_batches.records.stage_format import StagedBlock
from ariane_broker.spark_batches.sink_peers import SinkPeers
from ariane_broker.topics.topic_table import TopicConfig
from ariane_record import decode_record
from ariane_record.names import TIMER_TOPIC
from ariane_storage import FlushMode, Store
from ariane_storage.config import DELAY_LEVELS_MS
from ariane_storage.testing import FaultyDisk, FixedClock, PowerLost, block_of, small_config
from services.broker.tests.log_side import FlushedAtOnce, broker_log

ROOT = Path("/store")
HOST = ("10.1.2.3", 4000)
QUEUES = 2
NAME = "broker-a"
ORDERS = TopicConfig(topic="orders", read_queue_count=QUEUES, write_queue_count=QUEUES)
DAY_MS = 86_400_000
PUT_MS = DAY_MS
"""Times are not later than that."""


class Topics:
    def find(self, topic):
        return ORDERS if topic == "orders" else None

    async def create_for_send(self, topic, queue_id, check):
        return ORDERS


class Arrivals:
    def appended(self, queue, next_commit_log_offset, _tag_codes=None, _counts=()):
        pass


class DyingLog:
    """The store of a process that dies right before one of its appends."""

    def __init__(self, store):
        self._store = store
        self.left = None

    def __getattr__(self, name):
        return getattr(self._store, name)

    def append(self, table, *queue_ids, **fields):
        if self.left == 0:
            raise PowerLost
        if self.left is not None:
            self.left -= 1
        return self._store.append(table, *queue_ids, **fields)


class PublicationWithoutLoop(BatchPublication):
    """Does what is to be done while somebody waits for it, and dies with him."""

    async def finish(self, query_id):
        await self.turn()


class Broker:
    """The rooms of batches and of delay on one store, which dies and starts again."""

    def __init__(self, dice):
        self.dice = dice
        self.disk, self.clock = FaultyDisk(), FixedClock()
        self.config = small_config(flush_mode=FlushMode.SYNC, segment_bytes=1 << 16)
        self.documents = [None, None]
        self.start()

    def start(self, *, days_max=40):
        self.store = store = Store.open(ROOT, self.config, disk=self.disk, clock=self.clock)
        now_ms = self.clock.now_ms
        self.table, self.timer = (
            BatchTable(),
            TimerQueue(store, TimerHandover(FaultyDisk(), Path("/store")), now_ms=now_ms),
        )
        for state, document in zip((self.table, self.timer), self.documents, strict=True):
            begin = store.min_offset if document is None else state.load(document())
            if begin > store.max_offset:
                state.clear()
                begin = store.min_offset
            for stretch in store.stretches(begin):
                state.replay(stretch.between(begin, store.max_offset))
            state.forget_lost(lambda queue: store.queue_end(*queue))
            state.keep_topics(lambda topic: True)
        self.log = DyingLog(store)
        log = broker_log(self.log, FlushedAtOnce(store))
        log.listen(TIMER_QUEUE.topic, self.parked)
        parking = Parking(
            levels_ms=DELAY_LEVELS_MS,
            delay_ms_max=days_max * DAY_MS,
            now_ms=now_ms,
            check_table=lambda block: None,
        )
        # One broker alone calls no other.
        coordinator = BatchCoordinator(
            log, self.table, Mock(SinkPeers), broker_name=NAME, now_ms=now_ms
        )
        self.publication = PublicationWithoutLoop(
            log, self.table, Topics().find, parking, coordinator, clock=self.clock
        )
        self.staging = BatchStaging(
            log,
            self.table,
            Topics(),
            parking,
            now_ms=now_ms,
            body_bytes_max=4000,
            is_draining=lambda: False,
        )
        self.commits = BatchCommits(
            log,
            self.table,
            self.publication,
            coordinator,
            broker_name=NAME,
            now_ms=now_ms,
            chance=self.dice,
        )
        self.delivery = Delivery(log, Topics().find)

    def parked(self, block, queue_id, appended):
        self.timer.parked(ParkedRows.appended(appended, block.delivery_times_ms))

    def die(self, **limits):
        """By kill -9 or by power loss, and come back."""
        if self.dice.random() < 0.5:
            self.disk = self.disk.kill()
        else:
            self.disk = self.disk.lose_power(self.dice.randrange(1 << 30))
        self.start(**limits)

    def save(self):
        self.store.flush()
        end = self.store.max_offset
        self.documents = [self.table.snapshot(end), self.timer.snapshot(end)]

    async def stage(self, batch_id, partition_id, token, numbers, times_ms):
        block = block_of(
            "orders",
            [b"%d" % number for number in numbers],
            tags=["t"] * len(numbers),
            keys=[[f"k{number}"] for number in numbers],
            unique_ids=[f"{token}-{number}" for number in numbers],
        )
        await self.staging.stage(
            StageRequest(
                BatchKey("q", batch_id),
                AttemptKey(partition_id, token),
                StagedBlock(
                    block,
                    np.array([number % QUEUES for number in numbers], np.int32),
                    np.array(times_ms, np.int64),
                ),
            ),
            HOST,
        )

    async def commit(self, batch_id, attempts):
        contents = Contents(sum(attempt.record_count for attempt in attempts), batch_id)
        return await self.commits.commit(BatchKey("q", batch_id), attempts, contents)

    def attempt(self, batch_id, partition_id, token):
        """What a commit says of an attempt."""
        stages = self.table.staged[BatchKey("q", batch_id)][partition_id, token]
        count = sum(stage.record_count for stage in stages)
        return NamedAttempt(partition_id, token, count, checksum_of(stages))

    def deliver(self):
        more = True
        while more:
            more = self.timer.refill()
            if len(rows := self.timer.take_due(3)):
                more = True
                try:
                    self.delivery.deliver(TIMER_QUEUE, self.timer.pending(rows), self.timer.mark)
                finally:
                    self.timer.give_back(rows)
        # What could still vanish is shown to nobody.
        self.store.flush()

    def messages(self, topic="orders", queues=QUEUES):
        found = []
        for queue_id in range(queues):
            low, high = self.store.queue_bounds(topic, queue_id)
            while low < high:
                read = self.store.read_queue(topic, queue_id, low, max_count=100, max_bytes=1 << 20)
                joined, begin = b"".join(read.chunks), 0
                for size in read.sizes.tolist():
                    found.append(decode_record(joined[begin : begin + size]))
                    begin += size
                low = read.next_queue_offset
        return found


async def write_batch(broker, batch_id, dice, numbers):
    """Stage a batch by several tasks, of which some lose; its times, and what a commit names."""
    times, attempts = {}, []
    for partition_id in range(3):
        for token in ("lost", "won"):
            for _ in range(dice.randrange(1, 3)):
                rows = [next(numbers) for _ in range(dice.randrange(1, 9))]
                now_ms = broker.clock.now_ms()
                choices = (0, 1, now_ms - 5, now_ms + 1, now_ms + dice.randrange(1, PUT_MS))
                due = {row: dice.choice(choices) for row in rows}
                await broker.stage(batch_id, partition_id, token, rows, list(due.values()))
                if token == "won":  # noqa: S105 - no password.
                    times |= due
        attempts.append(broker.attempt(batch_id, partition_id, "won"))
    return times, attempts


async def through_deaths(broker, dice, call, deaths):
    """Call until it succeeds; it dies before an append, or at a step of the disk."""
    for left in range(deaths, -1, -1):
        if left and dice.random() < 0.8:
            broker.log.left = dice.randrange(20)
        elif left:
            broker.disk.power_fails_at = broker.disk.steps + dice.randrange(1, 4)
        try:
            await call()
        except PowerLost:
            broker.die()
            if dice.random() < 0.3:
                broker.save()
            broker.clock.advance(dice.randrange(PUT_MS // 4))
            continue
        broker.disk.power_fails_at = broker.log.left = None
        return


@pytest.mark.parametrize("seed", range(24))
async def test_each_comes_once_and_none_early_whatever_dies(monkeypatch, seed):
    dice = random.Random(seed)
    # Two records or so are parked in one go.
    monkeypatch.setattr(batch_publication, "PARKED_BYTES_MAX", 2600)
    broker = Broker(dice)
    expected, numbers = {}, iter(range(10_000))
    for batch_id in range(3):
        times, attempts = await write_batch(broker, batch_id, dice, numbers)
        if dice.random() < 0.3:
            assert not await broker.commits.abort(BatchKey("q", batch_id))
            continue
        expected |= times
        begin_ms = broker.clock.now_ms()

        async def commit(batch_id=batch_id, attempts=tuple(attempts)):
            return await broker.commit(batch_id, attempts)

        await through_deaths(broker, dice, commit, deaths=dice.randrange(4))
        visible = {int(message.body) for message in broker.messages()}
        assert {row for row, time_ms in times.items() if time_ms <= begin_ms} <= visible
        if dice.random() < 0.5:
            broker.save()
        broker.clock.advance(dice.randrange(PUT_MS // 2))

        async def deliver():
            broker.deliver()

        await through_deaths(broker, dice, deliver, deaths=dice.randrange(2))
        if dice.random() < 0.5:
            broker.die()
        assert (await commit()).duplicate
    broker.clock.advance(PUT_MS)
    broker.deliver()
    found = broker.messages()
    assert sorted(int(message.body) for message in found) == sorted(expected)
    for message in found:
        assert message.store_timestamp_ms >= expected[int(message.body)]
        assert message.keys == (f"k{int(message.body)}",)
        properties = dict(message.properties)
        due_ms = expected[int(message.body)]
        assert int(properties.pop("TIMER_DELIVER_MS", due_ms)) == due_ms
        assert set(properties) == {"TAGS", "KEYS", "UNIQ_KEY"}
        assert (message.queue_id, message.born_host) == (int(message.body) % QUEUES, HOST)
    broker.die()
    broker.deliver()
    assert len(broker.messages()) == len(found)
    assert not broker.table.publications


async def test_what_was_due_at_the_commit_never_waits_and_the_rest_does():
    broker = Broker(random.Random(0))
    now_ms = broker.clock.now_ms()
    times = [0, now_ms, now_ms + 1, now_ms + 10]
    await broker.stage(0, 0, "a", range(4), times)
    broker.clock.advance(5)
    await broker.commit(0, [broker.attempt(0, 0, "a")])
    assert sorted(int(message.body) for message in broker.messages()) == [0, 1, 2]
    (waiting,) = broker.messages(TIMER_TOPIC, 1)
    assert waiting.properties["REAL_QID"] == "1"
    broker.deliver()
    assert len(broker.messages()) == 3
    broker.clock.advance(5)
    broker.deliver()
    assert sorted(int(message.body) for message in broker.messages()) == [0, 1, 2, 3]


async def test_rows_staged_under_a_longer_limit_are_committed():
    broker = Broker(random.Random(0))
    due_ms = broker.clock.now_ms() + DAY_MS
    await broker.stage(0, 0, "a", range(4), [due_ms] * 4)
    broker.die(days_max=0)
    await broker.commit(0, [broker.attempt(0, 0, "a")])
    assert broker.messages() == []
    broker.clock.time_ms = due_ms
    broker.deliver()
    assert sorted(int(message.body) for message in broker.messages()) == [0, 1, 2, 3]


async def test_others_have_their_turn_between_parts_that_are_parked(monkeypatch):
    monkeypatch.setattr(batch_publication, "PARKED_BYTES_MAX", 1)
    broker = Broker(random.Random(0))
    due_ms = broker.clock.now_ms() + 10
    await broker.stage(0, 0, "a", range(8), [due_ms] * 8)
    turns = 0

    async def take_turns():
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    others = asyncio.create_task(take_turns())
    await broker.commit(0, [broker.attempt(0, 0, "a")])
    others.cancel()
    assert turns > 6
    assert len(broker.messages(TIMER_TOPIC, 1)) == 8
