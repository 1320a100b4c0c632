"""The client's side of queue locks, against a scripted broker and a clock that is moved by hand."""

import asyncio
from dataclasses import replace
from functools import partial

import pytest

from ariane_sdk import MessageQueue, errors
from ariane_sdk.consumer.group.queue_locks import QueueLocks
from ariane_sdk.routing.broker_addresses import broker_named
from ariane_sdk.routing.route import BrokerRoute, Route
from ariane_sdk.routing.routes import Routes

QUEUES = [MessageQueue("orders", "broker-a", number) for number in range(3)]
OTHER = MessageQueue("orders", "broker-b", 0)
GONE = MessageQueue("gone", "broker-a", 0)
BROKER = BrokerRoute("c", "broker-a", {0: "127.0.0.1:1"}, 3, 3)
OTHER_BROKER = replace(BROKER, broker_name="broker-b")
ROUTES = {"gone": Route("gone", ()), "orders": Route("orders", (BROKER, OTHER_BROKER))}


class Clock:
    def __init__(self):
        self.now_s = 1000.0
        self.sleeps = []

    def monotonic_s(self):
        return self.now_s

    async def sleep(self, seconds):
        self.sleeps.append(seconds)
        self.now_s += seconds


class Calls:
    """Grants what ``epochs`` holds; fails while ``error`` is set; a call takes ``takes_s``."""

    def __init__(self, clock):
        self.clock = clock
        self.epochs = dict.fromkeys([GONE, *QUEUES], 7)
        self.error = None
        self.takes_s = 0.0
        self.reliable_s = 40.0
        self.given_back = {}
        self.returns = []
        self.asked = []

    async def lock(self, broker, queues):
        assert {queue.broker_name for queue in queues} == {broker.broker_name}
        self.asked.append(list(queues))
        self.clock.now_s += self.takes_s
        if self.error is not None:
            raise self.error
        return {
            queue: self.epochs[queue] for queue in queues if queue in self.epochs
        }, self.reliable_s

    async def unlock(self, broker, epochs):
        self.returns.append(list(epochs))
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        self.given_back |= epochs


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def calls(clock):
    return Calls(clock)


@pytest.fixture
def lost():
    return []


class Place:
    """Where queues are, as far as the client knows, and which of them it uses."""

    def __init__(self, clock):
        self.routes = Routes(None, clock, None)
        self.routes.known.update(ROUTES)
        self.used = {GONE, *QUEUES, OTHER}


@pytest.fixture
def place(clock):
    return Place(clock)


@pytest.fixture
def locks(clock, calls, lost, place):
    return QueueLocks(
        calls,
        broker_named=partial(broker_named, place.routes),
        is_used=lambda queue: queue in place.used,
        on_lost=lost.append,
        clock=clock,
    )


async def test_free_queues_are_held_for_half_of_the_lease(locks, calls, clock):
    del calls.epochs[QUEUES[1]]
    calls.takes_s = 2.0
    assert await locks.acquire(BROKER, QUEUES) == [QUEUES[0], QUEUES[2]]
    assert [locks.epoch_of(queue) for queue in QUEUES] == [7, None, 7]
    assert [locks.holds(queue) for queue in QUEUES] == [True, False, True]
    clock.now_s += 27.9
    assert locks.holds(QUEUES[0])
    clock.now_s += 0.1
    assert not locks.holds(QUEUES[0])


async def test_renewals_keep_locks(locks, clock, lost):
    await locks.acquire(BROKER, QUEUES)
    for _ in range(10):
        await locks.renew_by_and_by()
        assert locks.holds(QUEUES[0])
    assert clock.sleeps == [20.0] * 10
    assert lost == []


async def test_locks_of_short_leases_are_renewed_in_time(locks, calls, clock, lost):
    calls.reliable_s = 2.0
    await locks.acquire(BROKER, QUEUES)
    for _ in range(10):
        await locks.renew_by_and_by()
        assert locks.holds(QUEUES[0])
    assert clock.sleeps == [1.0] * 10
    assert lost == []


async def test_a_shorter_lease_that_is_given_during_the_wait_is_renewed_in_time(
    locks, calls, clock, lost
):
    sleepers = asyncio.Queue()

    async def sleep(seconds):
        woken = asyncio.Event()
        sleepers.put_nowait((clock.now_s + seconds, woken))
        await woken.wait()

    clock.sleep = sleep
    calls.epochs = {QUEUES[0]: 7, OTHER: 7}
    await locks.acquire(BROKER, QUEUES[:1])
    round_ = asyncio.create_task(locks.renew_by_and_by())
    async with asyncio.timeout(60):
        assert (await sleepers.get())[0] == 1020.0
        clock.now_s += 8.0
        calls.reliable_s = 24.0
        await locks.acquire(OTHER_BROKER, [OTHER])
        clock.now_s, woken = await sleepers.get()
        assert clock.now_s == 1012.0
        woken.set()
        await round_
    assert calls.asked[2:] == [QUEUES[:1], [OTHER]]
    assert lost == []


@pytest.mark.parametrize(("answered_after_s", "kept"), [(29.9, True), (30.0, False)])
async def test_a_lock_that_was_no_longer_good_is_lost_though_it_is_renewed(
    locks, calls, clock, lost, answered_after_s, kept
):
    await locks.acquire(BROKER, QUEUES[:1])
    # Meanwhile, who delivers has looked and stopped: nothing else would have it begin again.
    calls.takes_s = 2.0
    clock.now_s += answered_after_s - calls.takes_s
    await locks.renew()
    assert locks.holds(QUEUES[0]) == kept
    assert lost == ([] if kept else QUEUES[:1])


async def test_a_lock_that_another_member_has_is_lost(locks, calls, lost):
    await locks.acquire(BROKER, QUEUES)
    del calls.epochs[QUEUES[1]]
    assert await locks.renew()
    assert lost == [QUEUES[1]]
    assert not locks.holds(QUEUES[1])
    assert locks.epoch_of(QUEUES[1]) is None


async def test_a_lock_that_is_ours_anew_is_lost_too(locks, calls, lost):
    await locks.acquire(BROKER, QUEUES)
    calls.epochs[QUEUES[2]] = 9
    assert await locks.renew()
    assert lost == [QUEUES[2]]


async def test_a_silent_broker_is_asked_every_second_until_locks_are_not_good(locks, calls, clock):
    await locks.acquire(BROKER, QUEUES)
    calls.error = errors.ServiceUnavailable("away", retriable=True)
    await locks.renew_by_and_by()
    assert clock.sleeps == [20.0] + [1.0] * 11
    assert not any(map(locks.holds, QUEUES))
    assert locks.epoch_of(QUEUES[0]) is None


async def test_a_member_that_was_frozen_holds_no_lock(locks, clock, lost, calls):
    await locks.acquire(BROKER, QUEUES)
    clock.now_s += 100
    assert not locks.holds(QUEUES[0])
    calls.error = errors.ServiceUnavailable("away", retriable=True)
    await locks.renew()
    assert lost == QUEUES


async def test_given_back_means_told_and_forgotten(locks, calls):
    await locks.acquire(BROKER, QUEUES)
    await locks.give_back(QUEUES[:2])
    assert calls.given_back == {QUEUES[0]: 7, QUEUES[1]: 7}
    assert not locks.holds(QUEUES[0])
    assert locks.holds(QUEUES[2])


@pytest.mark.parametrize("why", ["no answer", "in no route"])
async def test_locks_that_could_not_be_given_back_are_given_back_later(locks, calls, place, why):
    await locks.acquire(BROKER, QUEUES)
    calls.error = errors.ServiceUnavailable("away", retriable=True)
    if why == "in no route":
        place.routes.known["orders"] = Route("orders", ())
    await locks.give_back(QUEUES[:2])
    calls.error = None
    await locks.renew()
    assert calls.given_back == {}
    assert calls.asked[1:] == ([[QUEUES[2]]] if why == "no answer" else [])

    if why == "in no route":
        await locks.return_by_and_by()
        assert calls.given_back == {}
        place.routes.known.update(ROUTES)
    await locks.return_by_and_by()
    assert calls.given_back == {QUEUES[0]: 7, QUEUES[1]: 7}


async def test_locks_that_are_wanted_again_are_not_given_back(locks, calls):
    await locks.acquire(BROKER, QUEUES)
    calls.error = errors.ServiceUnavailable("away", retriable=True)
    await locks.give_back(QUEUES[:2])
    calls.error = None
    await locks.acquire(BROKER, QUEUES[:1])
    await locks.return_by_and_by()
    assert calls.given_back == {QUEUES[1]: 7}
    assert locks.holds(QUEUES[0])


async def test_unused_locks_are_given_back_instead_of_renewed(locks, calls, place):
    await locks.acquire(BROKER, QUEUES)
    place.used = set(QUEUES[:2])
    await locks.renew()
    assert calls.asked[-1] == QUEUES[:2]
    await locks.return_by_and_by()
    assert calls.given_back == {QUEUES[2]: 7}


@pytest.mark.parametrize(("unknown", "given_back"), [(True, dict.fromkeys(QUEUES, 0)), (False, {})])
async def test_locks_that_may_have_been_granted_are_given_back(locks, calls, unknown, given_back):
    calls.error = errors.CallError("no answer", outcome_unknown=unknown)
    with pytest.raises(errors.CallError):
        await locks.acquire(BROKER, QUEUES)
    calls.error = None
    if unknown:
        await locks.return_by_and_by()
    assert calls.given_back == given_back


async def test_an_expired_lock_is_reported_lost_at_once(locks, calls, clock, lost):
    await locks.acquire(BROKER, QUEUES)
    locks.stop_relying(QUEUES[0])
    assert lost == []
    clock.now_s += 30
    locks.stop_relying(QUEUES[0])
    assert lost == QUEUES[:1]
    await locks.return_by_and_by()
    assert calls.given_back == {QUEUES[0]: 7}


async def test_a_consumer_that_stops_gives_all_locks_back(locks, calls):
    await locks.acquire(BROKER, QUEUES)
    calls.error = errors.ServiceUnavailable("away", retriable=True)
    await locks.give_back(QUEUES[:1])
    calls.error = None
    await locks.give_back_all()
    assert calls.given_back == dict.fromkeys(QUEUES, 7)
    assert not any(map(locks.holds, QUEUES))


@pytest.mark.parametrize("error", [None, errors.DeadlinePassed("no answer in time")])
@pytest.mark.parametrize("queues", [QUEUES, [GONE, *QUEUES]], ids=["one topic", "one lost"])
async def test_locks_given_back_one_by_one_go_together(locks, calls, queues, error):
    await locks.acquire(BROKER, queues)
    calls.error = error

    await asyncio.gather(*(locks.give_back([queue]) for queue in queues))

    assert calls.returns == [queues]
    calls.error = None
    if error is not None:
        await locks.return_by_and_by()
    assert calls.given_back == dict.fromkeys(queues, 7)


async def test_a_topic_that_has_lost_the_broker_does_not_hold_up_the_locks_of_others(
    locks, calls, lost
):
    await locks.acquire(BROKER, [GONE, *QUEUES])
    assert await locks.renew()
    assert calls.asked[1:] == [[GONE, *QUEUES]]
    assert lost == []
    locks.lose(GONE)
    locks.lose(QUEUES[0])
    await locks.return_by_and_by()
    assert calls.given_back == {GONE: 7, QUEUES[0]: 7}
