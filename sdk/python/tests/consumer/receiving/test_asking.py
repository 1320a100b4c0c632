"""Asking for messages: what is fetched ahead, and what becomes of it in the end."""

import asyncio
import math
import sys
from contextlib import aclosing

import numpy as np
import pytest

from ariane.broker.v1.receive_service_pb2 import (
    ReceivedRecords,
    ReceiveOrder,
    ReceiveRecordsResponse,
)
from ariane_record import RecordFields, encode_record
from ariane_sdk.consumer.receiving import asking as _asking
from ariane_sdk.consumer.receiving.asking import Asking
from ariane_sdk.consumer.receiving.fetched import Fetched
from ariane_sdk.consumer.receiving.receive_calls import HOLD_S, Answer
from ariane_sdk.consumer.receiving.receive_wire import receive_answer
from ariane_sdk.consumer.receiving.turns import TURNS
from ariane_sdk.errors import ClientNotRunning, RecordDamaged, ServiceUnavailable
from ariane_sdk.routing.route import BrokerRoute
from ariane_sdk.runtime.clock import SystemClock

BATCH = 4


class NoWaitClock(SystemClock):
    """Lets others run, and nobody wait."""

    async def sleep(self, _seconds):
        await asyncio.sleep(0)


def encoded(begin, count):
    """An answer of a broker with so many messages."""
    records = [
        encode_record(RecordFields(topic="jobs", body=b"%d" % n, properties={}, queue_offset=n))
        for n in range(begin, begin + count)
    ]
    queue = ReceivedRecords(
        topic="jobs",
        queue_id=3,
        receipt=b"token",
        attempts=np.array([1], "<i4").tobytes(),
        invisible_until_ms=7,
        record_sizes=np.array(list(map(len, records)), "<i4").tobytes(),
        records=b"".join(records),
    )
    return ReceiveRecordsResponse(queues=[queue]).SerializeToString()


class Broker:
    """Gives a number of messages, each once; then it holds calls."""

    def __init__(self, count, *, failure=None):
        self.left = list(range(0, count, BATCH))
        self.count = count
        self.holds = []
        self.failure = failure

    async def receive(self, _route, _order, hold_s):
        self.holds.append(hold_s)
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        if not self.left:
            if hold_s:
                await asyncio.Event().wait()
            return Answer("a", "a:1", ())
        begin = self.left.pop(0)
        answer = encoded(begin, min(BATCH, self.count - begin))
        return Answer("a", "a:1", receive_answer(answer))


class Brokers:
    """Those that a route names; a call to one is a coroutine."""

    def __init__(self, receive, route, doubt=lambda: None):
        self.receive, self.route, self.doubt = receive, route, doubt
        self.found = None

    def known(self):
        return self.found if self.found == self.route() else None

    async def find(self):
        self.found = dict(self.route())
        return self.found

    def ask(self, broker, count_max, hold_s):
        order = ReceiveOrder(message_count_max=count_max)
        return asyncio.create_task(self.receive(broker, order, hold_s))


def asking_of(broker, fetched=None, timeout_s=None, clock=None, invisible_s=math.inf):
    return Asking(
        Brokers(broker.receive, lambda: {"a:1": None}),
        Fetched() if fetched is None else fetched,
        count_max=BATCH,
        timeout_s=timeout_s,
        clock=clock or SystemClock(),
        invisible_s=invisible_s,
    )


def bodies(batches):
    return [int(message.body) for batch in batches for message in batch]


async def test_full_answers_are_followed_by_one_that_is_asked_ahead():
    broker, got = Broker(10), []
    async with aclosing(asking_of(broker).batches()) as batches:
        async for batch in batches:
            got.append(batch)
            if len(bodies(got)) == 10:
                break
    assert bodies(got) == list(range(10))
    # The third is not full: there may be nothing behind it.
    assert broker.holds == [0, 0, 0]


async def test_no_call_is_held_while_somebody_works():
    broker = Broker(3)
    async with aclosing(asking_of(broker).batches()) as batches:
        assert bodies([await anext(batches)]) == [0, 1, 2]
        for _ in range(10):  # Works, while all others run.
            await asyncio.sleep(0)
        assert broker.holds == [0]
        waiting = asyncio.create_task(anext(batches))
        while len(broker.holds) < 2:  # noqa: ASYNC110 - it is the other end.
            await asyncio.sleep(0)
        assert broker.holds == [0, HOLD_S]
        waiting.cancel()
        await asyncio.wait([waiting])


class BusyBroker(Broker):
    """Answers when it is told so, and counts who waits for answers that it has."""

    def __init__(self, count):
        super().__init__(count)
        self.answers = asyncio.Semaphore(0)
        self.waiting = self.waiting_max = 0

    async def receive(self, route, order, hold_s):
        self.waiting += not hold_s
        self.waiting_max = max(self.waiting, self.waiting_max)
        try:
            if not hold_s:
                await self.answers.acquire()
            return await super().receive(route, order, hold_s)
        finally:
            self.waiting -= not hold_s


async def test_consumers_of_one_process_have_full_answers_in_turn(monkeypatch):
    monkeypatch.setattr(_asking, "ENDING_S", 0.01)
    members, got = 16, []
    broker = BusyBroker(members * BATCH)

    async def first_of_one():
        async with aclosing(asking_of(broker).batches()) as batches:
            got.append(await anext(batches))

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for _ in range(members):
            group.create_task(first_of_one())
        while len(got) < members:
            broker.answers.release()
            await asyncio.sleep(0)
    assert broker.waiting_max == TURNS
    assert broker.waiting == 0


async def test_a_consumer_that_ends_before_its_turn_asks_for_no_messages():
    broker, asked_last = BusyBroker(40), Broker(40)

    async def first_of_one(asked):
        async with aclosing(asking_of(asked).batches()) as batches:
            return await anext(batches)

    async with asyncio.timeout(60):
        askers = [asyncio.create_task(first_of_one(broker)) for _ in range(TURNS)]
        while broker.waiting < TURNS:  # noqa: ASYNC110 - it is the other end.
            await asyncio.sleep(0)
        last = asyncio.create_task(first_of_one(asked_last))
        await asyncio.sleep(0.01)
        last.cancel()
        await asyncio.wait([last])
        for _ in range(10 * BATCH):
            broker.answers.release()
        await asyncio.gather(*askers)
    assert asked_last.holds == []


async def test_messages_that_were_fetched_and_not_taken_come_first_the_next_time():
    broker, fetched, got = Broker(40), Fetched(), []
    for _ in range(10):
        async with aclosing(asking_of(broker, fetched).batches()) as batches:
            got.append(await anext(batches))
    assert sorted(bodies(got + fetched.kept)) == list(range(40 - BATCH * len(broker.left)))
    assert len(bodies(got)) == 40


async def test_asking_for_one_batch_fetches_no_other():
    broker, fetched = Broker(40), Fetched()
    async with aclosing(asking_of(broker, fetched, timeout_s=60).batches()) as batches:
        assert bodies([await anext(batches)]) == [0, 1, 2, 3]
    assert not fetched
    assert broker.holds == [HOLD_S]


@pytest.mark.parametrize("cut", ["wire", "record"])
async def test_what_cannot_be_taken_apart_is_told(cut):
    answer = encoded(0, 1)
    broker = Broker(4)

    async def damaged(_route, _order, _hold_s):
        if cut == "wire":
            raise RecordDamaged("a number does not end")
        queue = receive_answer(answer)[0]
        return Answer("a", "a:1", [queue._replace(records=queue.records[:-1])])

    broker.receive = damaged
    with pytest.raises(RecordDamaged):
        async with aclosing(asking_of(broker).batches()) as batches:
            await anext(batches)


async def test_a_broker_that_is_away_is_asked_again_until_the_time_is_over():
    broker = Broker(0, failure=ServiceUnavailable("away", retriable=True))
    async with aclosing(asking_of(broker, timeout_s=0.05).batches()) as batches:
        assert [batch async for batch in batches] == []
    assert broker.holds


@pytest.mark.parametrize("when", ["ahead", "late"])
async def test_what_a_broker_gave_that_leaves_the_route_is_handed_out(when):
    gone = Broker(3 * BATCH)
    brokers, fetched = {"a:1": None}, Fetched()
    order = ReceiveOrder(message_count_max=BATCH, size_bytes_max=1 << 20)

    if when == "late":
        late = asyncio.create_task(gone.receive(None, order, 15.0))
        await asyncio.wait([late])
        fetched.add_late("gone:1", {late})
        wanted = BATCH
    else:
        brokers["gone:1"] = gone
        wanted = 2 * BATCH

    async def receive(broker, order, hold_s):
        return await (broker or silent).receive(broker, order, hold_s)

    silent, got = Broker(0), []
    asking = Asking(
        Brokers(receive, lambda: brokers),
        fetched,
        count_max=BATCH,
        timeout_s=None,
        clock=SystemClock(),
    )
    async with aclosing(asking.batches()) as batches, asyncio.timeout(60):
        while len(bodies(got)) < wanted:
            got.append(await anext(batches))
            while len(gone.left) > 1 and when != "late":  # noqa: ASYNC110 - it has no event.
                await asyncio.sleep(0)
            brokers.pop("gone:1", None)
    assert sorted(bodies(got)) == list(range(wanted))
    assert not fetched


@pytest.mark.parametrize("timeout_s", [None, 60])
async def test_a_broker_that_was_taken_over_is_asked_where_it_is_now(timeout_s):
    """Also by whoever asks for one batch and waits."""
    now, doubts = {"old:1": BrokerRoute("c", "a", {0: "old:1"}, 4, 4)}, []

    class Calls(Broker):
        async def receive(self, broker, order, hold_s):
            if broker.read_address == "old:1":
                raise ServiceUnavailable("this broker is not the primary")
            return await super().receive(broker, order, hold_s)

    def doubt():
        doubts.append(dict(now))
        now.clear()
        now["new:1"] = BrokerRoute("c", "a", {0: "new:1"}, 4, 4)

    asking = Asking(
        Brokers(Calls(BATCH).receive, lambda: now, doubt),
        Fetched(),
        count_max=BATCH,
        timeout_s=timeout_s,
        clock=NoWaitClock(),
    )
    async with aclosing(asking.batches()) as batches, asyncio.timeout(10):
        assert bodies([await anext(batches)]) == [0, 1, 2, 3]
    assert len(doubts) == 1


@pytest.mark.parametrize("was_kept", [False, True])
async def test_who_waits_for_the_next_batch_has_nothing_of_the_last_one_kept(was_kept, monkeypatch):
    monkeypatch.setattr(_asking, "ENDING_S", 0.01)
    broker, fetched = Broker(BATCH - 1), Fetched()
    answer = await broker.receive(None, None, 0)
    broker.holds.clear()
    answers = [] if was_kept else [answer]
    if was_kept:
        fetched.keep(answer)

    async def receive(_route, _order, hold_s):
        broker.holds.append(hold_s)
        if not answers:
            await asyncio.Event().wait()
        return answers.pop()

    broker.receive = receive
    async with aclosing(asking_of(broker, fetched).batches()) as batches:
        batch = await anext(batches)
        waiting = asyncio.create_task(anext(batches))
        async with asyncio.timeout(60):
            while len(broker.holds) < 2 - was_kept:  # noqa: ASYNC110 - it is the other end.
                await asyncio.sleep(0)
        counts = [sys.getrefcount(batch), sys.getrefcount(answer)]
        waiting.cancel()
        await asyncio.wait([waiting])
    assert counts == [2, 2]  # Of this test, and of the call that counts.


async def test_a_second_close_waits_for_the_end_as_well():
    asking = asking_of(Broker(0))
    waiting = asyncio.create_task(anext(asking.batches()))
    while asking._waiting is None:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0)
    closing = asyncio.create_task(asking.close())
    while asking._ended is None:  # noqa: ASYNC110 - likewise
        await asyncio.sleep(0)

    await asking.close()

    with pytest.raises(ClientNotRunning):
        await waiting
    await closing
