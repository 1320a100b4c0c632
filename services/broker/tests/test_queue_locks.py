"""Locks of queues: one owner at a time, dead after the lease, no epoch twice."""

import json

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ariane_broker.consumer_offsets import QueueKey
from ariane_broker.queue_locks import QueueLocks
from ariane_servicekit.testing import VirtualClock

QUEUE = QueueKey("orders", 0)
OTHER = QueueKey("orders", 1)
LEASE = 60.0


@pytest.fixture
def clock():
    return VirtualClock()


def new_locks(clock):
    return QueueLocks(monotonic=clock.monotonic, now_ms=clock.now_ms, lease_seconds=LEASE)


@pytest.fixture
def locks(clock):
    return new_locks(clock)


def reason(locks, client_id, epoch, queue=QUEUE):
    error = locks.refusal("group", client_id, queue, epoch)
    return "" if error is None else error.row.name


def take(locks, client_id, *queues):
    return locks.lock("group", client_id, queues or (QUEUE,))[0]


def test_one_owner_at_a_time(locks, clock):
    first = take(locks, "a")[QUEUE]
    assert take(locks, "b") == {}
    clock.advance(59)
    assert take(locks, "a") == {QUEUE: first}
    clock.advance(59)
    assert take(locks, "b") == {}
    assert reason(locks, "a", first) == ""
    clock.advance(1)
    assert reason(locks, "a", first) == "QUEUE_LOCK_FENCED"
    second = take(locks, "b")[QUEUE]
    assert second > first
    assert reason(locks, "a", first) == "QUEUE_LOCK_FENCED"
    assert reason(locks, "b", second) == ""


def test_who_has_no_lock_is_refused_only_where_another_one_has(locks):
    assert reason(locks, "b", None) == ""
    epoch = take(locks, "a")[QUEUE]
    assert reason(locks, "b", None) == "QUEUE_LOCKED"
    assert reason(locks, "a", None) == "QUEUE_LOCKED"
    assert reason(locks, "b", epoch) == "QUEUE_LOCK_FENCED"
    assert reason(locks, "b", None, OTHER) == ""
    assert locks.refusal("other-group", "b", QUEUE, None) is None


def test_giving_back_needs_the_owner_and_the_epoch(locks):
    epoch = take(locks, "a")[QUEUE]
    assert locks.unlock("group", "b", {QUEUE: epoch}) == 0
    assert locks.unlock("group", "a", {QUEUE: epoch - 1}) == 0
    assert locks.unlock("group", "a", {QUEUE: epoch, OTHER: 0}) == 1
    assert locks.unlock("group", "a", {QUEUE: epoch}) == 0
    assert take(locks, "b")[QUEUE] > epoch


def test_some_may_be_had_and_others_not(locks):
    take(locks, "a", QUEUE)
    assert set(take(locks, "b", QUEUE, OTHER)) == {OTHER}


def test_a_jump_of_the_wall_clock_changes_nothing(locks, clock):
    epoch = take(locks, "a")[QUEUE]
    for jump_s in (86_400, -2 * 86_400):
        clock.jump(jump_s)
        assert reason(locks, "a", epoch) == ""
        assert take(locks, "b") == {}


def test_owners_keep_their_locks_over_a_restart_for_one_lease(locks, clock):
    epoch = take(locks, "a")[QUEUE]
    clock.advance(50)
    after = new_locks(clock)
    after.load(json.loads(json.dumps(locks.document())))
    clock.advance(59)
    assert take(after, "b") == {}
    assert take(after, "a") == {QUEUE: epoch}
    clock.advance(60)
    assert take(after, "b")[QUEUE] > epoch


def test_no_epoch_comes_twice_after_all_was_given_back(locks, clock):
    epoch = take(locks, "a")[QUEUE]
    locks.unlock("group", "a", {QUEUE: epoch})
    after = new_locks(clock)
    after.load(json.loads(json.dumps(locks.document())))
    assert take(after, "a")[QUEUE] > epoch


def test_a_deleted_topic_or_group_has_no_locks(locks):
    take(locks, "a")
    locks.remove_topic("orders")
    assert reason(locks, "b", None) == ""
    take(locks, "a")
    locks.remove_group("group")
    assert reason(locks, "b", None) == ""


class TwoOwners(RuleBasedStateMachine):
    """Members that lock, store, freeze and come back; the broker restarts in between.

    What a member believes to own, it goes on storing for, however long it was frozen.
    """

    clients = st.sampled_from(["a", "b", "c"])

    def __init__(self):
        super().__init__()
        self.clock = VirtualClock()
        self.locks = new_locks(self.clock)
        self.believed = {}
        self.owner_of_epoch = {}
        self.accepted = []

    @rule(client=clients)
    def lock_or_renew(self, client):
        owned = take(self.locks, client)
        if QUEUE in owned:
            epoch = owned[QUEUE]
            assert self.owner_of_epoch.setdefault(epoch, client) == client
            self.believed[client] = epoch
        else:
            self.believed.pop(client, None)

    @rule(client=clients)
    def give_back(self, client):
        epoch = self.believed.pop(client, None)
        if epoch is not None:
            self.locks.unlock("group", client, {QUEUE: epoch})

    @rule(client=clients)
    def store(self, client):
        epoch = self.believed.get(client)
        if epoch is not None and not reason(self.locks, client, epoch):
            self.accepted.append(epoch)

    @rule(seconds=st.sampled_from([1, 19, 30, 59, 60, 200]))
    def freeze(self, seconds):
        self.clock.advance(seconds)

    @rule(seconds=st.integers(-(10**6), 10**6))
    def jump(self, seconds):
        self.clock.jump(seconds)

    @rule()
    def restart(self):
        document = json.loads(json.dumps(self.locks.document()))
        self.locks = new_locks(self.clock)
        self.locks.load(document)

    @invariant()
    def at_most_one_is_accepted_at_once(self):
        accepted = [c for c, epoch in self.believed.items() if not reason(self.locks, c, epoch)]
        assert len(accepted) <= 1

    @invariant()
    def nobody_comes_back(self):
        assert self.accepted == sorted(self.accepted)


TwoOwners.TestCase.settings = hypothesis_settings(max_examples=100, stateful_step_count=30)
test_two_owners = TwoOwners.TestCase
