"""Locks of queues: one owner at a time, dead after the lease, no epoch twice."""

import json

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ariane_broker.groups.queue_locks import QueueLocks
from ariane_broker.queue_key import QueueKey
from ariane_servicekit import at_once
from ariane_testkit.virtual_clock import VirtualClock

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


def locked(locks, client_id, queues, **others):
    """The epochs of the caller's queues, and whether the file must be saved."""
    taken = at_once(locks.lock("group", client_id, queues, **others))
    return {lock.queue: lock.epoch for lock in taken}, any(lock.changed for lock in taken)


def released(locks, client_id, queues):
    return len(at_once(locks.unlock("group", client_id, queues)))


def take(locks, client_id, *queues):
    return locked(locks, client_id, queues or (QUEUE,))[0]


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


def test_an_owner_with_an_epoch_of_before_is_refused(locks, clock):
    """It may have slept while another one had the queue: what it did since does not count."""
    before = take(locks, "a")[QUEUE]
    clock.advance(LEASE)
    assert take(locks, "b")[QUEUE] > before
    clock.advance(LEASE)
    now = take(locks, "a")[QUEUE]
    error = locks.refusal("group", "a", QUEUE, before)
    assert error is not None
    assert error.row.name == "QUEUE_LOCK_FENCED"
    assert error.metadata["epoch"] == str(now)
    assert reason(locks, "a", now) == ""


def test_a_member_without_the_lock_is_refused_only_where_another_has_it(locks):
    assert reason(locks, "b", None) == ""
    epoch = take(locks, "a")[QUEUE]
    assert reason(locks, "b", None) == "QUEUE_LOCKED"
    assert reason(locks, "a", None) == "QUEUE_LOCKED"
    assert reason(locks, "b", epoch) == "QUEUE_LOCK_FENCED"
    assert reason(locks, "b", None, OTHER) == ""
    assert locks.refusal("other-group", "b", QUEUE, None) is None


def test_giving_back_needs_the_owner_and_the_epoch(locks):
    epoch = take(locks, "a")[QUEUE]
    assert released(locks, "b", {QUEUE: epoch}) == 0
    assert released(locks, "a", {QUEUE: epoch - 1}) == 0
    assert released(locks, "a", {QUEUE: epoch, OTHER: 0}) == 1
    assert released(locks, "a", {QUEUE: epoch}) == 0
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


def gone(client_id):
    return lambda owner: owner == client_id


def test_the_lock_of_an_owner_that_is_gone_may_be_taken_when_it_has_stopped(locks, clock):
    first = take(locks, "a")[QUEUE]
    assert locks.relied_seconds == 40
    clock.advance(39)
    assert locked(locks, "b", [QUEUE], is_gone=gone("a")) == ({}, False)
    clock.advance(1)
    assert locked(locks, "b", [QUEUE], is_gone=gone("c")) == ({}, False)
    owned, changed = locked(locks, "b", [QUEUE], is_gone=gone("a"))
    assert owned[QUEUE] > first
    assert changed


def test_an_owner_that_comes_back_in_time_goes_on(locks, clock):
    first = take(locks, "a")[QUEUE]
    clock.advance(59)
    assert take(locks, "a") == {QUEUE: first}
    clock.advance(39)
    assert locked(locks, "b", [QUEUE], is_gone=gone("a")) == ({}, False)


def restarted(locks, clock):
    after = new_locks(clock)
    after.load(json.loads(json.dumps(locks.document())))
    return after


def test_restarts_give_no_more_time_to_an_owner_that_renews_no_more(locks, clock):
    take(locks, "a")
    for _ in range(4):
        locks = restarted(locks, clock)
        assert locked(locks, "b", [QUEUE], is_gone=gone("a")) == ({}, False)
        clock.advance(10)
    assert QUEUE in locked(locks, "b", [QUEUE], is_gone=gone("a"))[0]


def test_what_has_passed_for_who_is_gone_is_to_be_saved_now_and_then(locks, clock):
    take(locks, "a")
    clock.advance(10)
    assert not at_once(locks.ages_due())
    locks = restarted(locks, clock)
    clock.advance(4)
    assert not at_once(locks.ages_due())
    clock.advance(1)
    assert at_once(locks.ages_due())
    locks.document()
    assert not at_once(locks.ages_due())
    clock.advance(5)
    take(locks, "a")
    assert not at_once(locks.ages_due())


def test_the_first_renewal_after_a_restart_is_on_the_disk_before_it_is_heard_of(locks, clock):
    take(locks, "a")
    locks = restarted(locks, clock)
    clock.advance(39)
    assert locked(locks, "a", [QUEUE])[1]
    assert not locked(locks, "a", [QUEUE])[1]
    after = restarted(locks, clock)
    clock.advance(39)
    assert locked(after, "b", [QUEUE], is_gone=gone("a")) == ({}, False)


def test_no_epoch_comes_twice_after_all_was_given_back(locks, clock):
    epoch = take(locks, "a")[QUEUE]
    released(locks, "a", {QUEUE: epoch})
    after = new_locks(clock)
    after.load(json.loads(json.dumps(locks.document())))
    assert take(after, "a")[QUEUE] > epoch


def test_a_deleted_topic_or_group_has_no_locks(locks):
    take(locks, "a")
    at_once(locks.remove_topics({"orders"}))
    assert reason(locks, "b", None) == ""
    take(locks, "a")
    locks.remove_group("group")
    assert reason(locks, "b", None) == ""


class TwoOwners(RuleBasedStateMachine):
    """Members that lock, store, freeze and come back; the broker restarts in between.

    What a member believes to own, it goes on storing for, however long it was frozen. What it
    relies on it consumes: no two may do so at once, whether their streams to the broker stand or
    not.
    """

    clients = st.sampled_from(["a", "b", "c"])

    def __init__(self):
        super().__init__()
        self.clock = VirtualClock()
        self.locks = new_locks(self.clock)
        self.saved = json.dumps(self.locks.document())
        self.believed = {}
        self.relied = {}
        self.gone = set()
        self.owner_of_epoch = {}
        self.accepted = []

    @rule(client=clients, answer_lost=st.booleans())
    def lock_or_renew(self, client, answer_lost):
        self.gone.discard(client)
        owned, changed = locked(
            self.locks, client, [QUEUE], is_gone=lambda owner: owner in self.gone
        )
        if changed:
            self.save()
        if answer_lost:
            return
        if QUEUE in owned:
            epoch = owned[QUEUE]
            assert self.owner_of_epoch.setdefault(epoch, client) == client
            self.believed[client] = epoch
            self.relied[client] = self.clock.monotonic() + self.locks.relied_seconds
        else:
            self.believed.pop(client, None)
            self.relied.pop(client, None)

    @rule(client=clients)
    def give_back(self, client):
        epoch = self.believed.pop(client, None)
        self.relied.pop(client, None)
        if epoch is not None:
            released(self.locks, client, {QUEUE: epoch})

    @rule(client=clients)
    def cut_off(self, client):
        self.gone.add(client)

    @rule(client=clients)
    def store(self, client):
        epoch = self.believed.get(client)
        if epoch is not None and not reason(self.locks, client, epoch):
            self.accepted.append(epoch)

    @rule(seconds=st.sampled_from([1, 10, 19, 30, 39, 40, 59, 60, 200]))
    def freeze(self, seconds):
        self.clock.advance(seconds)

    @rule(seconds=st.integers(-(10**6), 10**6))
    def jump(self, seconds):
        self.clock.jump(seconds)

    @rule()
    def save(self):
        self.saved = json.dumps(self.locks.document())

    @rule()
    def restart(self):
        self.locks = new_locks(self.clock)
        self.locks.load(json.loads(self.saved))
        self.gone = {"a", "b", "c"}

    @invariant()
    def at_most_one_is_accepted_at_once(self):
        accepted = [c for c, epoch in self.believed.items() if not reason(self.locks, c, epoch)]
        assert len(accepted) <= 1

    @invariant()
    def at_most_one_relies_at_once(self):
        now = self.clock.monotonic()
        assert sum(until > now for until in self.relied.values()) <= 1

    @invariant()
    def nobody_comes_back(self):
        assert self.accepted == sorted(self.accepted)


TwoOwners.TestCase.settings = hypothesis_settings(max_examples=100, stateful_step_count=30)
test_two_owners = TwoOwners.TestCase
