"""The backlog: what is kept and not consumed; reading a deep one leaves fresh messages alone."""

import asyncio
from types import SimpleNamespace

import pytest
from grpc import aio

from ariane.broker.v1 import offset_service_pb2 as offset_pb
from ariane.broker.v1 import pull_service_pb2 as pull_pb
from ariane_broker.consuming.offset_queries import OffsetQueries
from ariane_broker.groups.consumer_offsets import ConsumerOffsets, GroupOffset
from ariane_broker.queue_key import QueueKey
from ariane_record import ConsumerOffset
from services.broker.tests.log_side import cold_reads

QUEUE = QueueKey("orders", 0)


def backlog_at(offset, *, begin, end):
    queries = OffsetQueries(
        ConsumerOffsets(now_ms=lambda: 0),
        SimpleNamespace(queue_bounds=lambda _topic, _queue_id: (begin, end)),
        SimpleNamespace(store_timestamp_ms=lambda _topic, _queue_id, place: 1000 + place),
        cold_reads(),
    )
    found = queries.backlog(GroupOffset("group", QUEUE, ConsumerOffset(offset)))
    return found.message_count, found.oldest_store_timestamp_ms


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (12, (8, 1012)),
        (10, (10, 1010)),
        # What retention has deleted, nobody will consume.
        (3, (10, 1010)),
        (20, (0, None)),
        # The broker lost its last seconds.
        (25, (0, None)),
    ],
)
def test_backlog_counts_kept_messages_that_were_not_consumed(offset, expected):
    assert backlog_at(offset, begin=10, end=20) == expected


def test_an_empty_queue_has_no_backlog():
    assert backlog_at(3, begin=10, end=10) == (0, None)


async def lag_of(broker):
    request = offset_pb.ListConsumerLagsRequest(consumer_group="group")
    (lag,) = (await broker.offsets.ListConsumerLags(request)).lags
    return lag.message_count


async def test_the_backlog_is_right_at_every_moment(broker):
    await broker.create_topic("orders")
    stored = done = 0
    await broker.store_offset("group", "orders", 0, 0)
    for count, consumed in ((3, 1), (10, 0), (1, 9), (0, 4), (5, 5)):
        if count:
            await broker.store("orders", [b"x"] * count)
        stored, done = stored + count, done + consumed
        await broker.store_offset("group", "orders", 0, done)
        assert await lag_of(broker) == stored - done


async def test_a_deep_range_in_the_middle_of_being_read_holds_up_no_fresh_message(broker):
    await broker.create_topic("orders", 2)
    for _ in range(8):
        await broker.store("orders", [b"x" * 1000] * 1000)
    request = pull_pb.PullRangeRequest(topic="orders", end_queue_offset=8000, chunk_bytes=64 << 10)
    held = asyncio.ensure_future(broker.bodies("orders", 1, 0, hold_s=20))
    ranges = [broker.pulls.PullRange(request) for _ in range(8)]
    # Nobody reads on: each stream stands with as much as flow control lets through.
    first = [await stream.read() for stream in ranges]
    await broker.store("orders", [b"fresh"], 1)
    assert await held == [b"fresh"]
    assert all(chunk.next_queue_offset < 8000 for chunk in first)
    for stream in ranges:
        ends = [first[0].next_queue_offset]
        while (chunk := await stream.read()) is not aio.EOF:
            ends.append(chunk.next_queue_offset)
        assert ends == sorted(set(ends))
        assert ends[-1] == 8000


async def test_one_call_reads_no_more_than_its_budget(broker):
    await broker.create_topic("orders")
    await broker.store("orders", [b"x" * 1000] * 3000)
    [pulled] = await broker.pull(("orders", 0, 0))
    assert len(pulled.records) < (1 << 20) + 2000
    assert 0 < pulled.next_queue_offset < 3000
