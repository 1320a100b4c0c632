"""Chunks without bodies say the same as whole records."""

import numpy as np
import pytest
from google.protobuf.message import DecodeError

from ariane.broker.v1.pull_service_pb2 import PullRangeResponse
from ariane_record import RecordCorrupted, RecordFields, encode_record
from ariane_record.decoding.arrow import to_arrow
from ariane_record.decoding.columns import decode_columns
from ariane_record.layout import HEADER_BYTES
from ariane_spark.calls.range_chunks import HeadersTooShort, decode_chunk, wire_chunk
from ariane_spark.records.columns import COLUMNS, Detail


def answer_of(*fields):
    """What the broker makes of some records, every projection at once."""
    records = [encode_record(one) for one in fields]
    sizes = np.array([len(record) for record in records], "<i4")
    columns = decode_columns(b"".join(records), sizes)
    starts, lengths = columns.properties_start, columns.properties_length
    everything = b"".join(records)
    return PullRangeResponse(
        next_queue_offset=7,
        record_sizes=sizes.tobytes(),
        records=everything,
        headers=b"".join(record[:HEADER_BYTES] for record in records),
        properties=b"".join(
            everything[start : start + length]
            for start, length in zip(starts, lengths, strict=True)
        ),
        property_ends=np.cumsum(lengths).astype("<i4").tobytes(),
    )


def chunk_of(*fields):
    return wire_chunk(answer_of(*fields).SerializeToString())


def message(number, **given):
    properties = {"TAGS": f"tag-{number}", "KEYS": "a b"} if number % 2 else {}
    return RecordFields(
        topic="orders",
        body=b"x" * number,
        properties=properties,
        queue_offset=number,
        store_timestamp_ms=number,
        attempts=number,
        **given,
    )


@pytest.mark.parametrize("detail", list(Detail))
def test_every_level_of_detail_gives_the_same_columns(detail):
    chunk = chunk_of(*map(message, range(5)))
    names = [
        column.field.name
        for column in COLUMNS
        if column.detail <= detail and column.field.name not in {"topic", "brokerName"}
    ]

    batch = to_arrow(decode_chunk(chunk, detail), names)

    assert batch.equals(to_arrow(decode_chunk(chunk, Detail.RECORDS), names))
    assert batch.num_rows == 5


@pytest.mark.parametrize("host", ["born_host", "store_host"])
def test_headers_that_were_cut_off_are_not_believed(host):
    chunk = chunk_of(message(0), message(1, **{host: ("::1", 10911)}))

    assert len(decode_chunk(chunk, Detail.RECORDS)) == 2
    with pytest.raises(HeadersTooShort):
        decode_chunk(chunk, Detail.POSITIONS)


@pytest.mark.parametrize(
    "broken",
    [
        {"headers": b"x" * 87},
        {"property_ends": b""},
        {"property_ends": b"abc"},
        {"property_ends": np.array([9, 3, 1], "<i4").tobytes()},
        {"properties": b"too long" * 100},
    ],
    ids=str,
)
def test_parts_that_do_not_fit_together_are_refused(broken):
    answer = answer_of(*map(message, range(3)))
    for name, value in broken.items():
        setattr(answer, name, value)

    with pytest.raises(RecordCorrupted):
        decode_chunk(wire_chunk(answer.SerializeToString()), Detail.PROPERTIES)


@pytest.mark.parametrize("detail", list(Detail))
def test_sizes_that_are_no_numbers_are_refused(detail):
    answer = answer_of(*map(message, range(3)))
    answer.record_sizes = answer.record_sizes[:-1]

    with pytest.raises(RecordCorrupted, match="11 bytes of sizes"):
        decode_chunk(wire_chunk(answer.SerializeToString()), detail)


def test_an_answer_is_taken_apart_without_a_copy():
    answer = answer_of(*map(message, range(3)))
    octets = answer.SerializeToString()
    chunk = wire_chunk(octets)

    assert chunk.records.obj is octets
    assert chunk.records == answer.records
    assert (chunk.headers, chunk.properties) == (answer.headers, answer.properties)
    assert chunk.head == PullRangeResponse(
        next_queue_offset=7,
        record_sizes=answer.record_sizes,
        property_ends=answer.property_ends,
    )


def test_an_answer_without_records_is_taken_apart():
    chunk = wire_chunk(PullRangeResponse(next_queue_offset=9).SerializeToString())

    assert chunk.head.next_queue_offset == 9
    assert not chunk.head.record_sizes
    assert not chunk.records


@pytest.mark.parametrize("octets", [b"\x7a\x05abc", b"\x08", b"\x0b"])
def test_bytes_that_are_no_answer_are_refused(octets):
    with pytest.raises(DecodeError):
        wire_chunk(octets)
