"""Two who end one transaction while its half message waits for the disk: one outcome stands."""

import asyncio
import json
from pathlib import Path

import pytest

from ariane_broker.topics.topic_table import TopicConfig
from ariane_broker.transactions.ending import EndRequest, TransactionEnds
from ariane_broker.transactions.recent_halves import RecentHalves
from ariane_broker.transactions.transaction_records import (
    Decision,
    HalfMessage,
    Outcome,
    half_message_of,
    half_properties,
)
from ariane_broker.transactions.transaction_table import TransactionTable
from ariane_record import decode_record
from ariane_record.names import HALF_TOPIC
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_servicekit.errors import ServiceError
from ariane_storage import FlushMode, Store
from ariane_storage.testing import FaultyDisk, FixedClock, small_config
from services.broker.tests.log_side import broker_log, flushed_promise

ORDERS = TopicConfig(topic="orders", read_queue_count=1, write_queue_count=1)


class HeldFlush:
    """A disk that confirms nothing before it is let go."""

    def __init__(self, store):
        self._store = store
        self.is_let_go = asyncio.Event()
        self.waiting_count = 0
        self._under_way = set()

    def when_flushed(self, commit_log_offset, on_done):
        self.waiting_count += 1
        self._under_way.add(asyncio.ensure_future(self._flush(on_done)))

    async def _flush(self, on_done):
        await self.is_let_go.wait()
        self._store.flush()
        on_done(None)


class Bench:
    """The half message ``t-1``, which is not flushed yet, and what ends it."""

    def __init__(self):
        self.store = Store.open(
            Path("/store"),
            small_config(flush_mode=FlushMode.SYNC),
            disk=FaultyDisk(),
            clock=FixedClock(),
        )
        self.flush = HeldFlush(self.store)
        log = self.log = broker_log(self.store, flushed_promise(self.flush.when_flushed))
        table = self.table = TransactionTable(decision_count_max=3)
        self.ends = TransactionEnds(
            log,
            table,
            lambda topic: ORDERS,
            recent=RecentHalves(),
            now_ms=lambda: 0,
            bytes_max=1000,
        )
        encoder = BlockEncoder(HALF_TOPIC, size_bytes_max=1000)
        properties = half_properties("orders", 0, "pay", "t-1")
        encoder.add(b"paid", unique_id="t-1", properties=properties, born_timestamp_ms=0)
        block = encoder.finish()
        appended = log.append(block)
        half = half_message_of(
            decode_record(block.records, verify=False),
            queue_offset=0,
            commit_log_offset=int(appended.first_commit_log_offset),
            store_timestamp_ms=0,
        )
        table.stored(half)

    def end(self, outcome):
        return asyncio.create_task(self._end(outcome), name=outcome.name)

    async def _end(self, outcome):
        requests = [EndRequest("orders", "t-1", "t-1", outcome, "pay")]
        (ended,) = await self.ends.finish(requests, self.ends.end(requests))
        await self.log.promised()
        if isinstance(ended, Exception):
            raise ended
        return ended

    async def wait_for(self, waiting_count):
        async with asyncio.timeout(60):
            while self.flush.waiting_count < waiting_count:  # noqa: ASYNC110 - nobody tells.
                await asyncio.sleep(0)

    @property
    def visible_count(self):
        return self.store.queue_bounds("orders", 0)[1]


async def test_two_commits_at_once_make_one_message():
    bench = Bench()
    calls = [bench.end(Outcome.COMMIT), bench.end(Outcome.COMMIT)]
    await bench.wait_for(2)
    bench.flush.is_let_go.set()
    ended = await asyncio.gather(*calls)
    assert [each.duplicate for each in ended] == [False, True]
    assert ended[0].place.queue_offset == ended[1].place.queue_offset == 0
    assert bench.visible_count == 1


async def test_a_commit_that_waits_loses_to_a_rollback_that_does_not():
    bench = Bench()
    late = bench.end(Outcome.COMMIT)
    await bench.wait_for(1)
    first = bench.end(Outcome.ROLLBACK)
    await bench.wait_for(2)
    bench.flush.is_let_go.set()
    assert (await first).outcome is Outcome.ROLLBACK
    with pytest.raises(ServiceError) as refused:
        await late
    assert refused.value.metadata["outcome"] == "ROLLBACK"
    assert bench.visible_count == 0


async def test_the_message_of_a_forgotten_commit_is_found_among_others_of_its_id():
    bench = Bench()
    bench.flush.is_let_go.set()
    await bench.end(Outcome.COMMIT)
    encoder = BlockEncoder("orders", size_bytes_max=1000)
    encoder.add(b"sent again, as an ordinary message", unique_id="t-1", born_timestamp_ms=0)
    bench.log.append(encoder.finish())
    bench.table.clear()
    ended = await bench.end(Outcome.COMMIT)
    assert (ended.duplicate, ended.place.queue_offset) == (True, 0)
    assert bench.visible_count == 2


def test_an_outcome_that_memory_forgets_is_written_nevertheless_once_there_is_room():
    table = TransactionTable(decision_count_max=1)
    decisions = [Decision(f"t-{place}", "orders", Outcome.COMMIT, place) for place in range(3)]
    for place, decision in enumerate(decisions):
        table.stored(HalfMessage(decision.transaction_id, "orders", 0, "pay", place, place, 0))
        table.decided(decision)
    assert [decision for _, decision in table.owed()] == decisions
    again = TransactionTable(decision_count_max=1)
    again.load(json.loads(json.dumps(table.snapshot(7)())))
    assert again.owed() == table.owed()


def test_no_op_record_names_a_half_message_that_is_lost():
    """It would settle the next one, which gets its queue offset."""
    table = TransactionTable(decision_count_max=9)
    for place in range(4):
        table.stored(HalfMessage(f"t-{place}", "orders", 0, "pay", place, place, 0))
    for place in (1, 2):
        table.decided(Decision(f"t-{place}", "orders", Outcome.COMMIT, place))
    table.forget_lost({(HALF_TOPIC, 0): 2}.__getitem__)
    assert [half.transaction_id for half, _ in table.owed()] == ["t-1"]
    assert [half.transaction_id for half in table.pending()] == ["t-0"]
