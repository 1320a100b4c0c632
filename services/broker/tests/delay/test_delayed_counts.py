"""What operators see of delayed messages: how many wait, and how late those came that came."""

import asyncio
import time

import numpy as np

from ariane.broker.v1 import broker_service_pb2 as broker_pb
from ariane.broker.v1 import topic_service_pb2 as topic_pb

HOUR_MS = 3_600_000


def times(*waits_ms):
    now_ms = time.time_ns() // 1_000_000
    return np.array([now_ms + wait_ms for wait_ms in waits_ms], "<i8").tobytes()


async def delayed(broker):
    answer = await broker.broker.GetBrokerState(broker_pb.GetBrokerStateRequest())
    return answer.delayed_messages


async def once_delivered(broker, count):
    async with asyncio.timeout(60):
        while (state := await delayed(broker)).delivered_count < count:  # noqa: ASYNC110 - remote
            await asyncio.sleep(0.02)
    return state


def pending(state):
    return state.timed_pending_count, [(one.level, one.pending_count) for one in state.levels]


async def test_delayed_messages_are_counted_by_level_and_time(running, clock):
    async with running() as broker:
        await broker.create_topic("orders")
        assert pending(await delayed(broker)) == (0, [])
        await broker.store("orders", [b"a", b"b"], delay_level=1)
        await broker.store("orders", [b"c"], delay_level=18)
        await broker.store("orders", [b"d", b"e", b"f"], delivery_times_ms=times(1, 9, HOUR_MS))
        clock.advance(1)
        state = await once_delivered(broker, 4)
        assert pending(state) == (1, [(18, 1)])
        (level,) = state.levels
        assert level.wait_duration.seconds == 7200
        assert 7100 < level.next_due_time.seconds - time.time() <= 7200
    async with running() as broker:
        state = await delayed(broker)
        assert pending(state) == (1, [(18, 1)])
        assert state.delivered_count == 0


async def test_how_late_messages_came(running, copy_store, tmp_path):
    async with running() as broker:
        await broker.create_topic("orders")
        await broker.store("orders", [b"past", b"a"], delivery_times_ms=times(-HOUR_MS, 100))
        state = await once_delivered(broker, 2)
        assert state.measured_count == 2
        # One was late before it was sent, and that is not the broker's.
        assert state.lateness_duration_max.ToMilliseconds() < HOUR_MS
        for wait_s in (0.5, 2, 8, 24):  # Until a copy is quicker than the delivery.
            due_s = time.time() + wait_s
            await broker.store("orders", [b"b"], delivery_times_ms=times(round(1000 * wait_s)))
            copy_store()
            if time.time() < due_s:
                break
    await asyncio.sleep(max(0, due_s + 1 - time.time()))
    async with running(store_path=tmp_path / "copy") as broker:
        state = await once_delivered(broker, 1)
        assert state.lateness_duration_max.ToMilliseconds() >= 900
        assert state.lateness_duration == state.lateness_duration_max


async def test_undeliverable_messages_are_counted(running, clock):
    async with running() as broker:
        await broker.create_topic("orders")
        await broker.store("orders", [b"a"], delivery_times_ms=times(HOUR_MS))
        await broker.topics.DeleteTopic(topic_pb.DeleteTopicRequest(topic="orders"))
        clock.advance(HOUR_MS / 1000)
        async with asyncio.timeout(60):
            while (await delayed(broker)).dropped_count < 1:  # noqa: ASYNC110 - remote
                await asyncio.sleep(0.02)
        assert pending(await delayed(broker)) == (0, [])
