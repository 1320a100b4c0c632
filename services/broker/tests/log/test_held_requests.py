import asyncio
import sys

import numpy as np
import pytest

from ariane_broker.interest import Interest
from ariane_broker.log.filtered_watches import FilteredWatches
from ariane_broker.log.held_requests import TAGS_PASSED_MAX, Arrivals, HeldRequests
from ariane_broker.log.watcher import NOTIFIED_MAX
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


async def test_a_watch_for_some_tags_is_woken_by_these_tags(held):
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


class Confirmed:
    """A store whose log is confirmed up to an offset."""

    confirmed_offset = 1000


MANY = TAGS_PASSED_MAX + 1


@pytest.mark.parametrize("waits", [False, True])
async def test_rows_for_several_queues_wake_by_their_own_tags_and_once(held, waits):
    """As producers send: many messages at once, for all queues, whether confirmed at once."""
    told = []

    def watch(name, interest):
        held.watch({A: interest, B: interest}, lambda: told.append(name))

    watch("red", Interest(frozenset([1])))
    watch("blue", Interest(frozenset([2])))
    watch("all", None)
    store = Confirmed()
    store.confirmed_offset = 0 if waits else 1000
    arrivals = Arrivals(store, held)

    def append(*rows):
        told.clear()
        queues, codes = zip(*rows, strict=True)
        tag_codes = np.concatenate([np.array(each, np.int32) for each in codes])
        ends = [store.confirmed_offset + 1] * len(rows) if waits else [7] * len(rows)
        arrivals.appended(queues, ends, tag_codes, list(map(len, codes)))
        if waits:
            assert told == []
            store.confirmed_offset += 1
            arrivals.confirm()
        return sorted(told)

    assert append((A, [1, 3]), (B, [3])) == ["all", "all", "red"]
    assert append((A, [3]), (B, [2]), (A, [3, 3])) == ["all", "all", "blue"]
    assert append((A, [1]), (A, [2]), (A, [1])) == ["all", "blue", "red"]
    assert append((A, [3] * MANY)) == ["all"]
    assert append((A, [3] * MANY + [1]), (B, [0])) == ["all", "all", "red"]
    assert append((A, range(3, 3 + MANY))) == ["all", "blue", "red"], "of too many tags"


@pytest.mark.parametrize("interest", [None, Interest(frozenset([7]))])
async def test_to_tell_a_reader_takes_a_few_lines(held, interest):
    """``NOTIFIED_MAX`` readers of a queue are told in one turn."""

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


@pytest.mark.parametrize("interest", [None, Interest(frozenset([7]))])
async def test_readers_of_one_queue_are_told_in_turns(held, interest):
    told = []
    watches = [
        held.watch({A: interest}, lambda number=number: told.append(number))
        for number in range(2 * NOTIFIED_MAX + 2)
    ]
    held.arrived(A, [7])
    assert told == list(range(NOTIFIED_MAX))
    held.forget(watches.pop())  # It is told of nothing any more.
    await asyncio.sleep(0)
    assert told == list(range(2 * NOTIFIED_MAX))
    assert await held.wait(watches[0], 20)
    late = asyncio.create_task(held.wait(watches[-1], 20))
    await asyncio.sleep(0)
    assert await late
    assert told == list(range(2 * NOTIFIED_MAX + 1))
    told.clear()
    held.wake(A)
    assert len(told) == NOTIFIED_MAX


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


async def test_a_forgotten_watch_is_not_notified(held):
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
