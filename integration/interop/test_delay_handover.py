"""A store with delayed messages changes hands: each is delivered once, by either broker."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from grpc import aio
from rocketmq import rocketmq, run_java_tool

from ariane.broker.v1 import pull_service_pb2 as pull_pb
from ariane.broker.v1 import send_service_pb2 as send_pb
from ariane.broker.v1 import topic_service_pb2 as topic_pb
from ariane.broker.v1.pull_service_pb2_grpc import PullServiceStub
from ariane.broker.v1.send_service_pb2_grpc import SendServiceStub
from ariane.broker.v1.topic_service_pb2_grpc import TopicServiceStub
from ariane.common.v1.message_pb2 import Message
from ariane_broker.app import compose
from ariane_broker.settings import BrokerSettings
from ariane_record import RecordFields
from ariane_record.decoding.columns import decode_columns
from ariane_servicekit import serving
from ariane_storage import OsDisk, StateFile

MISSING = [tool for tool in ("java", "mvn") if not shutil.which(tool)]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(bool(MISSING), reason=f"missing: {', '.join(MISSING)}"),
]

SEGMENT_BYTES = 1 << 20
JAVA_SETTINGS = {
    "mappedFileSizeCommitLog": SEGMENT_BYTES,
    "mappedFileSizeConsumeQueue": 1000 * 20,
    "maxHashSlotNum": 1000,
    "maxIndexNum": 40_000,
}


class OurBroker:
    """The calls that these tests need."""

    def __init__(self, channel: aio.Channel) -> None:
        self.channel = channel
        self.sends = SendServiceStub(channel)
        self._pulls = PullServiceStub(channel)
        self._topics = TopicServiceStub(channel)

    async def create_topic(self) -> None:
        topic = topic_pb.Topic(topic="orders", read_queue_count=2, write_queue_count=2)
        await self._topics.CreateTopic(topic_pb.CreateTopicRequest(topic=topic))

    async def send(self, bodies: list[bytes], level: int) -> None:
        messages = [
            Message(body=body, tag="red", keys=["k"], delay_level=level, properties={"a": "b"})
            for body in bodies
        ]
        await self.sends.SendMessages(
            send_pb.SendMessagesRequest(topic="orders", queue_id=1, messages=messages)
        )

    async def messages(self) -> list[RecordFields]:
        found: list[RecordFields] = []
        for queue_id in (0, 1, 2, 3):
            position = pull_pb.PullPosition(topic="orders", queue_id=queue_id)
            request = pull_pb.PullRecordsRequest(consumer_group="group", positions=[position])
            (pulled,) = (await self._pulls.PullRecords(request)).queues
            if pulled.records:
                sizes = np.frombuffer(pulled.record_sizes, "<i4")
                columns = decode_columns(pulled.records, sizes)
                found += map(columns.message, range(len(columns)))
        return found

    async def arrived(self, count: int) -> list[RecordFields]:
        async with asyncio.timeout(120):
            while True:
                found = await self.messages()
                if len(found) >= count:
                    return found
                await asyncio.sleep(0.2)


@asynccontextmanager
async def our_broker(store: Path) -> AsyncIterator[OurBroker]:
    settings = BrokerSettings(
        store_path=store,
        segment_bytes=SEGMENT_BYTES,
        message_bytes_max=1 << 16,
        consume_queue_entries=1000,
        index_slots=1000,
        index_items=40_000,
        grace_s=0.1,
    )
    async with (
        serving(settings, compose) as address,
        aio.insecure_channel(str(address)) as channel,
    ):
        yield OurBroker(channel)


def read_by_java(name_server: str, count: int) -> list[dict[str, Any]]:
    """What the Java broker has, once it is so much, and nothing was added for a while."""
    deadline = time.monotonic() + 90
    rows: list[dict[str, Any]] = []
    while len(rows) < count and time.monotonic() < deadline:
        time.sleep(1)
        rows = run_java_tool("ReadTopics.java", [name_server, "orders"])[:-1]
    time.sleep(3)
    return run_java_tool("ReadTopics.java", [name_server, "orders"])[:-1]


def numbered(word: str, count: int) -> list[bytes]:
    return [f"{word}{number}".encode() for number in range(count)]


async def test_rocketmq_delivers_what_we_parked(tmp_path: Path) -> None:
    store = tmp_path / "store"
    async with our_broker(store) as broker:
        await broker.create_topic()
        await broker.send(numbered("done", 20), 1)
        await broker.arrived(20)
        await broker.send(numbered("soon", 15), 2)
        await broker.send(numbered("later", 10), 3)

    def read() -> list[dict[str, Any]]:
        with rocketmq(store, tmp_path / "home", JAVA_SETTINGS) as name_server:
            return read_by_java(name_server, 45)

    rows = await asyncio.to_thread(read)
    expected = numbered("done", 20) + numbered("soon", 15) + numbered("later", 10)
    assert sorted(bytes.fromhex(row["body"]) for row in rows) == sorted(expected)
    for row in rows:
        assert (row["queue_id"], row["properties"]["TAGS"], row["properties"]["a"]) == (
            1,
            "red",
            "b",
        )

    # And back again: RocketMQ has said what it has delivered.
    async with our_broker(store) as broker:
        await broker.send(numbered("back", 5), 1)
        found = await broker.arrived(50)
        await asyncio.sleep(1)
        assert len(await broker.messages()) == len(found) == 50


async def test_we_deliver_what_rocketmq_parked(tmp_path: Path) -> None:
    store = tmp_path / "store"

    def send() -> None:
        with rocketmq(store, tmp_path / "home", JAVA_SETTINGS) as name_server:
            for word, count, level in (("done", 20, 1), ("soon", 15, 5)):
                arguments = [name_server, "orders", word, str(count), str(level)]
                assert run_java_tool("SendDelayed.java", arguments) == [{"sent": count}]
            assert len(read_by_java(name_server, 20)) == 20

    await asyncio.to_thread(send)
    offsets = StateFile(store / "config" / "delayOffset.json", OsDisk()).load()
    assert offsets is not None
    assert offsets["offsetTable"]["1"] == 20
    async with our_broker(store) as broker:
        found = await broker.arrived(35)
        await asyncio.sleep(1)
        assert len(await broker.messages()) == 35
    expected = numbered("done", 20) + numbered("soon", 15)
    assert sorted(message.body for message in found) == sorted(expected)
    ours = [message for message in found if message.body.startswith(b"soon")]
    assert all(message.half_offset for message in ours), "delivered by RocketMQ already"
    assert {message.tag for message in ours} == {"red"}
    assert {"DELAY", "REAL_TOPIC", "REAL_QID"}.isdisjoint(ours[0].properties)
    async with our_broker(store) as broker:
        assert len(await broker.messages()) == 35
