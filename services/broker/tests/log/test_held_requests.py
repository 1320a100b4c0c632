import asyncio
import sys

import pytest

from ariane_broker.interest import Interest
from ariane_broker.log.filtered_watches import FilteredWatches
from ariane_broker.log.held_requests import HeldRequests
from ariane_broker.queue_key import QueueKey
from ariane_servicekit import ServiceError

A, B = QueueKey("t", 0), QueueKey("t", 1)
TOLD_LINES_MAX = 7
"""Lines that run to tell one reader."""


@pytest.fixture
def held():
    return HeldRequests(FilteredWatches(store=None), count_max=3)


async def wait(held, *queues, seconds=20):
    watch = held.watch(dict.fromkeys(queues))
    try:
        return await held.wait(watch, seconds)
    finally:
        held.forget(watch)


def waiter(held, *queues, seconds=20):
    return asyncio.create_task(wait(held, *queues, seconds=seconds))


async def test_exactly_those_that_watch_the_queue_are_woken(held):
    first, second, both = waiter(held, A), waiter(held, B), waiter(held, A, B)
    await asyncio.sleep(0)
    assert held.count == 3
    held.wake(A)
    assert await first
    assert await both
    assert not second.done()
    assert held.count == 1
    held.wake(B)
    assert await second
    assert held.count == 0


async def test_who_wants_some_tags_is_woken_by_these(held):
    told = []

    def watch(name, *codes):
        interest = Interest(frozenset(codes)) if codes else None
        return held.watch({A: interest, B: None}, lambda: told.append(name))

    watches = [watch("red", 1), watch("blue", 2, 1 << 30), watch("all")]
    for codes in ([1, 1], [3, 2], [0], None):
        told.append(codes)
        held.arrived(A, codes)
    held.arrived(B, [7])
    assert told == [
        *([1, 1], "all", "red"),
        *([3, 2], "all", "blue"),
        *([0], "all"),
        *(None, "all", "red", "blue"),
        *("red", "blue", "all"),
    ]
    assert held.wants_tags(A)
    for each in watches:
        held.forget(each)
    assert not held.wants_tags(A)
    assert (held._watches, held._tagged) == ({}, {})


@pytest.mark.parametrize("interest", [None, Interest(frozenset([7]))])
async def test_to_tell_a_reader_takes_a_few_lines(held, interest):
    """All readers of a queue are told in one turn: as many as may wait (``held_pulls_max``)."""

    async def lines_of(readers):
        waits = [asyncio.ensure_future(wait_for(held.watch({A: interest}))) for _ in range(readers)]
        await asyncio.sleep(0)
        count = 0

        def trace(frame, event, _):
            nonlocal count
            count += event == "line" and frame.f_globals["__name__"].startswith("ariane_")
            return trace

        sys.settrace(trace)
        try:
            held.arrived(A, [7])
        finally:
            sys.settrace(None)
        assert await asyncio.gather(*waits) == [True] * readers
        return count

    async def wait_for(watch):
        try:
            return await watch.wait(20)
        finally:
            held.forget(watch)

    few, many = await lines_of(10), await lines_of(110)
    assert 0 < many - few <= 100 * TOLD_LINES_MAX


async def test_woken_in_the_next_turn_and_once(held):
    seen = []

    async def look_and_wait():
        watch = held.watch({A: None, B: None})
        while not seen:
            assert await held.wait(watch, 20)
            seen.append(set(watch.arrived))

    task = asyncio.create_task(look_and_wait())
    await asyncio.sleep(0)
    for _ in range(5):
        held.wake(A)
        held.wake(B)
    assert seen == []
    await asyncio.sleep(0)
    assert seen == [{A, B}]
    await task


async def test_a_wake_before_the_watch_is_not_remembered(held):
    held.wake(A)
    assert not await wait(held, A, seconds=0.01)


async def test_a_wake_between_two_waits_is_remembered_until_somebody_looks(held):
    watch = held.watch({A: None, B: None})
    held.wake_all([B, QueueKey("other", 0)])
    assert await held.wait(watch, 0)
    assert list(watch.arrived) == [B]
    watch.arrived.clear()
    assert not await held.wait(watch, 0.01)


async def test_an_interruption_ends_one_wait(held):
    watch = held.watch({A: None})
    watch.interrupt()
    first = asyncio.create_task(held.wait(watch, 20))
    await asyncio.sleep(0)
    assert not first.done()
    watch.interrupt()
    assert not await first
    second = asyncio.create_task(held.wait(watch, 20))
    await asyncio.sleep(0)
    held.wake(A)
    assert await second


async def test_what_is_forgotten_is_told_nothing(held):
    watch, other = held.watch({A: None, B: None}), held.watch({A: None})
    held.forget(watch)
    held.wake_all([A, B])
    assert not watch.arrived
    assert list(other.arrived) == [A]


async def test_the_time_ends_the_wait(held):
    assert not await wait(held, A, seconds=0.01)
    assert not await wait(held, A, seconds=0)
    assert held.count == 0


async def test_the_number_is_bounded(held):
    tasks = [waiter(held, A) for _ in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(ServiceError, match="3 pulls"):
        await wait(held, A)
    held.wake(A)
    assert await asyncio.gather(*tasks) == [True] * 3


async def test_a_cancelled_wait_leaves_nothing(held):
    task = waiter(held, A, B)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert held.count == 0
    assert held._watches == {}


async def test_closing_ends_all_waits(held):
    tasks = [waiter(held, A), waiter(held, B)]
    await asyncio.sleep(0)
    held.close()
    assert await asyncio.gather(*tasks) == [False, False]
    assert not await wait(held, A)
