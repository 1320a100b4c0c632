"""Turns at a broker: no consumer of a process suffers from the failure of another one's call."""

import asyncio
import logging

import pytest

from ariane_sdk.consumer.receiving.asked import AskedCall
from ariane_sdk.consumer.receiving.asking import Asking
from ariane_sdk.consumer.receiving.fetched import Fetched
from ariane_sdk.consumer.receiving.receive_calls import Answer
from ariane_sdk.consumer.receiving.receive_wire import receive_answer
from ariane_sdk.consumer.receiving.turns import TURNS
from ariane_sdk.errors import ClientNotRunning, IllegalArgument, ServiceUnavailable
from ariane_sdk.runtime.clock import SystemClock
from sdk.python.tests.consumer.receiving.test_asking import BATCH, bodies, encoded

MANY = 400


class Call:
    """A call that is over when the test says so."""

    def __init__(self):
        self.callbacks = []
        self.is_over = False

    def add_done_callback(self, callback):
        if self.is_over:
            callback(self)
        else:
            self.callbacks.append(callback)

    def end(self):
        self.is_over = True
        for callback in self.callbacks:
            callback(self)

    cancel = end


class Brokers:
    """The brokers of one consumer: one, which answers when the test says so."""

    def __init__(self):
        self.calls = []
        self.doubts = 0
        self.refusal = None
        """What asking raises."""
        self.failure = None
        """What new calls end with at once."""

    def known(self):
        return self.found

    found = {"a:1": None}  # noqa: RUF012 - no test changes it.

    def ask(self, *_):
        if self.refusal is not None:
            raise self.refusal
        call, failure = Call(), self.failure
        call.is_over = failure is not None
        self.calls.append(call)

        def answer(_):
            if failure is not None:
                raise failure
            return Answer("a", "a:1", receive_answer(encoded(0, BATCH)))

        return AskedCall(call, answer)

    def doubt(self):
        self.doubts += 1


class Consumer:
    """A consumer, and the brokers as it sees them."""

    def __init__(self):
        self.brokers = Brokers()
        self.asking = Asking(
            self.brokers, Fetched(), count_max=BATCH, timeout_s=None, clock=SystemClock()
        )
        self.batches = self.asking.batches()

    async def begin(self):
        """Wait for a batch in a task, which has asked or waits for its turn."""
        waiting = asyncio.create_task(anext(self.batches))
        await asyncio.sleep(0)
        return waiting


@pytest.fixture
def consumers():
    """One that has a batch and waits for its next turn; those that have the turns now."""
    return [Consumer() for _ in range(TURNS + 1)]


async def wait_for_turns(consumers):
    """Have the first wait for its next turn; the tasks of those that have the turns."""
    one, *others = consumers
    first = await one.begin()
    tasks = [await other.begin() for other in others]
    one.brokers.calls[0].end()
    assert len(bodies([await first])) == BATCH
    assert [len(each.brokers.calls) for each in consumers] == [1] * len(consumers)
    return tasks


async def end_all(consumers):
    for each in consumers:
        for call in each.brokers.calls:
            if not call.is_over:
                call.end()
        await each.batches.aclose()


async def test_the_turn_of_a_consumer_that_was_closed_goes_to_nobody(consumers):
    async with asyncio.timeout(10):
        tasks = await wait_for_turns(consumers)
        closed, other, _ = consumers
        await closed.asking.close()
        closed.brokers.refusal = ClientNotRunning("closed")
        other.brokers.calls[0].end()
        assert len(bodies([await tasks[0]])) == BATCH
        with pytest.raises(ClientNotRunning, match="the consumer was closed"):
            await anext(closed.batches)
        consumers[-1].brokers.calls[0].end()
        assert len(bodies([await tasks[1]])) == BATCH
        await end_all(consumers)


async def test_who_cannot_ask_at_its_turn_is_told_and_nobody_else(consumers):
    async with asyncio.timeout(10):
        tasks = await wait_for_turns(consumers)
        refused, other, _ = consumers
        refused.brokers.refusal = IllegalArgument("credentials over plain text")
        other.brokers.calls[0].end()
        assert len(bodies([await tasks[0]])) == BATCH
        with pytest.raises(IllegalArgument, match="credentials over plain text"):
            await anext(refused.batches)
        # Its turn is over: the next one has it.
        assert len(other.brokers.calls) == 2
        consumers[-1].brokers.calls[0].end()
        assert len(bodies([await tasks[1]])) == BATCH
        await end_all(consumers)


async def test_all_whose_calls_fail_at_once_have_their_turn():
    consumers = [Consumer() for _ in range(MANY)]
    tasks = [await each.begin() for each in consumers]
    assert sum(len(each.brokers.calls) for each in consumers) == TURNS
    for each in consumers:
        each.brokers.failure = ServiceUnavailable("away", retriable=True)
    consumers[0].brokers.calls[0].end()
    async with asyncio.timeout(20):
        while not all(each.brokers.doubts for each in consumers[TURNS:]):  # noqa: ASYNC110 - no event tells it.
            await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    consumers[1].brokers.calls[0].end()
    await asyncio.wait(tasks)
    await end_all(consumers)


async def test_a_callback_that_raises_keeps_no_other_from_being_called(caplog):
    call, called = Call(), []
    asked = AskedCall(call, lambda _: Answer("a", "a:1", ()))

    def raises(_):
        raise KeyError("unexpected")

    asked.add_done_callback(raises)
    asked.add_done_callback(called.append)
    with caplog.at_level(logging.ERROR):
        call.end()
    assert called == [asked]
    assert "unexpected" in caplog.text
