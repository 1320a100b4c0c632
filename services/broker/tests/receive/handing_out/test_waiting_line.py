"""Who waits is served in turn, from queues in which something has happened; nothing is missed."""

import asyncio
import random
from collections import Counter
from itertools import chain

import numpy as np
import pytest

from ariane_broker.filters.expression import FilterExpression
from ariane_broker.log.filtered_watches import FilteredWatches
from ariane_broker.log.held_requests import HeldRequests
from ariane_broker.queue_key import QueueKey
from ariane_broker.receive.handing_out.queue_walk import QUEUES_MAX, QueueWalk
from ariane_broker.receive.handing_out.receive_order import HandedOut, Look, ReceiveOrder
from ariane_broker.receive.handing_out.receiving import Receiving
from ariane_broker.receive.handing_out.waiting_line import WaitingLines
from ariane_servicekit import AnswerBudget

COUNT = 3 * QUEUES_MAX
QUEUES = [QueueKey("orders", number) for number in range(COUNT)]


class Queues:
    """Queues of numbered messages, one of which a look gives; says what was looked at."""

    def __init__(self):
        self.held = HeldRequests(FilteredWatches(store=None), count_max=99)
        self.ready = Counter()
        self.looks = []
        self.lines = WaitingLines(self, self.held, None)

    def queue_counts(self, order):
        return {"orders": COUNT}

    def walk(self, counts):
        return QueueWalk(counts, 0)

    def hand_out(self, order, filters, counts, queues, *, bytes_max, budget):
        assert len(queues) <= budget.things
        self.looks.append([queue.queue_id for queue in queues])
        budget.count_queues(len(queues))
        full = [queue for queue in queues if self.ready[queue]]
        if not full:
            return Look([], [])
        self.ready[full[0]] -= 1
        zeros = np.zeros(1, np.int64)
        out = HandedOut(full[0], 1, 1, zeros, zeros.astype(np.int32), [])
        return Look([out], [*full[1:], full[0]])

    def give_back(self, group, handed):
        for out in handed:
            self.ready[out.queue] += 1

    def put(self, number, count=1):
        self.ready[QUEUES[number]] += count
        self.held.arrived(QUEUES[number])

    def receive(self, *, hold_s=30, **wanted):
        order = ReceiveOrder(
            group="billing",
            filters={"orders": FilterExpression()},
            size_bytes_max=1,
            hold_seconds=hold_s,
            **wanted,
        )
        receiving = Receiving(
            self,
            self.lines,
            None,
            group_changes=None,
            clients=None,
            attempts=None,
            cold_reads=None,
            monotonic=asyncio.get_running_loop().time,
            now_ms=None,
        )
        return asyncio.ensure_future(receiving._receive(order, {"orders": None}, lease()))

    async def waiting(self, **wanted):
        """A call that waits, besides others."""
        count = self.held.count + 1
        call = self.receive(**wanted)
        async with asyncio.timeout(60):
            while self.held.count < count:  # noqa: ASYNC110 - of the call
                await asyncio.sleep(0)
        self.looks.clear()
        return call


def lease():
    return AnswerBudget(1 << 20).lease("peer")


def numbers(received):
    return [out.queue.queue_id for out in received]


@pytest.fixture
async def queues():
    return Queues()


async def test_an_arrival_behind_the_walk_is_found_at_once(queues):
    call = queues.receive()
    while not queues.looks:  # noqa: ASYNC110 - of the call
        await asyncio.sleep(0)
    queues.put(5)
    assert numbers(await call) == [5]
    # After all others were looked at once.
    assert [len(look) for look in queues.looks] == [QUEUES_MAX] * 3 + [1]


async def test_a_receive_without_a_hold_looks_once_at_each_queue(queues):
    assert await queues.receive(hold_s=0) == []
    assert sorted(chain.from_iterable(queues.looks)) == list(range(COUNT))
    assert not queues.held._watches


async def test_calls_are_served_as_they_came_whatever_they_want(queues):
    calls = [
        await queues.waiting(by_priority=bool(place % 2), several_of_a_group=place % 3 == 0)
        for place in range(6)
    ]
    served = []
    for place, call in enumerate(calls):
        call.add_done_callback(lambda _, place=place: served.append(place))
    for _ in calls:
        queues.put(7)
        for _ in range(5):
            await asyncio.sleep(0)
    assert served == [0, 1, 2, 3, 4, 5]
    assert {number for look in queues.looks for number in look} == {7}


async def test_waiting_calls_are_served_before_new_ones(queues):
    waits = await queues.waiting()
    late = queues.receive()
    queues.put(7)
    assert numbers(await waits) == [7]
    queues.put(8)
    assert numbers(await late) == [8]


async def test_no_queue_starves_beside_one_that_is_never_empty(queues):
    calls = [await queues.waiting() for _ in range(6)]
    queues.put(1, count=100)
    queues.put(2)
    queues.put(3)
    received = [numbers(each)[0] for each in await asyncio.gather(*calls)]
    assert sorted(received[:3]) == [1, 2, 3]
    assert received[3:] == [1, 1, 1]


async def test_many_queues_at_a_time_are_looked_at_in_turns(queues):
    call = await queues.waiting()
    for number in range(COUNT):
        queues.held.arrived(QUEUES[number])  # For another group, maybe.
    queues.put(COUNT - 1)
    assert numbers(await call) == [COUNT - 1]
    assert [len(look) for look in queues.looks] == [QUEUES_MAX] * 3


async def test_messages_of_a_cancelled_call_go_to_the_next_call(queues):
    gone, following = await queues.waiting(), await queues.waiting()
    queues.put(4)
    queues.lines._lines["billing"].serve()
    gone.cancel()
    assert numbers(await following) == [4]
    assert gone.cancelled()


async def test_a_receive_cancelled_while_it_looks_leaves_no_watch(queues):
    call = queues.receive()
    while len(queues.looks) < 2:  # noqa: ASYNC110 - of the call
        await asyncio.sleep(0)
    call.cancel()
    await asyncio.wait([call])
    assert not queues.held._watches
    assert not queues.lines._lines


async def test_nothing_is_kept_of_groups_in_which_nobody_waits(queues):
    """Groups come and go, as who may create some likes."""
    for _ in range(3):
        call = await queues.waiting()
        assert list(queues.lines._lines) == ["billing"]
        queues.put(4)
        assert numbers(await call) == [4]
        assert not queues.lines._lines
    # A message for a group without calls concerns nobody.
    queues.lines.call("billing", QUEUES[0])
    assert not queues.lines._lines


@pytest.mark.parametrize("seed", range(8))
async def test_no_call_waits_while_messages_are_ready_and_none_is_lost(queues, seed):
    """Whatever comes, is wanted and is given up, while others look and wait."""
    chance = random.Random(seed)
    calls, gone, put = [], [], 0

    async def settles(turns):
        for _ in range(turns):
            await asyncio.sleep(0)

    for _ in range(300):
        match chance.choice(["put", "put", "receive", "receive", "give up", "turn"]):
            case "put":
                number, count = chance.randrange(COUNT), chance.choice([1, 1, 5])
                queues.put(number, count)
                put += count
            case "receive":
                hold_s = chance.choice([0, 30, 30])
                calls.append(queues.receive(hold_s=hold_s, by_priority=chance.random() < 0.3))
            case "give up" if calls:
                call = calls.pop(chance.randrange(len(calls)))
                call.cancel()
                gone.append(call)
            case "turn":
                await settles(chance.randrange(4))
        if chance.random() < 0.05:
            await settles(60)
            assert not (queues.held.count and queues.ready.total())
    await settles(60)
    assert not (queues.held.count and queues.ready.total())
    received = sum(len(call.result()) for call in calls if call.done())
    received += sum(len(call.result()) for call in gone if call.done() and not call.cancelled())
    assert received + queues.ready.total() == put
    for call in calls:
        call.cancel()
    await settles(4)
    assert not queues.lines._lines
    assert not queues.held._watches
