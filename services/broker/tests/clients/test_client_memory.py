"""What clients say of themselves is kept in bounded memory, however many come and go."""

import asyncio
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from ariane_broker.clients import client_admission, subscription_conflicts
from ariane_broker.clients.attached_client import Hello
from ariane_broker.clients.client_admission import ClientAdmission
from ariane_broker.clients.client_table import ClientTable, Conflict, ConflictSide
from ariane_broker.clients.deaths import vanished_members
from ariane_broker.clients.deaths.suspicions import Suspicions
from ariane_broker.clients.members import absent_members
from ariane_broker.clients.members.absent_members import AbsentMembers
from ariane_broker.clients.members.membership import ConsumeModel, Membership
from ariane_broker.clients.subscription import Subscription
from ariane_broker.clients.subscription_conflicts import SubscriptionConflicts
from ariane_broker.groups.group_changes import LostMembers
from ariane_servicekit import ServiceError, at_once
from ariane_servicekit.rpc import calls
from ariane_servicekit.security.caller import Caller, CallerKind
from ariane_testkit.virtual_clock import VirtualClock


class AnyGroup:
    """Stands for groups that are all there."""

    def __init__(self):
        self.lost = LostMembers()

    async def admit(self, group, *, client_id, broadcasting):
        pass


async def no_topic(_name):
    pass


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def table(clock):
    return ClientTable(clock, flags_conflicts=lambda _group: True)


@pytest.fixture
def admission(table):
    return ClientAdmission(table, AnyGroup(), make_topic=no_topic)


def membership(group="g", size=0, queues=0, **fields):
    wanted = tuple(Subscription(f"{n:04}-{'x' * 95}") for n in range(size))
    owned = (("orders", "broker-a", tuple(range(queues))),) if queues else ()
    return Membership(
        consumer_group=group, subscriptions=wanted, owned=owned, strategy="s", **fields
    )


def as_user(name):
    call = calls.Call("m", "r", None)
    call._caller = Caller(CallerKind.USER, "ipv4:10.0.0.1:1", name)
    return calls._CALL.set(call)


async def attach(admission, client_id, *memberships):
    return await admission.attach(Hello(client_id=client_id, memberships=memberships), "a:1")


async def refused(call, reason):
    with pytest.raises(ServiceError) as caught:
        await call
    assert caught.value.row.name == reason


async def test_a_client_says_so_much_and_no_more(admission, table):
    many = [membership(f"g{n}", size=1000) for n in range(10)]
    for memberships in (many, [membership(queues=300_000)]):
        await refused(attach(admission, "a", *memberships), "FIELD_INVALID")
    client = await attach(admission, "a", membership(size=1000), membership("h", queues=100_000))
    assert client.weight == sum(each.weight for each in client.memberships.values())
    change = admission.change_memberships(client, tuple(many))
    await refused(change, "FIELD_INVALID")
    assert sorted(client.memberships) == ["g", "h"]
    assert len(table) == 1


async def test_heavy_clients_of_a_user_leave_room_to_others(admission, monkeypatch):
    heavy = membership(size=500)
    monkeypatch.setattr(client_admission, "HEAVY_WEIGHT_MAX", 10 * heavy.weight)
    token = as_user("anna")
    try:
        first = await attach(admission, "a-1", heavy)
        # A quarter of ten is two.
        await attach(admission, "a-2", heavy)
        await refused(attach(admission, "a-3", heavy), "SERVICE_BUSY")
        # What is light comes in, and who says the same again stays.
        await attach(admission, "a-3", membership(size=50))
        await admission.change_memberships(first, (heavy,))
        for user in ("ben", "carl", "dora", "eva"):
            calls._CALL.reset(token)
            token = as_user(user)
            for number in range(2):
                await attach(admission, f"{user}-{number}", heavy)
        # All together have what there is.
        await refused(attach(admission, "f-1", heavy), "SERVICE_BUSY")
        admission._table.detach(first)
        calls._CALL.reset(token)
        token = as_user("fred")
        await attach(admission, "f-1", heavy)
    finally:
        calls._CALL.reset(token)


async def test_a_member_whose_share_grows_stays_where_there_is_no_room_for_heavy_clients(
    admission, monkeypatch
):
    heavy = membership(size=500)
    monkeypatch.setattr(client_admission, "HEAVY_WEIGHT_MAX", 8 * heavy.weight)
    members = [await attach(admission, f"c-{number}", heavy) for number in range(2)]
    members.append(await attach(admission, "light", membership(size=100)))
    await refused(attach(admission, "c-2", heavy), "SERVICE_BUSY")
    for size, member in zip((500, 500, 100), members, strict=True):
        await admission.change_memberships(member, (membership(size=size, queues=4000),))
    # What is said of owned queues has a bound as well, and names have no part of it.
    for size, queues in ((500, 20_000), (501, 4000)):
        change = admission.change_memberships(members[0], (membership(size=size, queues=queues),))
        await refused(change, "SERVICE_BUSY")
    admission._table.detach(members[2])
    await refused(attach(admission, "c-2", heavy), "SERVICE_BUSY")
    admission._table.detach(members[1])
    await attach(admission, "c-2", heavy)


async def test_heavy_clients_that_come_together_are_counted_one_by_one(admission, monkeypatch):
    heavy = membership(size=500)
    monkeypatch.setattr(client_admission, "HEAVY_WEIGHT_MAX", 10 * heavy.weight)
    coming = (attach(admission, f"c-{number}", heavy) for number in range(20))
    done = await asyncio.gather(*coming, return_exceptions=True)
    assert sum(not isinstance(each, ServiceError) for each in done) == 2


def test_so_many_members_that_are_away_keep_their_place(clock, monkeypatch):
    monkeypatch.setattr(absent_members, "COUNT_MAX", 20)
    monkeypatch.setattr(absent_members, "OF_GROUP_MAX", 8)
    absent = AbsentMembers(clock.monotonic)
    kept = [absent.keep(f"c-{n}", "a:1", membership(keep_seconds=3600)) for n in range(1000)]
    assert kept == [True] * 8 + [False] * 992
    # Who is away already may go again.
    assert absent.keep("c-999", "a:1", membership(keep_seconds=60))
    others = [absent.keep("c", "a:1", membership(f"h{n}", keep_seconds=9)) for n in range(100)]
    assert others == [True] * 12 + [False] * 88
    clock.advance(10)
    assert sum(each is not None for each in at_once(absent.end_due())) == 12
    monkeypatch.setattr(absent_members, "WEIGHT_MAX", 100_000)
    wide = [absent.keep("c", "a:1", membership(f"w{n}", 300, keep_seconds=9)) for n in range(9)]
    assert wide == [True] * 2 + [False] * 7
    clock.advance(3600)
    at_once(absent.end_due())
    assert (absent._count, absent._weight, absent._groups) == (0, 0, {})


def test_a_member_without_a_place_leaves_as_others_do(table, monkeypatch):
    monkeypatch.setattr(absent_members, "COUNT_MAX", 0)
    stays = table.attach(Hello(client_id="a", memberships=(membership(),)), "a:1")
    goes = table.attach(Hello(client_id="b", memberships=(membership(keep_seconds=60),)), "a:1")
    stays.outbox._notices.clear()
    table.detach(goes)
    assert len(stays.outbox._notices) == 1
    assert table.absent("g") == []


def test_so_many_members_that_vanished_may_come_back(table, clock, monkeypatch):
    monkeypatch.setattr(vanished_members, "VANISHED_MAX", 5)
    members = vanished_members.VanishedMembers(
        table,
        offsets=None,
        suspicions=Suspicions(),
        saved=None,
        statistics=SimpleNamespace(vanished_member_count=0),
        monotonic=clock.monotonic,
        grace_seconds=30,
        deaths_max=3,
    )
    with capture_logs() as lines:
        for number in range(100):
            client = table.attach(Hello(client_id=f"c-{number}", memberships=(membership(),)), "a")
            members.vanished(client)
            table.detach(client)
    assert list(members._vanished) == [f"c-{number}" for number in range(95, 100)]
    # A test may last longer than a second.
    assert len(lines) <= 3 * vanished_members.VANISHED_LOGGED_PER_S
    assert members.due_deaths() == []
    assert members._certain == []


def test_refused_members_are_remembered_in_bounded_memory(table, clock, monkeypatch):
    seen = SubscriptionConflicts(now_ms=clock.now_ms, monotonic=clock.monotonic)
    first = membership(model=ConsumeModel.RECEIVING)

    def refuse(number, newcomer):
        sides = ConflictSide("first", "a:1", first), ConflictSide(f"c-{number}", "a:1", newcomer)
        seen.refuse(Conflict(*sides, "differs"))

    def count():
        return sum(each is not None for each in at_once(seen.walk(table)))

    for number in range(1500):
        refuse(number, membership())
    assert count() == 1000
    monkeypatch.setattr(subscription_conflicts, "WEIGHT_MAX", 200_000)
    for number in range(100):
        refuse(number, membership(size=300))
    refuse(99, membership(size=300))
    assert 0 < count() < 10
    assert seen._weight == sum(
        each.conflict.newcomer.membership.weight + first.weight
        for each in at_once(seen.walk(table))
    )
    refuse("wide", membership(size=1024))
    assert seen._weight <= 200_000
    clock.advance(4000)
    assert count() == 0
    assert seen._weight == 0
