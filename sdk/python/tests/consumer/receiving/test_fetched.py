"""What was fetched and nobody took: nothing of it is lost, whoever leaves it meanwhile."""

import asyncio
from contextlib import aclosing

from ariane_sdk.consumer.receiving.fetched import Fetched
from ariane_sdk.consumer.receiving.receive_calls import Answer
from ariane_sdk.consumer.receiving.receive_wire import receive_answer
from sdk.python.tests.consumer.receiving.test_asking import (
    BATCH,
    Broker,
    asking_of,
    bodies,
    encoded,
)


class SlowBroker(Broker):
    """Holds calls until it is told to answer."""

    def __init__(self, count):
        super().__init__(count)
        self.calls = 0
        self.answers = asyncio.Event()

    async def receive(self, route, order, hold_s):
        self.calls += 1
        await self.answers.wait()
        return await super().receive(route, order, hold_s)


async def one_batch(broker, fetched, timeout_s=60):
    async with aclosing(asking_of(broker, fetched, timeout_s=timeout_s).batches()) as batches:
        async for batch in batches:
            return batch
    return []


async def test_calls_of_several_that_end_at_once_are_all_taken_over():
    broker, fetched = SlowBroker(2 * BATCH), Fetched()
    async with asyncio.timeout(60):
        both = [asyncio.create_task(one_batch(broker, fetched)) for _ in range(2)]
        while broker.calls < 2:  # noqa: ASYNC110 - no event tells it.
            await asyncio.sleep(0)
        for each in both:
            each.cancel()
        await asyncio.wait(both)
        broker.answers.set()
        got = [await one_batch(broker, fetched) for _ in range(2)]
    assert sorted(bodies(got)) == list(range(2 * BATCH))
    assert broker.calls == 2


async def test_the_call_that_ends_first_is_taken_first():
    held, fetched = Broker(0), Fetched()
    waits = [asyncio.create_task(held.receive(None, None, 15.0)) for _ in range(8)]
    answered = asyncio.create_task(Broker(BATCH).receive(None, None, 15.0))
    fetched.add_late("a:1", [*waits, answered])
    async with asyncio.timeout(60):
        assert bodies([await one_batch(held, fetched)]) == list(range(BATCH))
    assert fetched.take_late("a:1") == waits
    for each in waits:
        each.cancel()


async def test_what_is_left_while_all_is_taken_stays():
    fetched, begun, goes_on = Fetched(), asyncio.Event(), asyncio.Event()

    async def answered_though_cancelled():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            begun.set()
            await goes_on.wait()
        return Answer("a", "a:1", receive_answer(encoded(0, BATCH)))

    fetched.add_late("a:1", [asyncio.create_task(answered_though_cancelled())])
    await asyncio.sleep(0)
    taking = asyncio.create_task(fetched.take_all())
    async with asyncio.timeout(60):
        await begun.wait()
        other = asyncio.create_task(asyncio.Event().wait())
        fetched.add_late("a:1", [other])
        goes_on.set()
        assert bodies(await taking) == list(range(BATCH))
    assert fetched.take_late("a:1") == [other]
    other.cancel()


async def test_what_cannot_be_taken_apart_does_not_hold_up_the_rest():
    fetched = Fetched()
    (queue,) = receive_answer(encoded(0, 1))
    fetched.keep(Answer("a", "a:1", [queue._replace(records=queue.records[:-1])]))
    fetched.keep(Answer("a", "a:1", receive_answer(encoded(0, BATCH))))
    assert bodies(await fetched.take_all()) == list(range(BATCH))
    assert not fetched
