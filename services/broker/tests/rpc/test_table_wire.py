"""Tables are answered, and stored, as the batches are that they say by column."""

from __future__ import annotations

import asyncio
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ariane.broker.v1 import send_service_pb2 as send_pb
from ariane.common.v1.message_pb2 import ACKNOWLEDGED_LEVEL_FLUSHED
from ariane_broker.errors.public_errors import flush_unconfirmed
from ariane_broker.rpc.translation import append_wire
from ariane_broker.rpc.translation.append_wire import CUT_BYTES_MIN, append_request, append_response
from ariane_record import ProducerSequence
from ariane_record.layout import HEADER_BYTES
from ariane_testkit.append_rows import results_of, rows_request
from services.broker.tests.append_side import (
    GOOD,
    HOST,
    NEXT,
    GatedFlush,
    Side,
    int32s,
    parsed,
    wire,
)


def wrong_bodies(batch):
    """A batch whose bodies are others than those that it had."""
    records, place = bytearray(batch.records), 0
    for size in np.frombuffer(batch.record_sizes, "<i4").tolist():
        records[place + HEADER_BYTES] ^= 1
        place += size
    return replace(batch, records=bytes(records))


def understood(request):
    """A request as a broker understands it, in whichever way it was cut."""
    raw = request.SerializeToString()
    whole = append_request(raw)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(append_wire, "CUT_BYTES_MIN", 0)
        cut = append_request(raw)
    assert [*whole.trace_parents] == [*cut.trace_parents]
    assert said(whole) == said(cut)
    return whole, cut


def said(rows):
    """What rows say, each alone."""
    return [
        (
            row.topics[0],
            row.queue_ids[0],
            row.sequences[0],
            str(row.terms_of(0).refusal),
            row.table and (bytes(row.table.records), row.table.crc32),
            row.table and [column.tolist() for column in columns_of(row.table)],
        )
        for row in rows.each()
    ]


def columns_of(table):
    return table.sizes, table.tag_codes, table.key_counts, table.key_hashes


async def answered(side, request):
    outcomes = await side.append_records.append(request, HOST)
    raw = append_response(outcomes, request.counts)
    return send_pb.AppendRecordsResponse.FromString(raw)


topics = st.sampled_from(["a", "b", "mixed", "normal", "unknown", "closed"])
bodies = st.lists(st.binary(max_size=30), min_size=1, max_size=4)
plain = st.builds(wire, topics, st.integers(0, 4), bodies)
sequences = st.builds(ProducerSequence, st.just(7), st.integers(0, 1), st.integers(0, 3))
sequenced = st.builds(wire, topics, st.integers(0, 3), bodies, sequences)
requests = st.lists(plain, min_size=1, max_size=9) | st.lists(sequenced, min_size=1, max_size=9)


@given(st.lists(requests, min_size=1, max_size=3))
@settings(max_examples=60)
async def test_a_table_is_answered_as_its_batches(requests):
    as_table, one_by_one = Side(), Side()
    for side in (as_table, one_by_one):
        await side.answer(parsed([GOOD[0]], joined=False))
    for number, batches in enumerate(requests):
        request = understood(rows_request(batches))[number % 2]
        answer = await answered(as_table, request)
        expected = await one_by_one.answer(parsed(batches, joined=False))
        counts = [len(batch.key_counts) for batch in batches]
        assert results_of(answer, counts) == expected
    assert as_table.left() == one_by_one.left()


async def test_the_first_rows_of_a_log_are_stored():
    """There is no segment yet that they could be appended to at once."""
    side = Side()
    request, _ = understood(rows_request(GOOD))
    assert not (await answered(side, request)).table_result.rows
    assert not (await answered(side, request)).table_result.rows


async def test_a_table_waits_for_the_disk_and_each_batch_is_told_if_nobody_knows_of_it():
    side = Side(make_flush=GatedFlush)
    flush = side.flush
    flush.gate.set()
    await side.answer(parsed([GOOD[0]], joined=False))
    flush.error = flush_unconfirmed()
    request, _ = understood(rows_request(NEXT))
    unconfirmed = results_of(await answered(side, request), [1] * len(NEXT))
    for result in unconfirmed:
        assert result.error.message.startswith(flush_unconfirmed().message)
    flush.error = None
    again = results_of(await answered(side, request), [1] * len(NEXT))
    assert [each.duplicate for each in again] == [True] * len(NEXT)
    places = [each.first_commit_log_offset for each in unconfirmed]
    assert [each.first_commit_log_offset for each in again] == places == sorted(set(places))
    following = [wire("a", number, [b"t"], ProducerSequence(7, 0, 1)) for number in range(4)]
    request, _ = understood(rows_request(following))
    flush.gate.clear()
    answer = asyncio.ensure_future(answered(side, request))
    await asyncio.sleep(0)
    assert not answer.done()
    flush.gate.set()
    assert (await answer).table_result.acknowledged_level == ACKNOWLEDGED_LEVEL_FLUSHED


@given(requests)
@settings(max_examples=40)
def test_one_by_one_its_batches_are_those_that_came_together(batches):
    (request, _), single = understood(rows_request(batches)), parsed(batches, joined=False)
    assert said(request) == [each for rows in single for each in said(rows)]


BROKEN = [
    ("queue ids", {"queue_ids": int32s(range(7))}),
    ("record counts", {"record_counts": b"1"}),
    ("a row has no records", {"record_counts": int32s([0, 6, 3, 3, 3, 3, 3, 3])}),
    ("a row has no records", {"record_counts": int32s([-3, 9, 3, 3, 3, 3, 3, 3])}),
    ("record sizes", {"record_counts": int32s([3] * 7 + [2])}),
    ("record sizes", {"record_sizes": b"123"}),
    ("tag codes", {"tag_codes": b""}),
    ("key counts", {"key_counts": b"\2"}),
    ("key hashes", {"key_hashes": b"1234"}),
    ("producer epochs", {"producer_epochs": b"1234"}),
    ("producer epochs", {"producer_id": 7}),
    ("first sequences", {"producer_id": 7, "producer_epochs": int32s([0] * 8)}),
    ("first sequences", {"first_sequences": b"12345678"}),
    ("checksum differs", {"records_crc32": 1}),
    ("do not add up", {"record_sizes": int32s([100] * 24)}),
    ("do not add up", {"record_sizes": int32s([-1] * 24)}),
    ("do not add up", {"record_sizes": int32s([0x7FFFFFFF] * 24)}),
]


@pytest.mark.parametrize(("rule", "changes"), BROKEN)
async def test_of_a_broken_table_each_batch_is_refused(rule, changes):
    side = Side()
    await side.answer(parsed([GOOD[0]], joined=False))
    before = side.left()
    for request in understood(rows_request(GOOD, **changes)):
        answer = await answered(side, request)
        assert len(answer.table_result.rows) == len(GOOD)
        for result in answer.table_result.rows:
            assert rule in result.error.message
    assert side.left() == before


@pytest.mark.parametrize("batch_count", [2, 8, 64])
async def test_bodies_that_are_not_those_of_their_checksums_are_found(batch_count):
    side = Side()
    await side.answer(parsed([GOOD[0]], joined=False))
    batches = [wire("a", number % 4, [b"%d" % number] * 3) for number in range(batch_count)]
    request, _ = understood(rows_request([wrong_bodies(batch) for batch in batches]))
    answer = await answered(side, request)
    assert [result.error.message for result in answer.table_result.rows]
    for result in answer.table_result.rows:
        assert "the checksum of the body differs" in result.error.message


async def test_sizes_that_go_back_and_forth_have_nothing_copied_many_times():
    """Topics of a type are looked into before anybody knows that the sizes are sound."""
    side, pairs, up = Side(), 200, 100
    await side.answer(parsed([GOOD[0]], joined=False))
    sizes = [2500] * up + [-2500 * up]
    table = send_pb.AppendTable(
        topics=["normal"] * (2 * pairs),
        queue_ids=int32s([0] * (2 * pairs)),
        record_counts=int32s([up, 1] * pairs),
        record_sizes=int32s(sizes * pairs),
        tag_codes=int32s([0] * len(sizes) * pairs),
        key_counts=bytes(len(sizes) * pairs),
    )
    records = bytes(2500 * up)
    request, _ = understood(send_pb.AppendRecordsRequest(table=table, table_records=records))
    tracemalloc.start()
    answer = await answered(side, request)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(answer.table_result.rows) == 2 * pairs
    assert peak_bytes < 10 * len(records)


@pytest.mark.parametrize("producer_id", [-1, -(1 << 63)])
async def test_a_producer_that_nobody_can_be_is_refused(producer_id):
    side = Side()
    batches = [wire("a", number, [b"s"], ProducerSequence(7, 0, 0)) for number in range(4)]
    request, _ = understood(rows_request(batches, producer_id=producer_id))
    with pytest.raises(Exception, match="producer_id"):
        await answered(side, request)


async def test_a_table_of_nothing_is_refused():
    request = send_pb.AppendRecordsRequest(table=send_pb.AppendTable(), table_records=b"x")
    for each in understood(request):
        with pytest.raises(Exception, match="1 to 4096"):
            await answered(Side(), each)


def test_the_records_of_a_large_table_are_not_copied():
    batches = [wire("a", number % 4, [b"x" * 2000]) for number in range(CUT_BYTES_MIN // 2000)]
    raw = rows_request(batches).SerializeToString()
    assert len(raw) > CUT_BYTES_MIN
    records = append_request(raw).table.records
    assert isinstance(records, memoryview)
    assert records.obj is raw
