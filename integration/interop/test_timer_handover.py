"""A store with messages for a time of their own changes hands, both ways: each comes once."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from rocketmq import rocketmq, run_java_tool
from test_delay_handover import JAVA_SETTINGS, OurBroker, numbered, our_broker, pytestmark

from ariane.broker.v1 import broker_service_pb2 as broker_pb
from ariane.broker.v1 import send_service_pb2 as send_pb
from ariane.broker.v1.broker_service_pb2_grpc import BrokerServiceStub
from ariane.common.v1.message_pb2 import Message

__all__ = ["pytestmark"]
SETTLED_S = 4.0
"""RocketMQ reads a slot a second, and notes once a second what it has read."""

DAY_S = 86_400


async def send_for(broker: OurBroker, word: str, count: int, seconds: float) -> None:
    due = Timestamp()
    due.FromMilliseconds(round((time.time() + seconds) * 1000))
    messages = [Message(body=body, tag="red", delivery_time=due) for body in numbered(word, count)]
    request = send_pb.SendMessagesRequest(topic="orders", queue_id=1, messages=messages)
    await broker.sends.SendMessages(request)


async def waiting(broker: OurBroker) -> int:
    stub = BrokerServiceStub(broker.channel)
    state = await stub.GetBrokerState(broker_pb.GetBrokerStateRequest())
    return state.delayed_messages.timed_pending_count


def java_bodies(name_server: str) -> Counter[bytes]:
    rows = run_java_tool("ReadTopics.java", [name_server, "orders"])[:-1]
    return Counter(bytes.fromhex(row["body"]) for row in rows)


def read_by_java(name_server: str, count: int) -> Counter[bytes]:
    """What there is once it is so much, and nothing was added for a while."""
    deadline = time.monotonic() + 90
    while java_bodies(name_server).total() < count and time.monotonic() < deadline:
        time.sleep(0.5)
    time.sleep(SETTLED_S)
    return java_bodies(name_server)


async def ours(broker: OurBroker) -> Counter[bytes]:
    return Counter(message.body for message in await broker.messages())


async def test_each_comes_once_whoever_has_the_store(tmp_path: Path) -> None:
    store = tmp_path / "store"
    expected = Counter(numbered("done", 10))
    async with our_broker(store) as broker:
        await broker.create_topic()
        await send_for(broker, "months", 5, 3 * DAY_S)
        await send_for(broker, "done", 10, 0.5)
        await send_for(broker, "theirs", 8, 12)
        await broker.arrived(10)
        await send_for(broker, "hours", 7, 5 * 3600)
        assert await waiting(broker) == 20

    def java() -> Counter[bytes]:
        with rocketmq(store, tmp_path / "home", JAVA_SETTINGS) as name_server:
            found = read_by_java(name_server, 18)
            for word, count, wait_ms in (("java", 6, 1000), ("later", 4, 40_000)):
                arguments = [name_server, "orders", word, str(count), "0", str(wait_ms)]
                assert run_java_tool("SendDelayed.java", arguments) == [{"sent": count}]
            assert found == expected + Counter(numbered("theirs", 8))
            return read_by_java(name_server, 24)

    found = await asyncio.to_thread(java)
    expected += Counter(numbered("theirs", 8) + numbered("java", 6))
    assert found == expected

    async with our_broker(store) as broker:
        expected += Counter(numbered("later", 4))
        await broker.arrived(28)
        assert await ours(broker) == expected
        assert await waiting(broker) == 12
        await send_for(broker, "last", 3, 25)
        assert await waiting(broker) == 15

    # And there again: what waits for days waits on, and what came does not come again.
    def java_again() -> Counter[bytes]:
        with rocketmq(store, tmp_path / "home", JAVA_SETTINGS) as name_server:
            return read_by_java(name_server, 31)

    expected += Counter(numbered("last", 3))
    assert await asyncio.to_thread(java_again) == expected
    async with our_broker(store) as broker:
        await asyncio.sleep(1)
        assert await ours(broker) == expected
        assert await waiting(broker) == 12


@pytest.mark.parametrize("crash", [False, True])
async def test_our_restarts_take_what_we_wrote_for_what_it_is(tmp_path: Path, crash: bool) -> None:
    store = tmp_path / "store"
    async with our_broker(store) as broker:
        await broker.create_topic()
        await send_for(broker, "done", 10, 0.1)
        await send_for(broker, "hours", 7, 5 * 3600)
        await broker.arrived(10)
    if crash:
        # As if it had ended between the two: RocketMQ's note is newer than ours.
        for name in ("timerProgress.json", "timerProgress.json.bak", "timerProgress.json.sums"):
            (store / "config" / name).unlink(missing_ok=True)
    for _ in range(2):
        async with our_broker(store) as broker:
            assert await waiting(broker) == 7
            assert (await ours(broker)).total() == 10
