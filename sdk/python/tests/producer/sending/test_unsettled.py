"""Who waits for room gets it in turn."""

import asyncio
from random import Random

import pytest

from ariane_sdk.producer.sending.unsettled import Unsettled
from ariane_sdk.runtime.clock import SystemClock


def held_up_to(size_bytes_max):
    return Unsettled(Random(1), clock=SystemClock(), timeout_s=60.0, size_bytes_max=size_bytes_max)


async def turns_of_the_loop(count=10):
    for _ in range(count):
        await asyncio.sleep(0)


async def put(buffer, name, passed, size_bytes=1):
    """What a send does."""
    if buffer.crowded:
        await buffer.wait_for_room()
    buffer.size_bytes += size_bytes
    passed.append(name)


@pytest.fixture
def full():
    buffer = held_up_to(1000)
    buffer.size_bytes = 1000
    return buffer


@pytest.mark.parametrize("count", [3, 200])
async def test_senders_that_wait_for_room_are_not_overtaken(full, count):
    passed = []
    tasks = [asyncio.create_task(put(full, number, passed)) for number in range(count)]
    await turns_of_the_loop()
    full.release(1000)
    tasks.append(asyncio.create_task(put(full, "newcomer", passed)))
    async with asyncio.timeout(60):
        await put(full, "here", passed)
        await asyncio.gather(*tasks)

    # Who comes in the very turn in which room is made, comes behind all of them.
    assert passed == [*range(count), "here", "newcomer"]


async def test_a_sender_that_finds_no_room_keeps_its_place(full):
    passed = []
    tasks = [asyncio.create_task(put(full, number, passed, 600)) for number in range(5)]
    await turns_of_the_loop()
    for expected in ([0, 1], [0, 1, 2], [0, 1, 2, 3]):
        full.release(1000 if expected == [0, 1] else 600)
        await turns_of_the_loop()
        assert passed == expected
        tasks.append(asyncio.create_task(put(full, "late", passed)))
        await turns_of_the_loop()
    full.release(10_000)
    await asyncio.gather(*tasks)

    assert passed == [0, 1, 2, 3, 4, "late", "late", "late"]


@pytest.mark.parametrize("woken", [False, True])
async def test_a_sender_that_is_cancelled_holds_up_no_other(full, woken):
    passed = []
    tasks = [asyncio.create_task(put(full, number, passed)) for number in range(3)]
    await turns_of_the_loop()
    if woken:
        full.release(1000)
        tasks[0].cancel()
    else:
        tasks[0].cancel()
        await turns_of_the_loop()
        full.release(1000)
    async with asyncio.timeout(60):
        await asyncio.gather(*tasks[1:])

    assert passed == [1, 2]
    assert not full.crowded


async def test_where_there_is_room_nobody_waits():
    buffer = held_up_to(10)
    assert not buffer.crowded
    await buffer.wait_for_room()
    buffer.release(0)
    assert not buffer.full
