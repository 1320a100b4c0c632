"""Settlements share calls while others are under way, and each caller gets its own results."""

import asyncio

import pytest

from ariane_gateway.brokers.settle_batches import CALLS_MAX, TOGETHER_MAX, SettleBatches


class Broker:
    """Answers each call when it is told."""

    def __init__(self):
        self.calls = []

    async def send(self, key, entries):
        answer = asyncio.get_running_loop().create_future()
        self.calls.append((key, list(entries), answer))
        return await answer


async def begin(batches, key, *entries):
    task = asyncio.ensure_future(batches.settle(key, entries))
    for _ in range(3):
        await asyncio.sleep(0)
    return task


def answer(call):
    _, entries, future = call
    future.set_result([f"done {each}" for each in entries])


async def test_what_comes_while_calls_are_under_way_shares_the_next():
    broker = Broker()
    batches = SettleBatches(broker.send)
    tasks = [await begin(batches, "a", number, -number) for number in range(1, 5)]
    other = await begin(batches, "b", 9)
    assert [(key, entries) for key, entries, _ in broker.calls] == [
        ("a", [1, -1]),
        ("a", [2, -2]),
        ("b", [9]),
    ]
    tasks[3].cancel()
    answer(broker.calls[0])
    assert await tasks[0] == ["done 1", "done -1"]
    await asyncio.sleep(0)
    assert broker.calls[3][:2] == ("a", [3, -3, 4, -4])
    for call in broker.calls[1:]:
        answer(call)
    assert await tasks[1] == ["done 2", "done -2"]
    assert await tasks[2] == ["done 3", "done -3"]
    assert await other == ["done 9"]
    assert CALLS_MAX == 2


async def test_a_call_that_fails_fails_for_those_whose_it_is():
    broker = Broker()
    batches = SettleBatches(broker.send)
    first, second = await begin(batches, "a", 1), await begin(batches, "a", 2)
    broker.calls[0][2].set_exception(ValueError("no"))
    answer(broker.calls[1])
    with pytest.raises(ValueError, match="no"):
        await first
    assert await second == ["done 2"]
    third = await begin(batches, "a", 3)
    answer(broker.calls[2])
    assert await third == ["done 3"]


async def test_what_callers_that_have_left_wanted_does_not_pile_up():
    """They ask again each second, for as long as the broker is silent."""
    broker = Broker()
    batches = SettleBatches(broker.send)
    first, second = await begin(batches, "a", -1), await begin(batches, "a", -2)
    waiting = [
        asyncio.ensure_future(batches.settle("a", [number])) for number in range(2 * TOGETHER_MAX)
    ]
    await asyncio.sleep(0)
    for task in waiting[:-1]:
        task.cancel()
    await asyncio.sleep(0)
    answer(broker.calls[0])
    answer(broker.calls[1])
    assert [await first, await second] == [["done -1"], ["done -2"]]
    await asyncio.sleep(0)
    assert [entries for _, entries, _ in broker.calls[2:]] == [[2 * TOGETHER_MAX - 1]]
    answer(broker.calls[2])
    assert await waiting[-1] == [f"done {2 * TOGETHER_MAX - 1}"]
