"""Queues are taken over although what is wanted changes meanwhile."""

import asyncio

import pytest

from ariane_sdk import errors
from ariane_sdk.client.queue_position import QueuePosition
from ariane_sdk.consumer.group.queue_locks import QueueLocks
from ariane_sdk.routing.broker_addresses import broker_named
from sdk.python.tests.consumer.group.owned_place import (
    GONE,
    Q0,
    Q1,
    Q2,
    Locks,
    QuickClock,
    wait_until,
)


async def test_a_queue_that_is_wanted_again_while_others_are_taken_over_is_too(make_owned):
    place = make_owned()
    place.keeping.gate.clear()
    place.owned.change_to({Q0, Q1}, handover_s=1)
    place.owned.change_to({Q0}, handover_s=1)
    await wait_until(lambda: place.keeping.asked == [{Q0}])

    place.owned.change_to({Q0, Q1}, handover_s=1)
    place.keeping.gate.set()

    await wait_until(lambda: place.owned.queues == {Q0, Q1})


async def test_a_queue_that_is_wanted_again_waits_for_its_release(make_owned):
    locks = Locks()
    locks.foreign = {Q1}
    place = make_owned(locks)
    place.owned.change_to({Q0, Q1}, handover_s=1)
    await wait_until(lambda: place.owned.queues == {Q0})
    place.owned.change_to({Q1}, handover_s=1)
    place.owned.change_to({Q0, Q1}, handover_s=1)
    asked = len(place.keeping.asked)
    locks.foreign = set()
    await wait_until(lambda: Q1 in place.owned.queues or len(place.keeping.asked) > asked + 3)

    assert [work.queue for work in place.works].count(Q0) == 1
    place.works[0].finish.set()
    await wait_until(lambda: place.owned.queues == {Q0, Q1})


async def test_a_queue_that_is_wanted_again_while_it_is_given_back_is_asked_for(make_owned):
    locks = Locks()
    locks.gate.clear()
    place = make_owned(locks)
    place.owned.change_to({Q0}, handover_s=1)
    place.owned.change_to((), handover_s=1)
    await locks.giving_back.wait()
    place.owned.change_to({Q0}, handover_s=1)
    locks.gate.set()
    await wait_until(lambda: place.lost)

    place.owned.change_to({Q0}, handover_s=1)
    await wait_until(lambda: place.owned.queues == {Q0})


async def test_a_lock_that_is_not_wanted_any_longer_is_given_back_while_others_are_waited_for(
    make_owned,
):
    locks = Locks()
    locks.foreign = {Q1}
    place = make_owned(locks)
    place.keeping.gate.clear()
    place.owned.change_to({Q0, Q1}, handover_s=0)
    await wait_until(lambda: place.keeping.asked)
    assert locks.held == {Q0}
    place.owned.change_to({Q1}, handover_s=0)
    place.keeping.gate.set()

    await wait_until(lambda: not locks.held)
    locks.foreign = set()
    await wait_until(lambda: place.owned.queues == {Q1})


async def test_a_queue_whose_lock_is_lost_while_it_is_taken_over_is_asked_for_again(make_owned):
    locks = Locks()
    place = make_owned(locks)
    place.keeping.gate.clear()
    place.owned.change_to({Q0}, handover_s=0)
    await wait_until(lambda: place.keeping.asked)
    locks.lost = {Q0}
    place.keeping.gate.set()
    await wait_until(lambda: len(place.keeping.asked) > 1)
    assert place.works == []

    locks.lost = set()
    await wait_until(lambda: place.owned.queues == {Q0})


class LockCalls:
    """A broker that locks whatever is asked for."""

    def __init__(self):
        self.locked = set()

    async def lock(self, _broker, queues):
        self.locked.update(queues)
        return dict.fromkeys(queues, 7), 60.0

    async def unlock(self, _broker, epochs):
        self.locked.difference_update(epochs)


async def test_a_renewal_keeps_the_locks_of_queues_in_work(make_owned):
    calls = LockCalls()
    locks = QueueLocks(
        calls,
        broker_named=lambda name: broker_named(place.routes, name),
        is_used=lambda queue: place.owned.uses(queue),  # noqa: PLW0108 - there is none yet.
        on_lost=lambda queue: place.owned.drop(queue),  # noqa: PLW0108 - the same.
        clock=QuickClock(),
    )
    place = make_owned(locks)
    place.owned.change_to({Q0, Q1}, handover_s=0)
    await wait_until(lambda: place.owned.queues == {Q0, Q1})
    await place.owned.wait_acquired()
    # In work, and while its listener finishes after it was given up.
    place.owned.change_to({Q0}, handover_s=0)
    await locks.renew()
    assert all(map(locks.holds, (Q0, Q1)))
    assert calls.locked == {Q0, Q1}


async def test_the_lock_of_a_queue_whose_broker_leaves_the_routes_is_given_back_when_it_returns(
    make_owned,
):
    calls = LockCalls()
    locks = QueueLocks(
        calls,
        broker_named=lambda name: broker_named(place.routes, name),
        is_used=lambda queue: place.owned.uses(queue),  # noqa: PLW0108 - there is none yet.
        on_lost=lambda queue: place.owned.drop(queue),  # noqa: PLW0108 - the same.
        clock=QuickClock(),
    )
    place = make_owned(locks)
    place.owned.change_to({Q0, Q1}, handover_s=0)
    await wait_until(lambda: place.owned.queues == {Q0, Q1})
    broker, place.broker = place.broker, None
    place.owned.change_to((), handover_s=0)
    for work in place.works:
        work.finish.set()
    await wait_until(lambda: not any(map(place.owned.uses, (Q0, Q1))))
    assert calls.locked == {Q0, Q1}

    # Now Q1 is another member's, who would wait for it for as long as this one renews it.
    place.broker = broker
    place.owned.change_to({Q0}, handover_s=0)
    await wait_until(lambda: place.owned.queues == {Q0})
    await locks.renew()
    await asyncio.wait_for(locks.return_by_and_by(), 60)
    assert calls.locked == {Q0}


async def test_offsets_that_are_set_anew_while_a_queue_is_taken_over_are_those_to_begin_at(
    make_owned,
):
    place = make_owned()
    place.keeping.gate.clear()
    place.owned.change_to({Q0}, handover_s=0)
    await wait_until(lambda: place.keeping.asked)
    place.keeping.offsets[Q0] = QueuePosition(50)
    place.owned.forget([Q0])
    place.keeping.gate.set()
    await wait_until(lambda: place.owned.queues == {Q0})

    assert [work.begin_offset for work in place.works] == [50]


async def test_offsets_that_could_not_be_read_are_asked_for_again(make_owned):
    place = make_owned()
    load, failures = place.keeping.load, [errors.CallError("away"), errors.CallError("away")]

    async def fail_twice(broker, queues):
        if failures:
            raise failures.pop()
        return await load(broker, queues)

    place.keeping.load = fail_twice
    place.owned.change_to({Q0, Q1}, handover_s=0)
    async with asyncio.timeout(60):
        await place.owned.wait_acquired()

    assert place.owned.queues == {Q0, Q1}


async def test_a_topic_that_has_lost_the_broker_does_not_hold_up_the_queues_of_others(make_owned):
    place = make_owned()
    place.owned.change_to({GONE, Q0}, handover_s=0)
    async with asyncio.timeout(60):
        await place.owned.wait_acquired()
    for work in place.works:
        work.begin_offset = 6

    await place.owned.store(durable=False)

    assert place.keeping.offsets == {
        **dict.fromkeys((GONE, Q0), QueuePosition(6)),
        **dict.fromkeys((Q1, Q2), QueuePosition(5)),
    }


async def test_a_queue_whose_broker_never_comes_back_is_waited_for_as_long_as_it_is_wanted(
    make_owned,
):
    place = make_owned()
    place.owned.others_left_s = lambda _broker_name: 5.0
    place.owned.change_to({Q0}, handover_s=1)
    assert place.owned.uses(Q0)
    place.owned.change_to((), handover_s=0)
    async with asyncio.timeout(20):
        await place.owned.wait_acquired()


async def test_a_queue_whose_broker_was_away_waits_for_members_that_are_not_back_yet(make_owned):
    """They store there what they have done before they give it up."""
    place = make_owned()
    load, failures = place.keeping.load, [errors.ServiceUnavailable("away", retriable=True)]
    left_s = [0.0]
    place.owned.others_left_s = lambda _broker_name: left_s[0]

    async def fail_once(broker, queues):
        if failures:
            left_s[0] = 5.0  # It is back, and the others are not.
            raise failures.pop()
        return await load(broker, queues)

    place.keeping.load = fail_once
    place.owned.change_to({Q0}, handover_s=1)
    await wait_until(lambda: not failures)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await wait_until(lambda: place.owned.queues)
    left_s[0] = 0.0
    await wait_until(lambda: place.owned.queues == {Q0})
