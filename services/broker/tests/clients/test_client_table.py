import asyncio

import pytest

from ariane_broker.clients.attached_client import Hello
from ariane_broker.clients.client_table import ClientTable
from ariane_broker.clients.members import absent_members
from ariane_broker.clients.members.membership import Membership
from ariane_broker.clients.outbox import BrokerDraining, HeartbeatHeard, MembershipChanged, Outbox
from ariane_servicekit import ServiceError, at_once
from ariane_testkit.virtual_clock import VirtualClock


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def table(clock):
    return ClientTable(clock, flags_conflicts=lambda group: group == "lax")


def attach(table, client_id, *groups, strategy=""):
    memberships = tuple(Membership(consumer_group=group, strategy=strategy) for group in groups)
    return table.attach(Hello(client_id=client_id, memberships=memberships), "127.0.0.1:1")


def expire(table):
    return at_once(table.expire(120))


def waiting(client):
    return list(client.outbox._notices)


def test_only_the_others_are_told(table):
    first = attach(table, "a", "g")
    second = attach(table, "b", "g")
    assert waiting(first) == [MembershipChanged("g")]
    assert waiting(second) == []


def test_a_notice_that_still_waits_is_not_put_twice(table):
    first = attach(table, "a", "g")
    attach(table, "b", "g")
    attach(table, "c", "g")
    assert waiting(first) == [MembershipChanged("g")]


def test_only_groups_that_changed_are_told(table):
    watcher = attach(table, "w", "g", "h")
    client = attach(table, "a", "g")
    watcher.outbox._notices.clear()
    both = (Membership(consumer_group="g"), Membership(consumer_group="h"))
    table.change_memberships(client, both)
    assert waiting(watcher) == [MembershipChanged("h")]
    table.detach(client)
    assert set(waiting(watcher)) == {MembershipChanged("g"), MembershipChanged("h")}
    assert [member.client_id for member in table.members("g")] == ["w"]


def named(table, client_id, keep_seconds=30.0, strategy="sticky"):
    membership = Membership(consumer_group="g", strategy=strategy, keep_seconds=keep_seconds)
    return table.attach(Hello(client_id=client_id, memberships=(membership,)), "127.0.0.1:1")


def test_a_named_member_that_is_away_for_a_moment_is_no_change(table, clock):
    first, second = named(table, "a"), named(table, "b", 10.0)
    first.outbox._notices.clear()
    table.detach(second)
    assert [each.client_id for each in table.absent("g")] == ["b"]
    clock.advance(9)
    expire(table)
    second = named(table, "b", 10.0)
    assert (waiting(first), table.absent("g")) == ([], [])
    # Away for too long, or back with other wishes, it is one.
    table.detach(second)
    clock.advance(10)
    expire(table)
    assert (waiting(first), table.absent("g")) == ([MembershipChanged("g")], [])
    first.outbox._notices.clear()
    table.detach(named(table, "b", 10.0))
    first.outbox._notices.clear()
    named(table, "b", 20.0)
    assert (waiting(first), table.absent("g")) == ([MembershipChanged("g")], [])


def test_members_that_never_come_back_hold_no_more_than_so_many_places(table, monkeypatch):
    monkeypatch.setattr(absent_members, "OF_GROUP_MAX", 3)
    stays = named(table, "a")
    for name in "bcd":
        table.detach(named(table, name))
    stays.outbox._notices.clear()
    table.detach(named(table, "b"))  # Again: now it left last.
    assert waiting(stays) == []
    leaves = named(table, "e")
    stays.outbox._notices.clear()
    table.detach(leaves)
    assert [each.client_id for each in table.absent("g")] == ["d", "b", "e"]
    assert waiting(stays) == [MembershipChanged("g")]


def test_a_conflict_changes_nothing(table):
    first = attach(table, "a", "g")
    with pytest.raises(ServiceError, match="sticky"):
        attach(table, "b", "h", "g", strategy="sticky")
    assert len(table) == 1
    assert waiting(first) == []
    assert table.members("h") == []
    attach(table, "c", "lax")
    attach(table, "d", "lax", strategy="sticky")


def test_a_member_alone_may_change_its_mind(table):
    client = attach(table, "a", "g")
    table.change_memberships(client, (Membership(consumer_group="g", strategy="sticky"),))
    assert client.memberships["g"].strategy == "sticky"


def test_silence_is_measured_from_the_last_sign(table, clock):
    first, second = attach(table, "a", "g"), attach(table, "b", "g")
    clock.advance(100)
    table.note_heartbeat(second)
    clock.advance(20)
    assert expire(table) == []
    clock.advance(1)
    assert expire(table) == [first]
    assert [client.client_id for client in table.all()] == ["b"]
    assert MembershipChanged("g") in waiting(second)
    clock.advance(100)
    assert expire(table) == [second]


def test_who_stays_is_told_once_of_all_who_expire(table, clock, monkeypatch):
    members = [attach(table, f"{number:03}", "g", f"own-{number}") for number in range(300)]
    clock.advance(121)
    for member in members[:2]:
        table.note_heartbeat(member)
        member.outbox._notices.clear()
    puts = []
    put = Outbox.put
    monkeypatch.setattr(Outbox, "put", lambda box, notice: (puts.append(notice), put(box, notice)))
    examined = list(table.expire(120))
    assert [each for each in examined if each] == members[2:]
    # A thing for each client, and one for each that is told.
    assert len(examined) == 300 + 2
    assert puts == [MembershipChanged("g")] * 2
    assert table.members("g") == members[:2]
    assert table.members("own-7") == []


def test_an_expired_client_cannot_detach_its_successor(table, clock):
    old = attach(table, "a", "g")
    clock.advance(121)
    expire(table)
    new = attach(table, "a", "g")
    table.detach(old)
    assert table.all() == [new]


async def test_an_outbox_is_emptied_before_it_ends():
    outbox = Outbox()
    outbox.put(MembershipChanged("g"))
    outbox.put(HeartbeatHeard())
    outbox.close()
    outbox.put(BrokerDraining(1))
    assert await outbox.take() == MembershipChanged("g")
    assert await outbox.take() == HeartbeatHeard()
    assert await outbox.take() is None


async def test_an_outbox_wakes_its_reader():
    outbox = Outbox()
    task = asyncio.create_task(outbox.take())
    await asyncio.sleep(0)
    assert not task.done()
    outbox.put(HeartbeatHeard())
    assert await task == HeartbeatHeard()


def test_who_was_forgotten_meanwhile_joins_nothing_any_more(table, clock):
    frozen = attach(table, "a", "g")
    clock.advance(121)
    assert expire(table) == [frozen]

    # Its last heartbeat was on its way.
    table.change_memberships(frozen, (Membership(consumer_group="g", zone="z"),))

    assert table.members("g") == []
    attach(table, "a", "g")
    assert [member.client_id for member in table.members("g")] == ["a"]


def test_conflicts_are_listed_while_members_leave(table):
    attach(table, "a", "first")
    attach(table, "b", "first")
    leaving = [attach(table, name, "lax") for name in ("c", "d")]
    conflicts = table.conflicts()
    assert next(conflicts) is None  # The rest is looked at in a later turn of the loop.

    for client in leaving:
        table.detach(client)

    assert at_once(conflicts) == []
