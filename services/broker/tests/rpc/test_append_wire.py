"""Requests of appends from bytes: large tables are cut, and give what Protocol Buffers would."""

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

LARGE = b"x" * CUT_BYTES_MIN

batches = st.builds(
    send_pb.AppendBatch,
    topic=st.text(max_size=5),
    queue_id=st.integers(-1, 1 << 30),
    record_sizes=st.sampled_from([b"", b"1234", b"12345678"]),
    key_counts=st.binary(max_size=3),
    records_crc32=st.integers(0, (1 << 32) - 1),
    sequence=st.none()
    | st.builds(send_pb.ProducerSequence, producer_id=st.integers(-1, (1 << 63) - 1)),
    records=st.binary(max_size=300),
)
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
    send_pb.AppendRecordsRequest, batches=st.lists(batches, max_size=4), **of_all
) | st.builds(
    send_pb.AppendRecordsRequest, table=tables, table_records=st.binary(max_size=300), **of_all
)


def table_of(count):
    table = send_pb.AppendTable(topics=[""] * count)
    return send_pb.AppendRecordsRequest(table=table).SerializeToString()


def seen(row):
    table = row.table
    if table is None:
        return (row.topics, str(row.error))
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
    assert list(map(seen, cut.tables)) == list(map(seen, whole.tables))


def test_fields_may_come_in_any_order_and_the_last_records_count():
    head = send_pb.AppendBatch(topic="orders", queue_id=3).SerializeToString()
    early = send_pb.AppendBatch(records=b"early").SerializeToString()
    late = send_pb.AppendBatch(records=LARGE).SerializeToString()
    parts = early + late + head
    wrapped = send_pb.AppendRecordsRequest(batches=[send_pb.AppendBatch.FromString(parts)])
    assert wrapped.batches[0].records == LARGE
    length = len(parts)
    varint = bytes((length & 0x7F | 0x80, length >> 7 & 0x7F | 0x80, length >> 14))
    (taken,) = append_request(b"\x0a" + varint + parts).tables
    assert (taken.table.topic, *taken.queue_ids, bytes(taken.table.records)) == ("orders", 3, LARGE)


@given(st.binary(min_size=1, max_size=40), st.integers(0, 60))
def test_an_undecodable_request_is_refused(noise, cut_at):
    batch = send_pb.AppendBatch(topic="orders", records=LARGE)
    raw = send_pb.AppendRecordsRequest(batches=[batch]).SerializeToString()
    for spoilt in (raw[:-1], raw + b"\x0a\xff\x01", raw + b"\x0b", raw[:cut_at] + noise + LARGE):
        try:
            found = append_request(spoilt)
        except DecodeError:
            continue  # Also of groups, which Protocol Buffers still knows.
        expected = send_pb.AppendRecordsRequest.FromString(spoilt)
        assert sum(map(len, found.tables)) == len(expected.batches)


MANY = ROWS_MAX + 1
NOTHING = send_pb.AppendRecordsRequest(batches=[{}]).SerializeToString()
LONG = send_pb.AppendRecordsRequest(batches=[{"records": LARGE}]).SerializeToString()
TRACE = send_pb.AppendRecordsRequest(trace_parents=["9"]).SerializeToString()


@pytest.mark.parametrize(
    ("raw", "count"),
    [
        (NOTHING * MANY + TRACE, MANY),
        (TRACE + LONG + NOTHING * MANY, MANY + 1),
        (table_of(MANY) + TRACE, MANY),
        (table_of(MANY) + LONG + TRACE, MANY + 1),
        (LONG + table_of(MANY) + TRACE, MANY + 1),
        (table_of(ROWS_MAX) + NOTHING + TRACE, MANY),
    ],
)
def test_too_many_batches_are_refused_without_a_look_at_each(raw, count):
    request = append_request(raw)
    (rows,) = request.tables
    assert (len(rows), rows.table) == (count, None)


UNKNOWN = bytes([2 << 3 | 2, 1]) + b"g"
REPEATING = send_pb.AppendBatch(key_counts=b"1").SerializeToString() * 50_000


@pytest.mark.parametrize("first", [LONG, table_of(2), b""])
@pytest.mark.parametrize("many", [UNKNOWN * 200_000, length_prefix(10, len(REPEATING)) + REPEATING])
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
    assert sum(map(len, request.tables)) == len(parsed.batches) + len(parsed.table.topics)
    assert len(steps) < 5 * ROWS_MAX


@pytest.mark.parametrize(
    "senseless", [{"required_level": 99}, {"in_sync_min": -1}], ids=lambda each: next(iter(each))
)
def test_a_demand_that_makes_no_sense_names_its_field(senseless):
    batch = send_pb.AppendBatch(topic="orders", **senseless)
    raw = send_pb.AppendRecordsRequest(batches=[batch]).SerializeToString()
    (taken,) = append_request(raw).tables
    assert taken.table is None
    assert taken.error.reason == ErrorReason.ERROR_REASON_FIELD_INVALID
    assert taken.error.metadata["field"] == next(iter(senseless))
