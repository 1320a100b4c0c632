"""What was fetched and nobody took: nothing of it is lost, whoever leaves it meanwhile."""

import asyncio
from contextlib import aclosing

import pytest

from ariane_sdk.consumer.receiving.fetched import Fetched
from ariane_sdk.consumer.receiving.receive_calls import Answer
from ariane_sdk.consumer.receiving.receive_wire import receive_answer
from ariane_sdk.errors import MessagesLost, ServiceUnavailable
from ariane_sdk.runtime.clock import SystemClock
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


async def test_a_call_that_failed_unexpectedly_does_not_hold_up_the_rest(caplog):
    fetched, loop = Fetched(), asyncio.get_running_loop()
    failed, answered = loop.create_future(), loop.create_future()
    failed.set_exception(KeyError("unexpected"))
    answered.set_result(Answer("a", "a:1", receive_answer(encoded(0, BATCH))))
    fetched.add_late("a:1", [failed, answered])
    assert bodies(await fetched.take_all()) == list(range(BATCH))
    assert "unexpected" in caplog.text


class NoPauseEndsClock(SystemClock):
    """No pause ends."""

    async def sleep(self, _seconds):
        await asyncio.Event().wait()


def pauses():
    """How many pauses of a broker that failed are on their way."""
    return [each.get_name() for each in asyncio.all_tasks()].count("ariane-receive-a:1")


async def after_calls_that_ended(broker, outcomes):
    """Begin with late calls that end so now; the batches, and what waits for the first."""
    fetched, calls = Fetched(), [asyncio.get_running_loop().create_future() for _ in outcomes]
    fetched.add_late("a:1", calls)
    batches = asking_of(broker, fetched, clock=NoPauseEndsClock()).batches()
    first = asyncio.create_task(anext(batches))
    await asyncio.sleep(0.01)
    for call, outcome in zip(calls, outcomes, strict=True):
        if isinstance(outcome, Answer):
            call.set_result(outcome)
        else:
            call.set_exception(outcome)
    await asyncio.sleep(0.01)
    return batches, first


async def test_a_broker_of_which_several_calls_fail_is_postponed_once():
    failures = [ServiceUnavailable("away", retriable=True) for _ in range(2)]
    batches, first = await after_calls_that_ended(Broker(0), failures)
    assert pauses() == 1
    first.cancel()
    await asyncio.wait([first])
    await batches.aclose()
    await asyncio.sleep(0)
    assert pauses() == 0


async def test_a_broker_that_is_postponed_is_not_asked_ahead():
    broker = Broker(BATCH)
    answer = Answer("a", "a:1", receive_answer(encoded(0, BATCH)))
    failure = ServiceUnavailable("away", retriable=True)
    batches, first = await after_calls_that_ended(broker, [failure, answer])
    assert len(bodies([await first])) == BATCH
    await batches.aclose()
    await asyncio.sleep(0)
    assert broker.holds == []
    assert pauses() == 0


async def test_a_broker_whose_call_failed_before_is_asked_at_once():
    broker, fetched = Broker(BATCH), Fetched()
    failed = asyncio.get_running_loop().create_future()
    failed.set_exception(ServiceUnavailable("away then", retriable=True))
    fetched.add_late("a:1", [failed])
    asking = asking_of(broker, fetched, timeout_s=60, clock=NoPauseEndsClock())
    async with asyncio.timeout(10):
        assert bodies([await asking.one()]) == list(range(BATCH))


async def test_what_a_call_failed_with_before_is_told_if_it_does_not_pass():
    fetched = Fetched()
    lost = asyncio.get_running_loop().create_future()
    lost.set_exception(MessagesLost("of queue 3"))
    fetched.add_late("a:1", [lost])
    with pytest.raises(MessagesLost):
        await asking_of(Broker(BATCH), fetched, timeout_s=60).one()
