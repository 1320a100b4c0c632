"""Batches of a table: taken at once, they are answered, and stored, as one by one."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ariane_broker.append import append
from ariane_broker.append.append import _RowByRow
from ariane_broker.append.rows import Rows
from ariane_broker.errors.public_errors import flush_unconfirmed
from ariane_record import ProducerSequence, RecordTable
from ariane_record.encoding.record_table import RECORD_CRCS_COUNT_MIN
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_servicekit import ServiceError
from ariane_storage.errors import StorageError
from services.broker.tests.append_side import (
    GOOD,
    HOST,
    NEXT,
    GatedFlush,
    Side,
    opened,
    parsed,
    wire,
    without_sequence,
)

queue_ids = st.integers(0, 3)
bodies = st.lists(st.binary(max_size=30), min_size=1, max_size=4)
sequences = st.none() | st.builds(
    ProducerSequence, st.just(7), st.sampled_from([0, 0, 1]), st.integers(0, 3)
)
usual = st.builds(
    wire, st.sampled_from(["a", "b", "mixed", "normal"]), queue_ids, bodies, sequences
) | st.builds(
    wire, st.sampled_from(["a", "fifo"]), queue_ids, bodies, sequences, groups=st.just("gggg")
)
unusual = st.sampled_from(
    [
        wire("unknown", 0, [b"x"]),
        wire("normal", 0, [b"x"], groups="g"),
        wire("normal", 0, [b"x"], properties={"DELAY": "3"}),
        wire("fifo", 0, [b"x", b"y"], groups="g"),
        wire("fifo", 0, [b"x"], groups="g", properties={"TRAN_MSG": "true"}),
        wire("closed", 0, [b"x"]),
        wire("SCHEDULE_TOPIC_XXXX", 0, [b"x"]),
        wire("a", 4, [b"x"]),
        wire("a", 0, [b"x" * 3001]),
        wire("a", 0, [b"x"], records_crc32=1),
        wire("a", 0, [b"x"], record_sizes=b"123"),
        without_sequence(wire("a", 0, [b"x"], ProducerSequence(9, 0, 0))),
        wire("a", 0, [b"x"], tag_codes=b""),
        wire("b", 0, [b"x"], ProducerSequence(9, 0, 5)),
    ]
)


@given(st.lists(st.lists(usual, min_size=1, max_size=9), min_size=1, max_size=3))
@settings(max_examples=20)
async def test_a_table_taken_at_once_is_answered_as_its_rows_one_by_one(requests):
    await both_ways(requests)


@given(
    st.lists(usual, min_size=1, max_size=6), st.lists(unusual, min_size=1, max_size=2), st.data()
)
@settings(max_examples=20)
async def test_a_refused_batch_affects_no_other(batches, refused, data):
    for batch in refused:
        batches.insert(data.draw(st.integers(0, len(batches))), batch)
    await both_ways([GOOD, batches, GOOD])


async def both_ways(requests):
    at_once, one_by_one = Side(), Side()
    # The first of a log goes one by one: there is no segment yet.
    for side in (at_once, one_by_one):
        await side.answer(parsed([GOOD[0]], joined=False))
    for request in requests:
        answers = [
            await side.answer(parsed(request, joined=joined))
            for side, joined in ((at_once, True), (one_by_one, False))
        ]
        assert answers[0] == answers[1]
    assert at_once.left() == one_by_one.left()


def was_at_once(side, batches):
    """Whether they are appended at once."""
    (rows,) = parsed(batches, joined=True)
    try:
        side.append_records._append_at_once(rows, HOST)
    except (_RowByRow, ServiceError, StorageError):
        return False
    return True


@pytest.fixture
async def side():
    made = Side()
    await made.answer(parsed([GOOD[0]], joined=False))
    return made


def test_usual_requests_are_taken_at_once(side):
    assert was_at_once(side, GOOD)
    assert was_at_once(side, NEXT)
    following = [wire("a", number, [b"t"], ProducerSequence(7, 0, 1)) for number in range(4)]
    assert was_at_once(side, [*GOOD, *following])


NORMAL = [wire("normal", number % 4, [b"n"] * 2) for number in range(4)]
FIFO = [wire("fifo", number % 4, [b"f", b"g"], groups="gh") for number in range(4)]


@pytest.mark.parametrize(
    "batches", [NORMAL, FIFO, [*NORMAL, *GOOD], [*FIFO, *NORMAL[:2], *GOOD, *FIFO]]
)
def test_batches_of_the_type_of_their_topic_are_taken_at_once(side, batches):
    assert was_at_once(side, batches)


@pytest.mark.parametrize(
    "other",
    [
        wire("normal", 0, [b"x", b"y"], groups=["", "g"]),
        wire("fifo", 0, [b"x", b"y"], groups="g"),
        wire("fifo", 0, [b"x", b"y"], groups=["", "g"]),
        wire("normal", 0, [b"x"], properties={"TIMER_DELIVER_MS": "1"}),
        wire("fifo", 0, [b"x"], groups="g", properties={"TIMER_DELAY_SEC": "1"}),
        wire("normal", 0, [b"x"], record_sizes=b"1234"),
    ],
)
def test_one_of_another_type_sends_all_one_by_one(side, other):
    end = side.store.max_offset
    assert not was_at_once(side, [*NORMAL, *FIFO, other, *GOOD])
    assert side.store.max_offset == end


def test_a_repeat_goes_one_by_one(side):
    assert was_at_once(side, NEXT)
    end = side.store.max_offset
    assert not was_at_once(side, [*GOOD, NEXT[2]])
    assert side.store.max_offset == end


async def test_the_answer_to_a_repeat_is_the_first_result(side):
    first = await side.answer(parsed(NEXT, joined=True))
    second = await side.answer(parsed([*NEXT, *GOOD], joined=True))
    assert [result.first_commit_log_offset for result in second[:4]] == [
        result.first_commit_log_offset for result in first
    ]
    assert [result.duplicate for result in second] == [True] * 4 + [False] * 8


async def test_a_poisoned_store_refuses_the_request(side):
    side.store._parts.guard._cause = OSError("gone")
    with pytest.raises(ServiceError) as raised:
        await side.answer(parsed(GOOD, joined=True))
    assert raised.value.row.name == "STORE_POISONED"


@pytest.fixture
async def flushed_side():
    made = Side(make_flush=GatedFlush)
    made.flush.gate.set()
    await made.answer(parsed([GOOD[0]], joined=False))
    made.flush.gate.clear()
    return made


async def test_rows_are_acknowledged_only_when_they_are_on_the_disk(flushed_side):
    taken = flushed_side.append_records.take(parsed([*GOOD, *NEXT], joined=True)[0], HOST)
    answer = asyncio.ensure_future(taken)
    await asyncio.sleep(0)
    assert not answer.done()
    assert flushed_side.store.max_offset > flushed_side.store.flushed_offset
    flushed_side.flush.gate.set()
    outcomes = await answer
    assert {outcome.level for outcome in outcomes} == {"flushed"}
    ends = {queue: flushed_side.store.queue_bounds(*queue) for queue in flushed_side.store.queues()}
    after = opened(flushed_side.disk.lose_power(7))
    assert {queue: after.queue_bounds(*queue) for queue in after.queues()} == ends
    after.close()


async def test_each_is_told_that_its_flush_is_not_confirmed(flushed_side):
    flushed_side.flush.error = flush_unconfirmed()
    flushed_side.flush.gate.set()
    (table,) = parsed(NEXT, joined=True)
    (first,) = await flushed_side.append_records.append(table, HOST)
    assert first.error.row.name == "FLUSH_UNCONFIRMED"
    # What is stored is not stored again, and is safe as soon as one flush is.
    flushed_side.flush.error = None
    second = await flushed_side.append_records.append(table, HOST)
    assert [outcome.error for outcome in second] == [None] * 4
    assert all(outcome.duplicate for outcome in second)
    firsts = [outcome.appended.first_commit_log_offset for outcome in second]
    assert firsts == first.appended.edges[:-1]


async def test_a_disk_that_fails_halfway_acknowledges_none_and_leaves_whole_records(side):
    side.store.flush()
    side.disk.write_fails_at = side.disk.writes + 1
    with pytest.raises(ServiceError) as raised:
        await side.answer(parsed([*GOOD, *NEXT], joined=True))
    assert raised.value.row.name == "STORE_POISONED"
    assert side.statistics.stored_batch_count == 1
    assert not len(side.sequences)
    after = opened(side.disk.kill())
    assert after.damage == ()
    assert after.queue_bounds("a", 0)[1] >= 3
    after.close()


def test_long_rows_are_appended_one_by_one(side, monkeypatch):
    """Their records have one size, and their sums, which a table of several rows cannot use."""
    monkeypatch.setattr(append, "LONG_ROW", RECORD_CRCS_COUNT_MIN)
    rows = [wire("a", number, [b"x"] * RECORD_CRCS_COUNT_MIN) for number in range(2)]
    assert not was_at_once(side, rows)
    rows[0] = wire("a", 0, [b"x"] * (RECORD_CRCS_COUNT_MIN - 1))
    assert was_at_once(side, rows)


def test_rows_with_sums_are_appended_at_once_where_they_are_not_long(side):
    encoder = BlockEncoder("a", size_bytes_max=1 << 20)
    for number in range(RECORD_CRCS_COUNT_MIN):
        encoder.add(b"%d" % number, unique_id="id", born_timestamp_ms=1)
    table = RecordTable.joined([encoder.finish()] * 2)
    assert table.record_crcs is not None
    rows = Rows(table.topics, (0, 1), table, (None, None))
    (outcome,) = side.append_records._append_at_once(rows, HOST)
    appended = outcome.appended
    assert appended.counts == [RECORD_CRCS_COUNT_MIN] * 2
    # Their sums are compared.
    found = [side.store.copy_at(place).body for place in appended.commit_log_offsets.tolist()]
    assert found == [b"%d" % number for number in range(RECORD_CRCS_COUNT_MIN)] * 2
