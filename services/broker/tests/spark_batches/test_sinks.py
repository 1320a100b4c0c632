"""Sinks: which broker each writes to, moving them, deleting them, and their long memory."""

import json
import zlib
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import AsyncMock

import numpy as np
import pytest

from ariane.broker.v1.sink_service_pb2 import (
    CommittedBatch,
    DeleteSinkRequest,
    GetSinkHomeRequest,
    ListSinksRequest,
    NoteSinkHomeRequest,
    SinkHome,
)
from ariane.broker.v1.transaction_service_pb2 import (
    BatchAttempt,
    CommitBatchRequest,
    StageBatchRecordsRequest,
)
from ariane_broker.log.broker_log import BrokerLog
from ariane_broker.spark_batches import batch_staging
from ariane_broker.spark_batches import sinks as sinks_module
from ariane_broker.spark_batches.batch_staging import BatchStaging
from ariane_broker.spark_batches.batch_upkeep import QUERY_IDLE_MS, BatchUpkeep
from ariane_broker.spark_batches.records.batch_progress import Progress
from ariane_broker.spark_batches.records.batch_records import (
    AttemptKey,
    BatchEvent,
    BatchKey,
    Contents,
    Stage,
    batch_event_of,
)
from ariane_broker.spark_batches.records.batch_table import BatchTable
from ariane_broker.spark_batches.records.sink_homes import SinkHome as Home
from ariane_broker.spark_batches.sinks import NOTE_AGE_MS_MAX, Sinks
from ariane_record.testing.block_encoder import BlockEncoder

DAY_MS = 86_400_000


def stage_call(broker, bodies, batch=0, **fields):
    encoder = BlockEncoder("orders", size_bytes_max=1 << 20)
    for body in bodies:
        encoder.add(body, born_timestamp_ms=1_700_000_000_000)
    block = encoder.finish()
    request = StageBatchRecordsRequest(
        query_id="q",
        batch_id=batch,
        attempt_token="a",
        topic="orders",
        record_sizes=block.sizes.astype("<i4").tobytes(),
        tag_codes=block.tag_codes.astype("<i4").tobytes(),
        key_counts=block.key_counts.tobytes(),
        key_hashes=block.key_hashes.astype("<i4").tobytes(),
        records_crc32=block.crc32,
        queue_ids=(np.arange(len(bodies)) % 2).astype("<i4").tobytes(),
        records=bytes(block.records),
    )
    request.MergeFrom(StageBatchRecordsRequest(**fields))
    return broker.transactions.StageBatchRecords(request), block.crc32


async def stage(broker, bodies, batch=0, **fields):
    """Stage; give the attempt as a commit names it."""
    call, crc = stage_call(broker, bodies, batch, **fields)
    count = (await call).record_count
    checksum = zlib.crc32(crc.to_bytes(4, "little"))
    return BatchAttempt(attempt_token="a", record_count=count, checksum=checksum)


def commit_call(broker, *attempts, batch=0, content_sum=9, count=None):
    request = CommitBatchRequest(
        query_id="q",
        batch_id=batch,
        attempts=attempts,
        record_count=sum(each.record_count for each in attempts) if count is None else count,
        content_sum=content_sum,
    )
    return broker.transactions.CommitBatch(request)


async def visible(broker):
    return [await broker.bodies("orders", queue_id) for queue_id in (0, 1)]


def note_call(broker, home, query="q", topic="orders"):
    request = NoteSinkHomeRequest(query_id=query, topic=topic, home=home)
    return broker.sinks.NoteSinkHome(request)


async def note(broker, home, **fields):
    return (await note_call(broker, home, **fields)).home


async def noted(broker, query="q"):
    answer = await broker.sinks.GetSinkHome(GetSinkHomeRequest(query_id=query, topic="orders"))
    return answer.home if answer.HasField("home") else None


async def sinks(broker, **fields):
    answer = await broker.sinks.ListSinks(ListSinksRequest(**fields))
    return list(answer.sinks)


@pytest.fixture
async def orders(broker):
    await broker.create_topic("orders", 2)
    return broker


@pytest.fixture
def here(settings_for):
    return SinkHome(broker_name=settings_for().broker_name)


def moved(here, move_count=1, **fields):
    return SinkHome(broker_name="elsewhere", move_count=move_count, **fields)


async def test_the_higher_of_two_notes_stands(orders, here):
    assert await noted(orders) is None
    assert await note(orders, here) == here == await noted(orders)
    # Nobody chooses anew for a sink that was moved, and of two first choices one is the same
    # everywhere.
    lower, higher = SinkHome(broker_name="a"), SinkHome(broker_name="z")
    assert await note(orders, lower) == here
    assert await note(orders, higher) == higher
    again = SinkHome(broker_name=here.broker_name, move_count=1)
    assert await note(orders, again) == again
    assert await note(orders, higher) == again


async def test_a_broker_decides_nothing_for_a_sink_whose_home_is_elsewhere(orders, here, refused):
    await note(orders, here)
    first = await stage(orders, [b"0", b"1"])
    await commit_call(orders, first)
    waiting = await stage(orders, [b"2"], batch=1)

    home = await note(orders, moved(here))

    # It may stage, for whoever decides.
    await stage(orders, [b"3"], batch=1, attempt_token="b")
    failure = await refused(commit_call(orders, waiting, batch=1))
    assert (failure.reason, failure.code) == ("SINK_MOVED", "FAILED_PRECONDITION")
    assert failure.metadata["home"] == "elsewhere"
    # What was committed before is recognised still, and is what the note tells.
    assert (await commit_call(orders, first)).duplicate
    assert home.committed_batch_id == 0
    [told] = home.committed_batches
    assert (told.batch_id, told.record_count, told.content_sum) == (0, 2, 9)
    assert told.decision_id
    assert await visible(orders) == [[b"0"], [b"1"]]
    [sink] = await sinks(orders)
    assert (sink.staged_record_count, sink.batch_id) == (2, 0)
    assert sink.home == moved(here)


@pytest.mark.parametrize("snapshot", [True, False])
async def test_a_sink_that_was_moved_here_knows_what_was_committed_before(
    running, tmp_path, refused, here, snapshot
):
    batches = [CommittedBatch(batch_id=n, record_count=5, content_sum=n) for n in (6, 7)]
    home = SinkHome(
        broker_name=here.broker_name,
        move_count=3,
        committed_batch_id=7,
        committed_batches=batches,
    )
    async with running() as broker:
        await broker.create_topic("orders", 2)
        assert await note(broker, home) == home
    if not snapshot:
        for path in (tmp_path / "store" / "config").glob("batchTransactions.json*"):
            path.unlink()
    async with running() as broker:
        assert await noted(broker) == home
        assert (await commit_call(broker, batch=7, count=5, content_sum=7)).duplicate
        call = commit_call(broker, batch=6, count=5, content_sum=7)
        assert (await refused(call)).reason == "BATCH_DIFFERS"
        assert (await refused(stage_call(broker, [b"0"], batch=7)[0])).reason == (
            "TRANSACTION_DECIDED"
        )
        await commit_call(broker, await stage(broker, [b"0", b"1"], batch=8), batch=8)
        assert await visible(broker) == [[b"0"], [b"1"]]
        [sink] = await sinks(broker)
        assert (sink.query_id, sink.topic, sink.batch_id, sink.record_count) == (
            *("q", "orders"),
            *(8, 2),
        )


@pytest.mark.parametrize("snapshot", [True, False])
async def test_a_deleted_sink_is_forgotten_and_what_is_visible_stays(
    running, tmp_path, refused, here, snapshot
):
    async with running() as broker:
        await broker.create_topic("orders", 2)
        await note(broker, here)
        attempt = await stage(broker, [b"0", b"1"])
        await commit_call(broker, attempt)
        await stage(broker, [b"22", b"33", b"44"], batch=1)
        await note(broker, here, query="other")
        [sink] = await sinks(broker, query_id="q")
        assert sink.staged_record_count == 3
        assert sink.staged_bytes > 6
        deleted = await broker.sinks.DeleteSink(DeleteSinkRequest(query_id="q"))
        assert (deleted.dropped_record_count, deleted.lost_record_count) == (3, 0)
        again = broker.sinks.DeleteSink(DeleteSinkRequest(query_id="q"))
        assert (await refused(again)).reason == "SINK_NOT_FOUND"
    if not snapshot:
        for path in (tmp_path / "store" / "config").glob("batchTransactions.json*"):
            path.unlink()
    async with running() as broker:
        assert [sink.query_id for sink in await sinks(broker)] == ["other"]
        assert await visible(broker) == [[b"0"], [b"1"]]
        await commit_call(broker, await stage(broker, [b"5"]))
        assert await visible(broker) == [[b"0", b"5"], [b"1"]]


async def test_sinks_come_in_pages(orders, here):
    for number in range(5):
        await note(orders, here, query=f"q{number}")
    names, token = [], ""
    while True:
        answer = await orders.sinks.ListSinks(ListSinksRequest(page_size=2, page_token=token))
        names += [sink.query_id for sink in answer.sinks]
        token = answer.next_page_token
        if not token:
            break
    assert names == ["q0", "q1", "q2", "q3", "q4"]


async def test_an_invalid_home_is_refused(orders, here, refused):
    batches = [CommittedBatch(batch_id=n) for n in (2, 1)]
    name, wide = here.broker_name, ["x" * 200 + str(number) for number in range(99)]
    for home, field in (
        (SinkHome(), "home.broker_name"),
        (SinkHome(broker_name="x" * 256), "home.broker_name"),
        (SinkHome(broker_name="a\nb"), "home.broker_name"),
        (SinkHome(broker_name=name, broker_names=wide), "home.broker_names"),
        (SinkHome(broker_name=name, move_count=-1), "home.move_count"),
        (SinkHome(broker_name=name, committed_batch_id=-1), "home.committed_batch_id"),
        (SinkHome(broker_name=name, committed_batches=batches), "home.committed_batches"),
        (
            SinkHome(broker_name=name, committed_batch_id=2, committed_batches=batches),
            "home.committed_batches",
        ),
        (
            SinkHome(
                broker_name=name,
                committed_batch_id=999,
                committed_batches=[CommittedBatch(batch_id=n) for n in range(129)],
            ),
            "home.committed_batches",
        ),
    ):
        failure = await refused(note_call(orders, home))
        assert (failure.reason, failure.metadata["field"]) == ("FIELD_INVALID", field), home
    for query in ("", "x" * 256, "a\x1bb"):
        assert (await refused(note_call(orders, here, query=query))).reason == "FIELD_INVALID"
    assert (await refused(note_call(orders, here, topic="a\tb"))).reason == "FIELD_INVALID"
    assert await sinks(orders) == []


async def test_so_much_is_staged_and_so_much_of_one_user(running, here, refused, monkeypatch):
    """Each stage is remembered until its batch is committed, or for days."""
    monkeypatch.setattr(batch_staging, "STAGES_MAX", 8)

    async with running() as broker:
        await broker.create_topic("orders", 2)
        for query, user in (("q", "anna"), ("other", "anna"), ("ben's", "ben")):
            as_user = "ariane_broker.rpc.servicers.sink_servicer.user_name"
            monkeypatch.setattr(as_user, lambda user=user: user)
            await note(broker, here, query=query)
        for batch in range(3):
            await stage(broker, [b"0"], batch=batch)
        await stage(broker, [b"0"], query_id="other")
        full = stage_call(broker, [b"0"], batch=3)[0]
        assert (await refused(full)).reason == "SERVICE_BUSY"
        # What was staged before is no more by being staged again; others have the other half.
        await stage(broker, [b"0"], batch=2, record_count_before=0)
        for batch in range(4):
            await stage(broker, [b"0"], batch=batch, query_id="ben's")
        full = stage_call(broker, [b"0"], batch=4, query_id="ben's")[0]
        assert (await refused(full)).reason == "SERVICE_BUSY"
    async with running() as broker:
        full = stage_call(broker, [b"0"], batch=4, query_id="ben's")[0]
        assert (await refused(full)).reason == "SERVICE_BUSY"
        # A commit makes room: earlier batches are dropped with it.
        deleted = await broker.sinks.DeleteSink(DeleteSinkRequest(query_id="q"))
        assert deleted.dropped_record_count == 3
        await stage(broker, [b"0"], query_id="other", batch=1)


def test_stages_are_counted_through_all_that_drops_them():
    table = BatchTable()

    def add(query, batch, count=2):
        for number in range(count):
            place = Stage(100 * batch + number, 1, 7, 1700, 10)
            table.add_stage(BatchKey(query, batch), AttemptKey(number % 2, "t"), place)

    def counted():
        whole = {}
        for batch, attempts in table.staged.items():
            stages = sum(map(len, attempts.values()))
            whole[batch.query_id] = whole.get(batch.query_id, 0) + stages
        assert dict(table.stage_counts) == whole
        assert table.stage_count == sum(whole.values())
        return whole

    for query in ("q", "r"):
        for batch in range(5):
            add(query, batch, 3)
    assert counted() == {"q": 15, "r": 15}
    table.drop(BatchKey("q", 4))
    table.drop(BatchKey("q", 4))
    table.commit(BatchKey("q", 1), (), Progress(1, 500, 1700, {1: Contents(3, 9)}))
    assert counted() == {"q": 6, "r": 15}
    table.delete_query("r", ())
    assert counted() == {"q": 6}
    again = BatchTable()
    again.take_over(json.loads(json.dumps(table.copied()())))
    assert (again.stage_count, again.stage_counts) == (6, table.stage_counts)
    table.clear()
    assert counted() == {}


async def test_a_broker_knows_so_many_sinks_and_so_many_of_one_user(
    orders, here, refused, monkeypatch
):
    """Who may send to some topic may note sinks, and each is kept for months."""
    sinks_of = [("anna", 3), ("ben", 3), ("", 2)]
    monkeypatch.setattr(sinks_module, "SINKS_OF_USER_MAX", 3)
    monkeypatch.setattr(sinks_module, "SINKS_MAX", 8)
    for user, count in sinks_of:
        monkeypatch.setattr("ariane_broker.rpc.servicers.sink_servicer.user_name", lambda u=user: u)
        for number in range(count):
            await note(orders, here, query=f"{user}-{number}")
        more = note_call(orders, here, query=f"{user}-more")
        assert (await refused(more)).reason == "FIELD_INVALID"
        # What is there is noted again.
        await note(orders, here, query=f"{user}-0")
    await orders.sinks.DeleteSink(DeleteSinkRequest(query_id="anna-1"))
    await note(orders, here, query="more")
    assert len(await sinks(orders)) == 8


def damage(store, body):
    """Change the last byte of some bytes in the commit log."""
    for path in (store / "commitlog").iterdir():
        with path.open("r+b") as file:
            place = file.read().find(body)
            if place >= 0:
                file.seek(place + len(body) - 1)
                file.write(b"?")
                return
    raise AssertionError(f"{body!r} is not in the log")


async def test_a_damaged_batch_is_read_once_told_to_everybody_and_can_be_given_up(
    running, tmp_path, refused, monkeypatch
):
    reads = []
    message_at = BrokerLog.message_at

    def counted(self, commit_log_offset):
        reads.append(commit_log_offset)
        return message_at(self, commit_log_offset)

    monkeypatch.setattr(BrokerLog, "message_at", counted)
    monkeypatch.setattr("ariane_broker.spark_batches.batch_publication.RETRY_SECONDS", 0.001)
    async with running() as broker:
        await broker.create_topic("orders", 2)
        attempt = await stage(broker, [b"1", b"a body to damage"])
        damage(tmp_path / "store", b"a body to damage")
        for _ in range(3):
            failure = await refused(commit_call(broker, attempt))
            assert (failure.reason, failure.code) == ("RECORD_CORRUPTED", "DATA_LOSS")
        # What comes later waits: a later batch must not be visible before an earlier one.
        later = await stage(broker, [b"later"], batch=1)
        assert (await refused(commit_call(broker, later, batch=1))).reason == "RECORD_CORRUPTED"
        assert len(reads) == 1
    async with running() as broker:
        assert (await refused(commit_call(broker, attempt))).reason == "RECORD_CORRUPTED"
        assert len(reads) == 2
        [sink] = await sinks(broker)
        assert sink.publishing
        assert "damaged" in sink.failure or "checksum" in sink.failure
        deleted = await broker.sinks.DeleteSink(DeleteSinkRequest(query_id="q"))
        assert (deleted.lost_record_count, deleted.dropped_record_count) == (2, 1)
        await commit_call(broker, await stage(broker, [b"anew"]))
        assert await visible(broker) == [[b"anew"], []]
    async with running() as broker:
        [sink] = await sinks(broker)
        assert (sink.publishing, sink.failure) == (False, "")
        assert await visible(broker) == [[b"anew"], []]


async def test_a_batch_that_the_store_refuses_is_told_and_can_be_given_up(
    orders, refused, monkeypatch
):
    """Such as one that was staged by an earlier release, which checked less."""

    async def check_nothing(self, staged):
        pass

    monkeypatch.setattr(BatchStaging, "_check_block", check_nothing)
    lies = np.array([7, 7], "<i4").tobytes()
    attempt = await stage(orders, [b"0", b"1"], tag_codes=lies)
    for _ in range(2):
        failure = await refused(commit_call(orders, attempt))
        assert (failure.reason, failure.code) == ("RECORD_CORRUPTED", "DATA_LOSS")
    [sink] = await sinks(orders)
    assert sink.publishing
    assert "its tag code is not that of its tag" in sink.failure
    deleted = await orders.sinks.DeleteSink(DeleteSinkRequest(query_id="q"))
    assert deleted.lost_record_count == 2
    await commit_call(orders, await stage(orders, [b"anew"]))
    assert await visible(orders) == [[b"anew"], []]


class LogOfOne:
    """A log that keeps the records of the batch topic, and gives each the next place."""

    def __init__(self):
        self.records = []
        self.store = SimpleNamespace(offset_before=lambda when_ms: len(self.records) + 1)

    def append_records(self, topic, records):
        self.records += records
        return SimpleNamespace(first_commit_log_offset=len(self.records))

    async def promised(self, end=None):
        pass


async def test_a_home_that_is_asked_for_is_remembered_for_ever_and_another_is_not():
    log, table, now = LogOfOne(), BatchTable(), 1_700_000_000_000
    clock = SimpleNamespace(ms=now)
    asked = Sinks(log, table, None, None, broker_name="broker-b", now_ms=lambda: clock.ms)
    upkeep = BatchUpkeep(
        *(log, table, None, None),
        now_ms=lambda: clock.ms,
        expiry_ms=7 * DAY_MS,
        retention_ms=3 * DAY_MS,
    )
    for query in ("writes", "silent"):
        await asked.note_home(query, "orders", Home("broker-a", 0))
    table.commit(BatchKey("writes", 4), [], Progress(4, 1, clock.ms, {4: Contents(2, 9)}))

    for _ in range(2 * QUERY_IDLE_MS // DAY_MS):
        clock.ms += NOTE_AGE_MS_MAX + 1
        # Whoever writes asks first; its home is another broker, which alone hears of commits.
        assert asked.home_of("writes") == Home("broker-a", 0)
        await upkeep.turn()

    assert set(table.homes) == {"writes"}
    assert table.progress["writes"].batch_id == 4
    replayed = BatchTable()
    for place, record in enumerate(log.records, 1):
        event, _, _ = batch_event_of(record)
        assert event in {BatchEvent.HOME, BatchEvent.PROGRESS}
        replayed.restore(replace(record, commit_log_offset=place))
    del replayed.homes["silent"]  # The log says it until it is cut.
    assert replayed.homes["writes"] == table.homes["writes"]
    assert replayed.progress == table.progress


async def test_a_silent_sink_is_not_forgotten_while_a_broker_waits_for_a_word_about_it():
    log, table, now = LogOfOne(), BatchTable(), 1_700_000_000_000
    clock = SimpleNamespace(ms=now)
    asked = Sinks(log, table, None, None, broker_name="broker-b", now_ms=lambda: clock.ms)
    parts = SimpleNamespace(settle=AsyncMock())
    upkeep = BatchUpkeep(
        *(log, table, None, parts),
        now_ms=lambda: clock.ms,
        expiry_ms=7 * DAY_MS,
        retention_ms=3 * DAY_MS,
    )
    for query in ("tells", "hears", "silent"):
        await asked.note_home(query, "orders", Home("broker-a", 0))
    table.prepare(BatchKey("hears", 4), 7, [0])
    told = Progress(4, 1, now, {4: Contents(2, 9)})
    table.commit(BatchKey("tells", 4), [], told, ["broker-z"])
    clock.ms += QUERY_IDLE_MS + 1
    await upkeep.turn()
    assert set(table.homes) == {"tells", "hears"}
    table.release(BatchKey("hears", 4), 7)
    table.notified(BatchKey("tells", 4), ["broker-z"])
    await upkeep.turn()
    assert set(table.homes) == set()
