"""The append use case against a scripted store."""

import asyncio
from itertools import accumulate
from pathlib import Path

import pytest

from ariane_broker.append.append import AppendRecords
from ariane_broker.append.rows import Rows, RowTerms
from ariane_broker.errors.public_errors import flush_unconfirmed
from ariane_broker.errors.store_errors import STORAGE_RULES
from ariane_broker.log.derived.producer_sequences import ProducerSequences
from ariane_broker.log.promise import AcknowledgedLevel, Demand, LonePromises
from ariane_broker.log.statistics import BrokerStatistics
from ariane_broker.topics.topic_table import TopicConfig
from ariane_record import RecordTable
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_servicekit import ErrorTranslator, ServiceError
from ariane_storage.errors import StoreFull, StorePoisoned
from ariane_storage.writing.append import Appended
from services.broker.tests.log_side import Grown, broker_log, flushed_promise

HOST = ("127.0.0.1", 1)


class ScriptedLog:
    """Appends, or raises what it is told."""

    def __init__(self):
        self.errors = []
        self.end = 0

    def append(self, table, *queue_ids, born_host, sequences):
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error
        edges = list(accumulate((row.size_bytes for row in table.rows()), initial=self.end))
        self.end = edges[-1]
        return Appended([0] * len(table), table.counts, edges, 5, edges[:-1])


class ScriptedTopics:
    def find(self, topic):
        return TopicConfig(topic=topic, read_queue_count=1, write_queue_count=1)

    async def create_for_send(self, topic, queue_id, check):
        raise AssertionError(topic)


class ScriptedFlush:
    """Keeps what was waited for; fails when told."""

    def __init__(self):
        self.waited = []
        self.error = None

    def when_flushed(self, commit_log_offset, on_done):
        self.waited.append(commit_log_offset)
        asyncio.get_running_loop().call_soon(on_done, self.error)


class ScriptedArrivals:
    def __init__(self):
        self.keys = []

    def appended(self, queues, next_commit_log_offsets, _tag_codes=None, _counts=()):
        self.keys += queues


@pytest.fixture
def parts():
    class Parts:
        log = ScriptedLog()
        flush = ScriptedFlush()
        arrivals = ScriptedArrivals()
        statistics = BrokerStatistics()
        keeping = Grown()

    return Parts


@pytest.fixture
def append_records(parts):
    sequences = ProducerSequences(now_ms=lambda: 10, expiry_ms=1000, stream_count_max=10)
    return AppendRecords(
        broker_log(
            parts.log,
            flushed_promise(parts.flush.when_flushed),
            sequences=sequences,
            arrivals=parts.arrivals,
            keeping=parts.keeping,
            statistics=parts.statistics,
        ),
        ScriptedTopics(),
        sequences,
        None,
        body_bytes_max=100,
        check_table=lambda table: None,
        service_error=ErrorTranslator(STORAGE_RULES).service_error,
    )


def batch(*bodies, queue_id=0, demand=None):
    encoder = BlockEncoder("orders", size_bytes_max=1 << 20)
    for body in bodies or (b"a",):
        encoder.add(body, born_timestamp_ms=1)
    terms = demand and RowTerms(demand=demand)
    return Rows.one(encoder.finish(), queue_id, terms=terms)


def together(*rows):
    """Rows in one table."""
    table = RecordTable.joined([row.table for row in rows])
    queue_ids = [row.queue_ids[0] for row in rows]
    terms = [row.terms_of(0) for row in rows] if any(row.terms for row in rows) else None
    return Rows(table.topics, queue_ids, table, [None] * len(rows), terms)


async def test_a_call_waits_once_for_all_its_batches(append_records, parts):
    outcomes = await append_records.append(together(batch(), batch(), batch()), HOST)
    assert parts.flush.waited == [outcomes[-1].appended.next_commit_log_offset]
    assert {outcome.level for outcome in outcomes} == {AcknowledgedLevel.FLUSHED}
    assert parts.keeping.ends[-1:] == parts.flush.waited
    assert len(parts.arrivals.keys) == parts.statistics.stored_batch_count == 3


async def test_an_unconfirmed_flush_is_told_for_what_is_stored(append_records, parts):
    parts.flush.error = flush_unconfirmed()
    full = StoreFull(Path("s"), "the disk is full")
    parts.log.errors = [full, None, full]  # All at once, then one by one.
    stored, refused = await append_records.append(together(batch(), batch()), HOST)
    assert stored.appended is not None
    assert stored.error.row.name == "FLUSH_UNCONFIRMED"
    assert stored.level is AcknowledgedLevel.MEMORY
    assert refused.appended is None
    assert refused.error.row.name == "STORE_FULL"


async def test_a_request_of_refused_rows_waits_for_no_promise(append_records, parts):
    parts.log.errors = [StoreFull(Path("s"), "the disk is full")]
    await append_records.append(batch(), HOST)
    assert parts.flush.waited == parts.keeping.ends == parts.arrivals.keys == []


async def test_a_poisoned_store_refuses_the_call(append_records, parts):
    parts.log.errors = [StorePoisoned(OSError("no"))] * 2
    with pytest.raises(ServiceError) as raised:
        await append_records.append(together(batch(), batch()), HOST)
    assert raised.value.row.name == "STORE_POISONED"


async def test_poisoned_after_the_first_batch_keeps_its_outcome(append_records, parts):
    full = StoreFull(Path("s"), "the disk is full")
    parts.log.errors = [full, None, StorePoisoned(OSError("no"))]  # All at once, then one by one.
    first, second = await append_records.append(together(batch(), batch()), HOST)
    assert first.appended is not None
    assert second.error.row.name == "STORE_POISONED"


async def test_the_limit_is_for_bodies_and_not_for_records(append_records):
    (outcome,) = await append_records.append(batch(b"x" * 100), HOST)
    assert outcome.error is None
    (outcome,) = await append_records.append(batch(b"x", b"x" * 101, b"x"), HOST)
    assert outcome.error.row.name == "MESSAGE_TOO_LARGE"
    assert outcome.error.metadata == {
        "size_bytes": "101",
        "limit_bytes": "100",
        "position": "1",
    }


@pytest.mark.parametrize("count", [0, 4097])
async def test_the_number_of_batches_is_bounded(append_records, count):
    rows = together(*[batch()] * count) if count else Rows((), (), None, ())
    with pytest.raises(ServiceError) as raised:
        await append_records.append(rows, HOST)
    assert raised.value.row.name == "FIELD_INVALID"


async def test_a_draining_broker_takes_nothing(append_records, parts):
    append_records.draining = True
    with pytest.raises(ServiceError) as raised:
        await append_records.append(batch(), HOST)
    assert raised.value.row.name == "SERVICE_DRAINING"
    assert parts.log.end == 0


@pytest.fixture
def lone_append(parts):
    """A broker that promises memory only."""
    sequences = ProducerSequences(now_ms=lambda: 10, expiry_ms=1000, stream_count_max=10)
    log = broker_log(parts.log, sequences=sequences, promises=LonePromises("async", parts.flush))
    return AppendRecords(
        log,
        ScriptedTopics(),
        sequences,
        None,
        body_bytes_max=100,
        check_table=lambda table: None,
        service_error=ErrorTranslator(STORAGE_RULES).service_error,
    )


async def test_only_who_demands_more_waits_for_the_disk(lone_append, parts):
    plain, flushed = batch(), batch(demand=Demand(AcknowledgedLevel.FLUSHED))
    assert [one.level for one in await lone_append.append(plain, HOST)] == ["memory"]
    assert parts.flush.waited == []
    outcomes = await lone_append.append(together(plain, flushed, plain), HOST)
    assert [one.level for one in outcomes] == ["memory", "flushed", "memory"]
    assert parts.flush.waited == [outcomes[1].appended.next_commit_log_offset]


async def test_a_failed_demand_is_told_to_who_made_it(lone_append, parts):
    parts.flush.error = flush_unconfirmed()
    flushed = batch(demand=Demand(AcknowledgedLevel.FLUSHED))
    failed, stored = await lone_append.append(together(flushed, batch()), HOST)
    assert failed.appended is not None
    assert failed.error.row.name == "FLUSH_UNCONFIRMED"
    assert (stored.error, stored.level) == (None, "memory")


async def test_a_row_whose_demand_cannot_be_kept_is_not_stored(lone_append, parts):
    replicated = batch(demand=Demand(AcknowledgedLevel.REPLICATED, 2))
    refused, stored = await lone_append.append(together(replicated, batch()), HOST)
    assert refused.appended is None
    assert refused.error.row.name == "TOO_FEW_IN_SYNC"
    assert stored.level == "memory"


async def test_rows_that_go_one_by_one_leave_others_their_turns(lone_append):
    rows = [batch(demand=Demand(AcknowledgedLevel.MEMORY)) for _ in range(300)]
    turns, is_over = 0, False

    async def count_turns():
        nonlocal turns
        while not is_over:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    outcomes = await lone_append.append(together(*rows), HOST)
    is_over = True
    await counting
    assert [one.level for one in outcomes] == ["memory"] * 300
    assert turns >= 300 // 64
