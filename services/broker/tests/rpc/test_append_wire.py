"""Requests of appends from bytes: large tables are cut, and give what Protocol Buffers would."""

from dataclasses import replace

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from ariane.broker.v1 import send_service_pb2 as send_pb
from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_broker.append.row_check import ROWS_MAX
from ariane_broker.rpc.translation import append_wire
from ariane_broker.rpc.translation.append_wire import CUT_BYTES_MIN, append_request
from ariane_record.single.wire_fields import length_prefix
from ariane_testkit.append_rows import rows_request
from services.broker.tests.append_side import wire

LARGE = b"x" * CUT_BYTES_MIN

tables = st.builds(
    send_pb.AppendTable,
    topics=st.lists(st.text(max_size=5), min_size=1, max_size=2),
    queue_ids=st.sampled_from([b"1234", b"12345678"]),
    record_counts=st.sampled_from([b"\1\0\0\0", b"\1\0\0\0\2\0\0\0"]),
    record_sizes=st.sampled_from([b"1234", b"1234" * 3]),
    tag_codes=st.sampled_from([b"1234", b"1234" * 3]),
    key_counts=st.sampled_from([b"\0", b"\0" * 3]),
    records_crc32=st.integers(0, (1 << 32) - 1),
)
of_all = {
    "trace_parents": st.lists(st.text(max_size=3), max_size=2),
}
requests = st.builds(
    send_pb.AppendRecordsRequest, table=tables, table_records=st.binary(max_size=300), **of_all
)


def table_of(count):
    table = send_pb.AppendTable(topics=[""] * count)
    return send_pb.AppendRecordsRequest(table=table).SerializeToString()


def seen(row):
    table = row.table
    if table is None:
        return (row.topics, [str(terms.refusal) for terms in row.terms])
    columns = (bytes(table.records), table.sizes.tobytes(), table.key_counts.tobytes(), table.crc32)
    return (row.topics, row.queue_ids, row.sequences, columns)


@given(requests)
def test_a_request_that_is_cut_is_the_same(request):
    raw = request.SerializeToString()
    whole = append_request(raw)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(append_wire, "CUT_BYTES_MIN", 0)
        cut = append_request(raw)
    assert [*cut.trace_parents] == [*whole.trace_parents] == [*request.trace_parents]
    assert seen(cut) == seen(whole)


def test_fields_may_come_in_any_order_and_the_last_records_count():
    row = wire("orders", 3, [LARGE])
    whole = rows_request([row], ["9"])
    head = send_pb.AppendRecordsRequest(table=whole.table).SerializeToString()
    early = send_pb.AppendRecordsRequest(table_records=b"early").SerializeToString()
    late = send_pb.AppendRecordsRequest(table_records=whole.table_records).SerializeToString()
    taken = append_request(early + late + TRACE + head)
    assert [*taken.trace_parents] == ["9"]
    assert seen(taken) == seen(append_request(whole.SerializeToString()))
    assert (taken.topics, bytes(taken.table.records)) == (["orders"], row.records)


@given(st.binary(min_size=1, max_size=40), st.integers(0, 60))
def test_an_undecodable_request_is_refused(noise, cut_at):
    raw = rows_request([wire("orders", 0, [LARGE])]).SerializeToString()
    for spoilt in (raw[:-1], raw + b"\x0a\xff\x01", raw + b"\x0b", raw[:cut_at] + noise + LARGE):
        try:
            found = append_request(spoilt)
        except DecodeError:
            continue  # Also of groups, which Protocol Buffers still knows.
        expected = send_pb.AppendRecordsRequest.FromString(spoilt)
        assert len(found) == len(expected.table.topics)


MANY = ROWS_MAX + 1
LONG = send_pb.AppendRecordsRequest(table_records=LARGE).SerializeToString()
TRACE = send_pb.AppendRecordsRequest(trace_parents=["9"]).SerializeToString()


@pytest.mark.parametrize(
    ("raw", "count"),
    [
        (table_of(MANY) + TRACE, MANY),
        (table_of(MANY) + LONG + TRACE, MANY),
        (LONG + table_of(MANY) + TRACE, MANY),
        (table_of(ROWS_MAX) + table_of(1) + TRACE, MANY),
    ],
)
def test_too_many_rows_are_refused_without_a_look_at_each(raw, count, monkeypatch):
    counted = []
    monkeypatch.setattr(append_wire, "list", counted.append, raising=False)
    rows = append_request(raw)
    assert (len(rows), rows.table, counted) == (count, None, [])


UNKNOWN = bytes([2 << 3 | 2, 1]) + b"g"
REPEATING = send_pb.AppendTable(key_counts=b"1").SerializeToString() * 50_000


@pytest.mark.parametrize("first", [LONG, table_of(2), b""])
@pytest.mark.parametrize(
    "many", [UNKNOWN * 200_000, length_prefix(4 << 3 | 2, len(REPEATING)) + REPEATING]
)
@pytest.mark.parametrize("last", [b"", LONG, table_of(3)])
def test_fields_without_end_are_left_to_protocol_buffers(first, many, last, monkeypatch):
    steps, fields_of = [], append_wire.fields_of

    def counted(message):
        for field in fields_of(message):
            steps.append(field.tag)
            yield field

    monkeypatch.setattr(append_wire, "fields_of", counted)
    raw = first + many + last + TRACE
    request, parsed = append_request(raw), send_pb.AppendRecordsRequest.FromString(raw)
    assert [*request.trace_parents] == ["9"]
    assert len(request) == len(parsed.table.topics)
    assert len(steps) < 5 * ROWS_MAX


@pytest.mark.parametrize(
    "senseless", [{"required_level": 99}, {"in_sync_min": -1}], ids=lambda each: next(iter(each))
)
def test_a_demand_that_makes_no_sense_names_its_field(senseless):
    row = replace(wire("orders", 0, [b"x"]), **senseless)
    rows = append_request(rows_request([row]).SerializeToString())
    refusal = rows.terms_of(0).refusal
    assert refusal.reason == ErrorReason.ERROR_REASON_FIELD_INVALID
    assert refusal.metadata["field"] == next(iter(senseless))
