"""Who may lock: members that are attached; whose lock may be taken: of members that are gone."""

import asyncio

import pytest

from ariane_broker.clients.attached_client import Hello
from ariane_broker.clients.client_table import ClientTable
from ariane_broker.clients.members.membership import Membership
from ariane_broker.clients.outbox import MembershipChanged
from ariane_broker.consuming.queue_locking import QueueLocking
from ariane_broker.groups.queue_locks import QueueLocks
from ariane_broker.queue_key import QueueKey
from ariane_broker.topics.topic_table import TopicConfig
from ariane_servicekit.running.turns import EXAMINED_MAX
from ariane_testkit.virtual_clock import VirtualClock

COUNT = 4 * EXAMINED_MAX
QUEUE = QueueKey("orders", 0)


class Topics:
    def find(self, topic):
        return TopicConfig(topic=topic, read_queue_count=COUNT, write_queue_count=COUNT)


class Saved:
    def __init__(self):
        self.changed = False
        self.count = 0
        self.document = None

    def mark_changed(self):
        self.changed = True

    async def save(self):
        if self.changed:
            self.document = self.snapshot()
            self.count += 1
            self.changed = False


class Place:
    """A broker with a clock that is moved by hand, whose members may end and come back."""

    def __init__(self):
        self.clock = VirtualClock()
        self.clients = ClientTable(self.clock, flags_conflicts=lambda _group: False)
        self.saved = Saved()
        self.copied_count = 0
        self.attached = {}
        self.open(self.new_locks())

    def new_locks(self):
        return QueueLocks(
            monotonic=self.clock.monotonic, now_ms=self.clock.now_ms, lease_seconds=60
        )

    def open(self, locks):
        self.saved.snapshot = locks.document
        self.locking = QueueLocking(locks, self.clients, Topics(), self.saved, copied=self.copied)

    async def copied(self):
        self.copied_count = self.saved.count

    def attach(self, *client_ids):
        memberships = (Membership(consumer_group="group", ordered=True),)
        for client_id in client_ids:
            hello = Hello(client_id=client_id, memberships=memberships)
            self.attached[client_id] = self.clients.attach(hello, "127.0.0.1:1")

    def end(self, *client_ids):
        for client_id in client_ids:
            self.clients.detach(self.attached.pop(client_id))

    def restart(self):
        self.end(*list(self.attached))
        locks = self.new_locks()
        locks.load(self.saved.document)
        self.open(locks)

    async def lock(self, client_id):
        return QUEUE in await self.locking.lock("group", client_id, [QUEUE])


@pytest.fixture
def place():
    place = Place()
    place.attach("a", "b")
    return place


async def test_owners_are_told_to_rely_on_two_thirds_of_the_lease(place):
    assert place.locking.relied_seconds == 40


async def test_replicas_know_a_lock_before_its_owner_does(place):
    assert await place.lock("a")
    assert place.copied_count == place.saved.count == 1


async def test_the_lock_of_a_member_whose_stream_ended_may_be_taken_when_it_has_stopped(place):
    assert await place.lock("a")
    place.clock.advance(10)
    place.end("a")
    place.clock.advance(29)
    assert not await place.lock("b")
    place.clock.advance(1)
    assert await place.lock("b")


async def test_a_member_that_is_attached_keeps_its_lock_for_the_whole_lease(place):
    assert await place.lock("a")
    place.clock.advance(59)
    assert not await place.lock("b")
    place.clock.advance(1)
    assert await place.lock("b")


async def test_a_member_that_came_back_and_renewed_keeps_its_lock(place):
    assert await place.lock("a")
    place.end("a")
    place.clock.advance(39)
    place.attach("a")
    assert await place.lock("a")
    place.end("a")
    place.clock.advance(39)
    assert not await place.lock("b")


async def test_what_has_passed_for_who_is_gone_is_saved_while_others_wait(place):
    assert await place.lock("a")
    place.restart()
    place.attach("b")
    before = place.saved.count
    for _ in range(20):
        place.clock.advance(1)
        assert not await place.lock("b")
    assert place.saved.count == before + 4
    place.restart()
    place.attach("b")
    place.clock.advance(19)
    assert not await place.lock("b")
    place.clock.advance(1)
    assert await place.lock("b")


async def test_others_are_told_of_queues_that_a_call_cut_short_has_released(place):
    queues = [QueueKey("orders", number) for number in range(COUNT)]
    owned = await place.locking.lock("group", "a", queues)
    assert len(owned) == COUNT
    notices = place.attached["b"].outbox._notices
    notices.clear()
    place.saved.changed = False
    call = asyncio.create_task(place.locking.unlock("group", "a", owned))
    async with asyncio.timeout(60):
        while not place.saved.changed:  # noqa: ASYNC110 - nobody tells of a turn.
            await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    taken = await place.locking.lock("group", "b", queues)
    assert 0 < len(taken) < COUNT
    assert list(notices) == [MembershipChanged("group")]
