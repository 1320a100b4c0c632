"""What is not in memory comes from the disk in a thread: the loop serves others meanwhile."""

import asyncio
from datetime import UTC, datetime

import numpy as np
import pytest

from ariane.broker.v1 import offset_service_pb2 as offset_pb
from ariane.broker.v1 import pull_service_pb2 as pull_pb
from ariane.broker.v1 import query_service_pb2 as query_pb
from ariane.broker.v1 import retry_service_pb2 as retry_pb
from ariane.broker.v1 import topic_service_pb2 as topic_pb
from ariane_broker import app
from ariane_record.decoding.columns import decode_columns
from ariane_record.names import dead_letter_topic
from pytest_ariane.cluster import shared
from services.broker.tests.receive.receive_calls import Receiver
from services.broker.tests.slow_disk import SlowDisk

BODIES = [b"%d" % number * 500 for number in range(40)]


@pytest.fixture
def disk(monkeypatch):
    disk = SlowDisk()
    monkeypatch.setattr(app, "OsDisk", lambda: shared(disk))
    return disk


async def bodies(broker, **_):
    return await broker.bodies("orders", hold_s=0)


async def range_of(broker, **_):
    request = pull_pb.PullRangeRequest(topic="orders", end_queue_offset=len(BODIES))
    return sum([len(chunk.record_sizes) // 4 async for chunk in broker.pulls.PullRange(request)])


async def received(broker, **_):
    messages = await Receiver(broker).receive("orders", message_count_max=len(BODIES))
    return [message.message.body for message in messages]


async def held_and_received(broker, **_):
    messages = await Receiver(broker).receive("orders", message_count_max=len(BODIES), hold_s=20)
    return [message.message.body for message in messages]


async def by_key(broker, **_):
    request = query_pb.QueryMessagesRequest(topic="orders", key="key-7")
    return [message.body for message in (await broker.queries.QueryMessages(request)).messages]


async def by_id(broker, message_id, **_):
    request = query_pb.GetMessageRequest(message_id=message_id)
    return (await broker.queries.GetMessage(request)).message.body


async def by_time(broker, **_):
    request = pull_pb.FindQueueOffsetsRequest(topic="orders")
    request.time.FromDatetime(datetime(2001, 1, 1, tzinfo=UTC))
    return [found.queue_offset for found in (await broker.pulls.FindQueueOffsets(request)).queues]


async def bounds(broker, **_):
    request = pull_pb.ListQueueBoundsRequest(topic="orders")
    return [each.max_queue_offset for each in (await broker.pulls.ListQueueBounds(request)).queues]


async def topic(broker, **_):
    request = topic_pb.GetTopicRequest(topic="orders")
    return (await broker.topics.GetTopic(request)).topic.HasField("last_store_time")


async def lag(broker, **_):
    request = offset_pb.ListConsumerLagsRequest(consumer_group="slow")
    return [
        each.HasField("oldest_store_time")
        for each in (await broker.offsets.ListConsumerLags(request)).lags
    ]


async def reset(broker, **_):
    request = offset_pb.ResetConsumerOffsetsRequest(
        consumer_group="slow", topic="orders", validate_only=True
    )
    request.time.FromDatetime(datetime(2001, 1, 1, tzinfo=UTC))
    (moved,) = (await broker.offsets.ResetConsumerOffsets(request)).offsets
    return moved.queue_offset


async def dead_letter(broker, commit_log_offset, **_):
    request = retry_pb.ReturnMessagesRequest(
        consumer_group="slow",
        topic="orders",
        queue_offsets=[0],
        commit_log_offsets=[commit_log_offset],
        dead_letter=True,
    )
    (result,) = (await broker.retries.ReturnMessages(request)).messages
    assert not result.HasField("error"), result
    return await broker.bodies(dead_letter_topic("slow"))


@pytest.mark.parametrize(
    ("read", "found"),
    [
        (bodies, BODIES),
        (range_of, len(BODIES)),
        (received, BODIES),
        (held_and_received, BODIES),
        (by_key, BODIES[7:8]),
        (by_id, BODIES[0]),
        (by_time, [0]),
        (bounds, [len(BODIES)]),
        (topic, True),
        (lag, [True]),
        (reset, 0),
        (dead_letter, BODIES[:1]),
    ],
)
async def test_a_send_is_answered_while_a_read_waits_for_the_disk(running, disk, read, found):
    async with running(flush_mode="sync") as broker:
        await broker.create_topic("orders")
        await broker.create_topic("live")
        keys = [f"key-{number}" for number in range(len(BODIES))]
        await broker.store("orders", BODIES, keys=keys)
        await broker.store_offset("slow", "orders", 0, 3, durable=True)
        (pulled,) = await broker.pull(("orders", 0, 0))
        columns = decode_columns(pulled.records, np.frombuffer(pulled.record_sizes, "<i4"))
    async with running(flush_mode="sync") as broker:
        disk.cool_all()
        place = int(columns.commit_log_offset[0])
        message_id = columns.offset_message_id(0)
        reading = asyncio.create_task(read(broker, message_id=message_id, commit_log_offset=place))
        await asyncio.to_thread(disk.asked.wait, 60)
        await broker.store("live", [b"now"])
        assert not reading.done()
        disk.answers.set()
        assert await reading == found
        assert not disk.loop_waits


@pytest.mark.slow  # The clock that is put forward wakes many loops.
async def test_a_delayed_message_comes_from_the_disk_beside_sends(running, disk, clock):
    due_ms = clock.now_ms() + 3_600_000
    async with running(flush_mode="sync") as broker:
        await broker.create_topic("orders")
        times = np.array([due_ms], "<i8").tobytes()
        await broker.store("orders", [b"due"], delivery_times_ms=times)
    async with running(flush_mode="sync") as broker:
        disk.cool_all()
        clock.advance(3600)
        await asyncio.to_thread(disk.asked.wait, 60)
        await broker.create_topic("live")
        await broker.store("live", [b"now"])
        disk.answers.set()
        assert await broker.bodies("orders", hold_s=20) == [b"due"]
        assert not disk.loop_waits
