"""A listener at work: what it did is settled, whatever comes between."""

import asyncio

import pytest

from ariane_sdk.client.listener import LOOK_S
from ariane_sdk.consumer.receiving.listening import SETTLE_RETRY_S, Listening
from ariane_sdk.consumer.receiving.receive_calls import Answer, messages_of
from ariane_sdk.consumer.receiving.receive_wire import receive_answer
from ariane_sdk.errors import (
    ConsumptionHeld,
    DeadlinePassed,
    GroupRefused,
    IllegalArgument,
    MessagesFailed,
    ServiceUnavailable,
)
from ariane_sdk.runtime.clock import SystemClock
from sdk.python.tests.consumer.receiving.test_asking import NoWaitClock, encoded


class PlayedClock:
    """A clock that goes on when somebody sleeps, except to look at listeners."""

    def __init__(self):
        self.now_s = 0.0

    def monotonic_s(self):
        return self.now_s

    async def sleep(self, seconds):
        if seconds == LOOK_S:
            await asyncio.Event().wait()
        self.now_s += seconds


class Settler:
    """Fails as often as it is told, then settles."""

    def __init__(self, *failures):
        self.failures = list(failures)
        self.settled = []
        self.tried = 0

    async def settle(self, what, message):
        self.tried += 1
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop(0)
        self.settled.append((what, int(message.body)))

    async def ack(self, message):
        await self.settle("ack", message)

    async def nack(self, message, *, delay_s=None, dead_letter=False, cause):
        said = ("", " dead")[dead_letter] + ("" if delay_s is None else f" {delay_s:g}")
        await self.settle("nack" + said, message)

    async def extend(self, message, *, seconds):
        await self.settle(f"extend {seconds}", message)


def away():
    return ServiceUnavailable("away", retriable=True)


async def messages(count, *, then=None):
    for message in messages_of(Answer("a", "a:1", receive_answer(encoded(0, count)))):
        yield message
    if then is not None:
        raise then


def listening(listener, settler, concurrency=1, clock=None):
    return Listening(
        listener, settler, group="g", concurrency=concurrency, clock=clock or NoWaitClock()
    )


async def done(_messages):
    """Does what it is to do."""


async def failed(_messages):
    raise ValueError("cannot")


@pytest.mark.parametrize(("listener", "what"), [(done, "ack"), (failed, "nack")])
async def test_what_its_broker_never_heard_of_is_settled_again(listener, what):
    replica = ServiceUnavailable("this broker is not the primary", reason="BROKER_NOT_PRIMARY")
    settler = Settler(away(), DeadlinePassed("no answer", outcome_unknown=True), replica)
    async with asyncio.timeout(60):
        await listening(listener, settler).run(messages(1))
    assert settler.settled == [(what, 0)]


async def test_a_listener_says_when_and_how_a_message_comes_again():
    async def listen(found):
        number = int(found[0].body)
        if number == 0:
            raise MessagesFailed(found, "never", rejected=True)
        if number == 1:
            raise MessagesFailed(found, "soon", delay_s=7)
        if number == 2:
            raise ConsumptionHeld(3, "bank is down")
        if number == 3:
            raise MessagesFailed([], "of nothing", rejected=True)

    settler = Settler()
    await listening(listen, settler).run(messages(4))
    assert settler.settled == [("nack dead", 0), ("nack 7", 1), ("nack 3", 2), ("nack", 3)]


async def test_a_listener_that_holds_everything_gets_nothing_meanwhile():
    clock, calls = PlayedClock(), []

    async def listen(found):
        calls.append((int(found[0].body), clock.now_s))
        if len(calls) == 1:
            raise ConsumptionHeld(30, "bank is down", all_queues=True)

    await listening(listen, Settler(), clock=clock).run(messages(3))
    assert calls == [(0, 0), (1, 30), (2, 30)]


async def test_a_refused_settlement_is_not_tried_again():
    settler = Settler(IllegalArgument("none of mine"))
    await listening(done, settler).run(messages(1))
    assert settler.tried == 1


async def test_a_broker_that_is_away_holds_up_no_other_messages():
    back = asyncio.Event()

    class OneAway(Settler):
        async def ack(self, message):
            if message.body == b"0" and not back.is_set():
                raise away()
            await super().ack(message)
            if len(self.settled) == 3:
                back.set()

    settler = OneAway()
    async with asyncio.timeout(60):
        await listening(done, settler).run(messages(4))
    assert sorted(settler.settled) == [("ack", n) for n in range(4)]
    assert settler.settled[-1] == ("ack", 0)


@pytest.mark.parametrize("when", ["first", "again"])
async def test_whoever_cancels_cuts_off_no_settlement(when):
    trying, go = asyncio.Event(), asyncio.Event()

    class Slow(Settler):
        async def ack(self, message):
            trying.set()
            await go.wait()
            await super().ack(message)

    class Sleeping(SystemClock):
        async def sleep(self, seconds):
            if seconds == SETTLE_RETRY_S:
                trying.set()
            await asyncio.Event().wait()

    settler = Slow() if when == "first" else Settler(away())
    running = asyncio.create_task(listening(done, settler, clock=Sleeping()).run(messages(1)))
    async with asyncio.timeout(60):
        await trying.wait()
        running.cancel()
        await asyncio.sleep(0)
        go.set()
        await asyncio.wait([running])
    assert running.cancelled()
    assert settler.settled == [("ack", 0)]


async def test_messages_of_a_cancelled_listener_are_given_back():
    begun = asyncio.Event()

    async def work(_messages):
        begun.set()
        await asyncio.Event().wait()

    settler = Settler()
    running = asyncio.create_task(listening(work, settler).run(messages(1)))
    await begun.wait()
    running.cancel()
    await asyncio.wait([running])
    assert settler.settled == [("extend 0", 0)]


async def test_why_no_more_messages_come_is_told_as_it_is():
    settler = Settler()
    with pytest.raises(GroupRefused):
        await listening(done, settler).run(messages(2, then=GroupRefused("not you")))
    assert {number for _, number in settler.settled} == {0, 1}


class MovedClock(NoWaitClock):
    """Goes on by what anybody waits."""

    now_s = 0.0

    def monotonic_s(self):
        return self.now_s

    async def sleep(self, seconds):
        self.now_s += seconds
        await asyncio.sleep(0)


async def test_a_message_that_a_listener_does_not_finish_is_told_of(caplog):
    """Its broker keeps it invisible: nobody else gets it."""
    clock, stuck = MovedClock(), asyncio.Event()

    async def listener(found):
        if int(found[0].body) == 1:
            await stuck.wait()

    settler = Settler()
    running = asyncio.create_task(listening(listener, settler, 2, clock).run(messages(3)))
    async with asyncio.timeout(60):
        while clock.now_s < 500:  # noqa: ASYNC110 - a clock.
            await asyncio.sleep(0)
    told = [said for said in caplog.messages if "no progress" in said]
    assert [said.split("no progress for ")[1].split(" s")[0] for said in told] == [
        "60",
        "120",
        "240",
        "480",
    ]
    assert "jobs" in told[0]
    assert "of group g" in told[0]
    assert "has 1 message," in told[0]
    stuck.set()
    await running
    assert sorted(settler.settled) == [("ack", 0), ("ack", 1), ("ack", 2)]
