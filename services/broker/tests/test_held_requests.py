import asyncio

import pytest

from ariane_broker.consumer_offsets import QueueKey
from ariane_broker.held_requests import HeldRequests
from ariane_servicekit import ServiceError

A, B = QueueKey("t", 0), QueueKey("t", 1)


@pytest.fixture
def held():
    return HeldRequests(count_max=3)


def waiter(held, *keys, seconds=20):
    return asyncio.create_task(held.wait(keys, seconds))


async def test_exactly_those_that_wait_for_the_key_are_woken(held):
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


async def test_woken_in_the_next_turn_and_once(held):
    order = []

    async def look_and_wait():
        while not order:
            order.append(await held.wait([A, B], 20))

    task = asyncio.create_task(look_and_wait())
    await asyncio.sleep(0)
    for _ in range(5):
        held.wake(A)
        held.wake(B)
    assert order == []
    await asyncio.sleep(0)
    assert order == [True]
    await task


async def test_a_wake_before_the_wait_is_not_remembered(held):
    held.wake(A)
    assert not await held.wait([A], 0.01)


async def test_the_time_ends_the_wait(held):
    assert not await held.wait([A], 0.01)
    assert not await held.wait([A], 0)
    assert held.count == 0


async def test_the_number_is_bounded(held):
    tasks = [waiter(held, A) for _ in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(ServiceError, match="3 pulls"):
        await held.wait([A], 20)
    held.wake(A)
    assert await asyncio.gather(*tasks) == [True] * 3


async def test_a_cancelled_wait_leaves_nothing(held):
    task = waiter(held, A, B)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert held.count == 0
    assert held._waiting == {}


async def test_closing_ends_all_waits(held):
    tasks = [waiter(held, A), waiter(held, B)]
    await asyncio.sleep(0)
    held.close()
    assert await asyncio.gather(*tasks) == [False, False]
    assert not await held.wait([A], 20)
