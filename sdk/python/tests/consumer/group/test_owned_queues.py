"""Queues are taken over although what is wanted changes meanwhile."""

import asyncio
from types import SimpleNamespace

import pytest

from ariane_sdk import MessageQueue, PushSettings, errors
from ariane_sdk.checks.tag_filter import TagFilter
from ariane_sdk.client.caution import NO_CAUTION
from ariane_sdk.client.queue_position import QueuePosition
from ariane_sdk.consumer.delivery.damaged_bodies import DamagedBodies
from ariane_sdk.consumer.delivery.window import QueueWindow
from ariane_sdk.consumer.group.pause_notice import PauseNotice
from ariane_sdk.consumer.group.queue_locks import QueueLocks
from ariane_sdk.consumer.owned_queues import OwnedQueues
from ariane_sdk.routing.routes import broker_named

Q0, Q1, Q2 = (MessageQueue("orders", "broker-a", queue_id) for queue_id in range(3))
GONE = MessageQueue("gone", "broker-a", 0)


class QuickClock:
    """Sleeps for a moment, however long it is asked to; an event holds up the first sleep."""

    def monotonic_s(self):
        return asyncio.get_running_loop().time()

    def now_ms(self):
        return 0

    async def sleep(self, _seconds):
        await asyncio.sleep(0.01)


class Keeping:
    """Keeps offsets; ``loads`` are held up while ``gate`` is closed."""

    def __init__(self):
        self.offsets = dict.fromkeys((Q0, Q1, Q2, GONE), QueuePosition(5))
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked, self.stored = [], []

    async def load(self, _broker, queues):
        found = {queue: self.offsets[queue] for queue in queues if queue in self.offsets}
        self.asked.append(set(queues))
        await self.gate.wait()
        return found

    async def store(self, _broker, offsets, *, durable=False, **_):
        self.stored.append(offsets)
        self.offsets |= offsets
        return {}

    def caution_of(self, _queue):
        return NO_CAUTION


class Work:
    """A queue whose listener is at work until ``finish`` is set."""

    alive = 0

    def __init__(self, queue, begin_offset):
        self.queue = queue
        self.window = QueueWindow(begin_offset)
        self.begin_offset = begin_offset
        self.log_epoch, self.replica_begin = 0, None
        self.stored_offset = None
        self.is_doubted = False
        self.not_before_s = 0.0
        self.released = False
        self.wants_records = False
        self.finish = asyncio.Event()

    @property
    def done_offset(self):
        return self.begin_offset

    def start(self):
        pass

    def wake(self):
        pass

    def deliver_nothing_new(self):
        self.released = True

    async def release(self, _timeout_s):
        await self.finish.wait()
        return self.begin_offset


class Locks:
    """Gives locks; giving back is held up while ``gate`` is closed."""

    def __init__(self):
        self.foreign = set()
        self.lost = set()
        self.gate = asyncio.Event()
        self.gate.set()
        self.giving_back = asyncio.Event()
        self.held = set()

    async def acquire(self, _broker, queues):
        self.held.update(set(queues) - self.foreign)
        return [queue for queue in queues if queue not in self.foreign]

    async def give_back(self, queues):
        self.held.difference_update(queues)
        self.giving_back.set()
        await self.gate.wait()

    async def give_back_all(self):
        self.held.clear()

    def epoch_of(self, _queue):
        return None

    def holds(self, queue):
        return queue not in self.lost


@pytest.fixture
async def make_owned():
    made = []

    def make(locks=None):
        broker = SimpleNamespace(broker_name="broker-a", read_address="127.0.0.1:1")
        place = SimpleNamespace(works=[], lost=0, keeping=Keeping(), broker=broker)
        route = SimpleNamespace(read_queues=(Q0, Q1, Q2), broker=lambda _name: place.broker)
        lost = SimpleNamespace(read_queues=(), broker=lambda _name: None)
        known = {"gone": lost, "orders": route}
        place.routes = SimpleNamespace(
            known=known,
            cached=known.get,
            latest_first=lambda topics: [known[topic] for topic in topics],
            doubt=lambda _topic: None,
        )

        def make_work(queue, begin_offset, _on_room):
            place.works.append(Work(queue, begin_offset))
            return place.works[-1]

        def lose():
            place.lost += 1

        plan = SimpleNamespace(
            pause=PauseNotice(),
            group="g",
            client_id="c",
            filters={"orders": TagFilter.parse("*")},
            start="earliest",
            settings=PushSettings(),
            clock=QuickClock(),
        )
        place.owned = OwnedQueues(
            SimpleNamespace(
                connections=None,
                routes=place.routes,
                calls=None,
                failover=SimpleNamespace(note=lambda _error, _topics: None),
            ),
            plan,
            keeping=place.keeping,
            locks=locks,
            make_owned=make_work,
            damaged_bodies=DamagedBodies(None),
            on_lost=lose,
            on_fatal=lambda _error: None,
        )
        made.append(place)
        return place

    yield make
    for place in made:
        for work in place.works:
            work.finish.set()
        await place.owned.close()


async def wait_until(condition):
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - there is nothing to be told by.
            await asyncio.sleep(0.005)


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


async def test_the_last_offset_of_a_queue_waits_for_a_broker_that_has_none_to_take_it(make_owned):
    """Or the next owner would begin where this one was seconds ago."""
    place = make_owned()
    store, failures = place.keeping.store, [errors.ServiceUnavailable("away", retriable=True)] * 3

    async def fail_thrice(broker, offsets, **how):
        if failures:
            raise failures.pop()
        return await store(broker, offsets, **how)

    place.owned.change_to({Q0}, handover_s=0)
    await wait_until(lambda: place.owned.queues == {Q0})
    place.keeping.store = fail_thrice
    place.works[0].begin_offset = 9
    place.works[0].finish.set()
    place.owned.change_to((), handover_s=0)
    await wait_until(lambda: not place.owned.uses(Q0))

    assert place.keeping.offsets[Q0] == QueuePosition(9)


async def test_a_consumer_that_closes_waits_for_no_primary(make_owned):
    place = make_owned()
    place.owned.change_to({Q0}, handover_s=0)
    await wait_until(lambda: place.owned.queues == {Q0})
    tried = asyncio.Event()

    async def fail(_broker, _offsets, **_):
        tried.set()
        raise errors.ServiceUnavailable("away", retriable=True)

    place.keeping.store = fail
    place.works[0].begin_offset = 9
    place.works[0].finish.set()
    place.owned.change_to((), handover_s=0)
    await tried.wait()
    async with asyncio.timeout(10):
        await place.owned.close()


async def test_what_a_replica_gave_is_stored_for_the_next_owner_too(make_owned):
    """Once the primary has found that its log has what was before that."""
    place = make_owned()
    place.owned.change_to({Q0}, handover_s=0)
    await wait_until(lambda: place.owned.queues == {Q0})
    work = place.works[0]
    work.log_epoch, work.replica_begin, work.begin_offset = 11, 7, 9
    work.finish.set()
    place.owned.change_to((), handover_s=0)
    await wait_until(lambda: not place.owned.uses(Q0))

    assert place.keeping.stored == [{Q0: QueuePosition(7, 11)}, {Q0: QueuePosition(9, 0)}]


async def test_what_a_replica_gave_is_stored_by_who_closes_too(make_owned):
    place = make_owned()
    place.owned.change_to({Q0}, handover_s=0)
    await wait_until(lambda: place.owned.queues == {Q0})
    work = place.works[0]
    work.log_epoch, work.replica_begin, work.begin_offset = 11, 7, 9
    work.finish.set()
    await place.owned.close()

    assert place.keeping.stored[0] == {Q0: QueuePosition(7, 11)}
    assert place.keeping.offsets[Q0] == QueuePosition(9, 0)


async def test_what_a_replica_gave_is_stored_although_another_broker_is_away(make_owned):
    place = make_owned()
    place.owned.change_to({Q0}, handover_s=0)
    await wait_until(lambda: place.owned.queues == {Q0})
    work = place.works[0]
    work.log_epoch, work.replica_begin, work.begin_offset = 11, 7, 9
    work.finish.set()
    store = place.keeping.store

    async def fail_together(broker, offsets, *, durable=False, **how):
        if durable:
            raise errors.ServiceUnavailable("away", retriable=True)
        return await store(broker, offsets, **how)

    place.keeping.store = fail_together
    await place.owned.close()

    assert place.keeping.offsets[Q0] == QueuePosition(9, 0)


async def test_nothing_that_a_replica_gave_is_stored_where_the_primary_has_lost_what_was_before(
    make_owned,
):
    place = make_owned()
    place.owned.change_to({Q0}, handover_s=0)
    await wait_until(lambda: place.owned.queues == {Q0})
    work = place.works[0]
    work.log_epoch, work.replica_begin, work.begin_offset = 11, 7, 9
    work.finish.set()
    stored = []

    async def refuse(_broker, offsets, **_):
        stored.append(offsets)
        return {Q0: errors.CallError("cut", reason="QUEUE_CUT")}

    place.keeping.store = refuse
    place.owned.change_to((), handover_s=0)
    await wait_until(lambda: not place.owned.uses(Q0))

    assert stored == [{Q0: QueuePosition(7, 11)}]


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
