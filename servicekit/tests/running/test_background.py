from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_servicekit import Loop, ServiceError
from ariane_servicekit.clock import sleep_until_woken
from ariane_testkit.virtual_clock import VirtualClock


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
async def turns(clock):
    """A started loop of 10 s that writes down when its turns came."""
    times = []

    async def work():
        times.append(clock.monotonic())

    loop = Loop("probe", work, interval_s=10, clock=clock)
    loop.start()
    yield loop, times
    await loop.stop()


async def test_turns_come_every_interval(turns, clock):
    _, times = turns
    await clock.elapse(35)
    assert times == [10, 20, 30]


async def test_a_wake_brings_a_turn_and_starts_the_interval_anew(turns, clock):
    loop, times = turns
    await clock.elapse(4)
    loop.wake()
    loop.wake()
    await clock.elapse(15)
    assert times == [4, 14]


async def test_a_wake_during_a_turn_is_not_lost(clock):
    times = []

    async def work():
        times.append(clock.monotonic())
        if len(times) == 1:
            loop.wake()

    loop = Loop("probe", work, interval_s=10, clock=clock)
    loop.start(at_once=True)
    await clock.elapse(5)
    assert times == [0, 0]
    await loop.stop()


async def test_a_turn_that_fails_is_logged_and_the_next_comes(clock):
    times = []

    async def work():
        times.append(clock.monotonic())
        raise ValueError("away")

    loop = Loop("probe", work, interval_s=10, clock=clock)
    with capture_logs() as lines:
        loop.start()
        await clock.elapse(25)
    assert times == [10, 20]
    assert [line["event"] for line in lines] == ["loop_turn_failed"] * 2
    await loop.stop()


async def test_a_turn_that_is_refused_is_told_once_without_a_trace(clock):
    """A broker that hands its role over refuses what its own loops append."""
    answers = [True, True, False, True]

    async def work():
        if answers.pop(0):
            raise ServiceError(ErrorReason.ERROR_REASON_BROKER_NOT_PRIMARY, "not the primary")

    loop = Loop("probe", work, interval_s=10, clock=clock)
    with capture_logs() as lines:
        loop.start()
        await clock.elapse(45)
    await loop.stop()
    said = [(line["event"], line["loop"], line["cause"]) for line in lines]
    assert said == [("loop_turn_refused", "probe", "not the primary")] * 2


async def test_stop_ends_the_turn_in_work_and_may_be_repeated(clock):
    ended = []

    async def work():
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(True)

    loop = Loop("probe", work, interval_s=10, clock=clock)
    loop.start(at_once=True)
    await clock.elapse(0)
    await loop.stop()
    await loop.stop()
    assert ended == [True]


async def test_stop_before_start_and_start_twice(turns):
    loop, _ = turns
    with pytest.raises(RuntimeError, match="started already"):
        loop.start()
    await Loop("other", asyncio.Event().wait, interval_s=1, clock=VirtualClock()).stop()


async def test_sleepers_wake_in_order_of_time(clock):
    woken = []

    async def sleeper(seconds):
        await clock.sleep(seconds)
        woken.append((seconds, clock.monotonic(), clock.now_ms() % 1000))

    async with asyncio.TaskGroup() as group:
        for seconds in (3, 1, 2, 0, 1.25):
            group.create_task(sleeper(seconds))
        await clock.elapse(10)
    assert woken == [(0, 0, 0), (1, 1, 0), (1.25, 1.25, 250), (2, 2, 0), (3, 3, 0)]


async def test_advance_wakes_all_that_are_due(clock):
    sleeping = asyncio.ensure_future(clock.sleep(5))
    await asyncio.sleep(0)
    clock.advance(4)
    await asyncio.sleep(0)
    assert not sleeping.done()
    clock.advance(1)
    await sleeping


@pytest.mark.parametrize(("woken_after_s", "waited_s"), [(2, 2), (9, 5)])
async def test_a_wait_ends_with_its_span_or_with_its_event(clock, woken_after_s, waited_s):
    woken = asyncio.Event()
    ends = []

    async def wait():
        await sleep_until_woken(clock, 5, woken)
        ends.append(clock.monotonic())

    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(wait())
        await clock.elapse(woken_after_s)
        woken.set()
        await waiting
    assert ends == [waited_s]
    assert woken.is_set()
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
