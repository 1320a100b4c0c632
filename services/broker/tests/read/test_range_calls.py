"""PullRange: ranges, projections, filters, errors."""

import numpy as np
import pytest

from ariane.broker.v1 import pull_service_pb2 as pull_pb
from ariane.common.v1 import subscription_pb2 as subscription_pb
from ariane_broker.read.range_pull import Projection, RangeChunk, project
from ariane_broker.rpc.translation.pull_wire import range_answer
from ariane_record import RecordFields, decode_properties, encode_record
from ariane_record.decoding.columns import decode_columns
from ariane_record.layout import HEADER, SystemFlag


async def read_range(broker, begin, end, **fields):
    request = pull_pb.PullRangeRequest(
        topic="orders", queue_id=0, begin_queue_offset=begin, end_queue_offset=end, **fields
    )
    return [chunk async for chunk in broker.pulls.PullRange(request)]


def bodies_of_chunks(chunks):
    bodies = []
    for chunk in chunks:
        columns = decode_columns(chunk.records, np.frombuffer(chunk.record_sizes, "<i4"))
        bodies += [columns.message(place).body for place in range(len(columns))]
    return bodies


async def test_a_range_ends_where_it_is_told(broker):
    bodies = [b"%03d" % number * 400 for number in range(400)]
    await broker.store("orders", bodies)
    chunks = await read_range(broker, 7, 333, chunk_bytes=64 << 10)
    assert len(chunks) > 3
    assert bodies_of_chunks(chunks) == bodies[7:333]
    assert chunks[-1].next_queue_offset == 333
    ends = [chunk.next_queue_offset for chunk in chunks]
    assert ends == sorted(set(ends))


async def test_beyond_the_readable_end_means_the_readable_end(broker):
    await broker.store("orders", [b"a", b"b"])
    chunks = await read_range(broker, 1, 2**62)
    assert bodies_of_chunks(chunks) == [b"b"]
    assert chunks[-1].next_queue_offset == 2


async def test_an_empty_range_has_no_chunks(broker):
    await broker.store("orders", [b"a", b"b"])
    assert await read_range(broker, 1, 1) == []
    assert await read_range(broker, 2, 5) == []


async def test_headers_leave_bodies_in_the_broker(broker):
    await broker.store("orders", [b"x" * 3000, b"", b"y" * 10], tags=("a", "b", "c"))
    (chunk,) = await read_range(broker, 0, 3, projection=pull_pb.RANGE_PROJECTION_HEADERS)
    assert chunk.records == b""
    headers = np.frombuffer(chunk.headers, HEADER)
    assert headers["queue_offset"].tolist() == [0, 1, 2]
    assert headers["body_length"].tolist() == [3000, 0, 10]
    assert headers["size"].tolist() == np.frombuffer(chunk.record_sizes, "<i4").tolist()
    ends = np.frombuffer(chunk.property_ends, "<i4").tolist()
    starts = [0, *ends[:-1]]
    properties = [
        decode_properties(chunk.properties[start:end])
        for start, end in zip(starts, ends, strict=True)
    ]
    assert [pairs["TAGS"] for pairs in properties] == ["a", "b", "c"]
    assert [pairs["UNIQ_KEY"] for pairs in properties] == ["id-0", "id-1", "id-2"]


async def test_positions_are_headers_alone(broker):
    await broker.store("orders", [b"x" * 3000, b"y"])
    (chunk,) = await read_range(broker, 0, 9, projection=pull_pb.RANGE_PROJECTION_POSITIONS)
    assert len(chunk.headers) == 2 * HEADER.itemsize
    assert chunk.properties == chunk.property_ends == chunk.records == b""


@pytest.mark.parametrize("pieces", [(), (b"",), (b"abc",), (memoryview(b"ab"), b"c" * 200)])
@pytest.mark.parametrize("ends", [None, np.array([2, 3], np.int32)])
def test_bytes_are_what_protocol_buffers_would_write(pieces, ends):
    sizes = np.array([7, 300], np.int32)
    chunk = RangeChunk(
        next_queue_offset=1 << 40,
        sizes=sizes,
        records=pieces,
        headers=b"h" * 176,
        properties=b"ppp",
        property_ends=ends,
    )
    assert pull_pb.PullRangeResponse.FromString(range_answer(chunk)) == pull_pb.PullRangeResponse(
        next_queue_offset=1 << 40,
        record_sizes=sizes.tobytes(),
        headers=b"h" * 176,
        properties=b"ppp",
        property_ends=b"" if ends is None else ends.tobytes(),
        records=b"".join(pieces),
    )


V4, V6 = ("10.1.2.3", 4567), ("2001:db8::1", 8765)


@pytest.mark.parametrize("projection", [Projection.HEADERS, Projection.POSITIONS])
def test_headers_of_records_with_ipv6_hosts_are_laid_out_as_with_ipv4(projection):
    hosts = [(V4, V4), (V6, V4), (V4, V6), (V6, V6), (V4, V4)]
    records = [
        encode_record(
            RecordFields(
                topic="orders",
                body=b"x" * place,
                properties={"TAGS": f"tag-{place}"},
                queue_offset=place,
                system_flag=SystemFlag.MULTI_TAGS,
                born_host=born_host,
                store_host=store_host,
                store_timestamp_ms=1000 + place,
                attempts=place,
                half_offset=place + 7,
            )
        )
        for place, (born_host, store_host) in enumerate(hosts)
    ]
    sizes = np.array(list(map(len, records)), np.int32)
    chunk = project(records, sizes, 5, projection)
    headers = np.frombuffer(chunk.headers, HEADER)
    assert headers["size"].tolist() == sizes.tolist()
    assert headers["queue_offset"].tolist() == headers["attempts"].tolist() == [0, 1, 2, 3, 4]
    assert headers["body_length"].tolist() == [0, 1, 2, 3, 4]
    assert headers["store_timestamp"].tolist() == [1000, 1001, 1002, 1003, 1004]
    assert headers["half_offset"].tolist() == [7, 8, 9, 10, 11]
    born, store = SystemFlag.BORN_HOST_IPV6, SystemFlag.STORE_HOST_IPV6
    flags = headers["system_flag"] ^ SystemFlag.MULTI_TAGS
    assert flags.tolist() == [0, born, store, born | store, 0]
    ip = int.from_bytes(bytes([10, 1, 2, 3]))
    assert headers["born_ip"].tolist() == [ip, 0, ip, 0, ip]
    assert headers["store_ip"].tolist() == [ip, ip, 0, 0, ip]
    assert headers["born_port"].tolist() == [4567, 8765, 4567, 8765, 4567]
    assert headers["store_port"].tolist() == [4567, 4567, 8765, 8765, 4567]
    if projection is Projection.HEADERS:
        first_end = int(chunk.property_ends[0])
        assert decode_properties(chunk.properties[:first_end])["TAGS"] == "tag-0"


async def test_a_filter_stops_at_the_end_of_the_range(broker):
    tags = tuple("x" if number % 3 else "y" for number in range(2000))
    await broker.store("orders", [b"%d" % number for number in range(2000)], tags=tags)
    expression = subscription_pb.FilterExpression(kind=subscription_pb.FILTER_KIND_TAG, text="y")
    chunks = await read_range(broker, 1, 1500, filter=expression)
    assert bodies_of_chunks(chunks) == [b"%d" % number for number in range(3, 1500, 3)]
    assert chunks[-1].next_queue_offset == 1500


@pytest.mark.parametrize(
    "projection",
    [
        pull_pb.RANGE_PROJECTION_RECORDS,
        pull_pb.RANGE_PROJECTION_HEADERS,
        pull_pb.RANGE_PROJECTION_POSITIONS,
    ],
)
async def test_a_tag_with_the_hash_of_the_wanted_one_is_left_out(broker, projection):
    await broker.store("orders", [b"%d" % number for number in range(6)], tags=("BB", "Aa") * 3)
    expression = subscription_pb.FilterExpression(kind=subscription_pb.FILTER_KIND_TAG, text="Aa")
    (chunk,) = await read_range(broker, 0, 6, filter=expression, projection=projection)
    assert len(chunk.record_sizes) == 3 * 4
    assert chunk.next_queue_offset == 6


async def test_a_filter_without_match_still_tells_the_end(broker):
    await broker.store("orders", [b"a"] * 2000, tags=("x",) * 2000)
    expression = subscription_pb.FilterExpression(kind=subscription_pb.FILTER_KIND_TAG, text="y")
    chunks = await read_range(broker, 0, 1999, filter=expression)
    assert bodies_of_chunks(chunks) == []
    assert chunks[-1].next_queue_offset == 1999


@pytest.mark.parametrize(
    ("begin", "end", "fields", "reason"),
    [
        (3, 9, {}, "QUEUE_OFFSET_OUT_OF_RANGE"),
        (-1, 9, {}, "FIELD_INVALID"),
        (2, 1, {}, "FIELD_INVALID"),
        (0, 1, {"chunk_bytes": 1}, "FIELD_INVALID"),
        (0, 1, {"chunk_bytes": 1 << 30}, "FIELD_INVALID"),
        (0, 1, {"projection": 77}, "FIELD_INVALID"),
    ],
)
async def test_senseless_ranges_are_refused(broker, refused, begin, end, fields, reason):
    await broker.store("orders", [b"a", b"b"])
    assert (await refused(read_range(broker, begin, end, **fields))).reason == reason


async def test_unknown_queues_are_refused(broker, refused):
    await broker.store("orders", [b"a"])

    async def read(topic, queue_id):
        request = pull_pb.PullRangeRequest(topic=topic, queue_id=queue_id, end_queue_offset=1)
        return [chunk async for chunk in broker.pulls.PullRange(request)]

    assert (await refused(read("nowhere", 0))).reason == "TOPIC_NOT_FOUND"
    assert (await refused(read("orders", 4))).reason == "QUEUE_NOT_FOUND"
    assert (await refused(read("orders", -1))).reason == "FIELD_INVALID"
