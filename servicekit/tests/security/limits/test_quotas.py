"""Quotas by a clock that is told: what is owed, who waits, who is refused, what is remembered."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from ariane.common.v1.access_rules_pb2 import AccessRules
from ariane.common.v1.quota_pb2 import Quota
from ariane_servicekit import ServiceError
from ariane_servicekit.rpc.calls import Call, enter_call
from ariane_servicekit.security.gate import charging
from ariane_servicekit.security.gate.access_mode import AccessMode
from ariane_servicekit.security.gate.gate import Gate
from ariane_servicekit.security.limits.connections import Connections
from ariane_servicekit.security.limits.meter import (
    ADDRESS,
    CALLS,
    CONNECTIONS,
    PREFIX,
    SENT,
    TOPIC,
    TOPICS,
    USER,
)
from ariane_servicekit.security.limits.name_room import NameRoom
from ariane_servicekit.security.limits.quota_uses import USES_MAX
from ariane_servicekit.security.limits.quotas import METERS_MAX, Quotas


class Moment:
    """A clock."""

    now_s = 100.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def moment():
    return Moment()


@pytest.fixture
def quotas(moment):
    return Quotas(moment)


def quota(figure, subject, name, limit):
    return Quota(figure=figure, subject=subject, name=name, limit=limit)


def refusal(call, *args):
    with pytest.raises(ServiceError) as caught:
        call(*args)
    assert caught.value.row.name == "QUOTA_EXCEEDED"
    return caught.value


def test_an_even_load_within_the_quota_owes_nothing(quotas, moment):
    quotas.change([quota(SENT, USER, "", 1000)])
    meter = quotas.user("anna")
    for _ in range(50):
        moment.now_s += 0.5
        meter.charge(SENT, 500, moment.now_s)
        assert meter.debt_s(moment.now_s) == 0
    # Rest is remembered for a second, and no longer.
    moment.now_s += 3600
    meter.charge(SENT, 3000, moment.now_s)
    assert meter.debt_s(moment.now_s) == pytest.approx(2.0)


def test_a_change_forgives_no_debt_and_makes_none(quotas, moment):
    quotas.change([quota(SENT, USER, "", 1000), quota(CALLS, USER, "anna", 10)])
    meter = quotas.user("anna")
    meter.charge(SENT, 5000, moment.now_s)
    quotas.change([quota(SENT, USER, "", 1000), quota(SENT, TOPIC, "", 1)])
    assert quotas.user("anna").debt_s(moment.now_s) == pytest.approx(4.0)
    quotas.change([quota(CALLS, USER, "anna", 10)])
    assert quotas.user("anna").debt_s(moment.now_s) == 0
    quotas.change([])
    assert quotas.user("ben") is None
    assert not quotas.limits_callers


def test_an_own_quota_goes_before_that_of_all(quotas):
    quotas.change([quota(SENT, USER, "", 10), quota(SENT, USER, "anna", 99)])
    assert quotas.limit(SENT, USER, "anna") == 99
    assert quotas.limit(SENT, USER, "ben") == 10
    assert quotas.limit(SENT, TOPIC, "ben") is None
    assert quotas.topic("orders") is None


def test_the_memory_of_meters_is_bounded_and_debts_stay(quotas, moment):
    quotas.change([quota(SENT, USER, "", 1)])
    quotas.user("debtor").charge(SENT, 10**6, moment.now_s)
    for number in range(METERS_MAX + 10):
        quotas.user(f"u{number}")
    assert len(quotas._meters) <= METERS_MAX
    assert quotas.user("debtor").debt_s(moment.now_s) > 10**5


def test_the_narrowest_network_decides_over_connections(quotas):
    quotas.change(
        [
            quota(CONNECTIONS, ADDRESS, "", 1),
            quota(CONNECTIONS, ADDRESS, "10.0.0.0/8", 2),
            quota(CONNECTIONS, ADDRESS, "10.1.0.0/16", 3),
        ]
    )
    connections = Connections(quotas)
    for peer, limit in (
        ("ipv4:10.1.2.3", 3),
        ("ipv4:10.9.9.9", 2),
        ("ipv6:%5B::1%5D", 1),
        ("ipv6:%5B::ffff:10.1.7.7%5D", 3),
    ):
        opened = [connections.opened(f"{peer}:{port}") for port in range(5)]
        assert opened == [True] * limit + [False] * (5 - limit)
    connections.closed("ipv4:10.1.2.3:1", {})
    assert [connections.opened("ipv4:10.1.2.3:9") for _ in range(2)] == [True, False]
    # Unix sockets have no addresses.
    assert all(connections.opened("unix:/x#1") for _ in range(9))


def test_a_host_of_ipv6_has_its_connections_from_whatever_addresses(quotas):
    quotas.change(
        [quota(CONNECTIONS, ADDRESS, "", 2), quota(CONNECTIONS, ADDRESS, "2001:db8:9::/48", 3)]
    )
    connections = Connections(quotas)
    for network, limit in (("2001:db8:1:7", 2), ("2001:db8:9:7", 3)):
        peers = [f"ipv6:%5B{network}::{number}%5D:80" for number in range(1, 6)]
        opened = [connections.opened(peer) for peer in peers]
        assert opened == [True] * limit + [False] * (5 - limit)
        connections.closed(peers[0], {})
        assert [connections.opened(peer) for peer in peers[:2]] == [True, False]
    assert {told.name for told in connections.amounts()} == {
        "2001:db8:1:7::/64",
        "2001:db8:9:7::/64",
    }


def test_a_connection_counts_for_its_user_until_it_is_gone(quotas):
    quotas.change([quota(CONNECTIONS, USER, "anna", 1)])
    connections = Connections(quotas)
    first, second = (SimpleNamespace(notes={}) for _ in range(2))
    connections.take(first, "anna")
    connections.take(first, "anna")
    told = refusal(connections.take, second, "anna").metadata
    assert (told["figure"], told["subject"], told["name"]) == ("connections", "user", "anna")
    connections.closed("ipv4:10.0.0.1:1", first.notes)
    connections.take(second, "anna")
    # Who logs in as another gives the place back.
    connections.take(second, "ben")
    connections.take(SimpleNamespace(notes={}), "anna")


def test_refusals_and_waits_are_noted_for_each_name(quotas, moment):
    quotas.change([quota(CALLS, USER, "", 10), quota(CONNECTIONS, ADDRESS, "", 1)])
    quotas.user("anna").charge(CALLS, 25, quotas.now_s())
    quotas.uses.note(CALLS, USER, "anna", 10)
    quotas.uses.note(CALLS, USER, "anna", 10, waited_s=1.5)
    moment.now_s += 10
    connections = Connections(quotas)
    assert connections.opened("ipv4:10.0.0.1:1")
    assert not connections.opened("ipv4:10.0.0.1:2")
    (late, late_s), (early, early_s) = quotas.uses.lately()
    assert (late.name, late.refused_count, late.waited_s, late_s) == ("10.0.0.1", 1, 0, 0)
    assert (early.name, early.refused_count, early.waited_s, early_s) == ("anna", 1, 1.5, 10)
    assert [(meter.name, figure, used) for meter, figure, used in quotas.used()] == [
        ("anna", CALLS, 25)
    ]
    moment.now_s += 51
    assert [use.name for use, _ in quotas.uses.lately()] == ["10.0.0.1"]
    for number in range(2 * USES_MAX):
        quotas.uses.note(CALLS, USER, f"u{number}", 10)
    assert len(quotas.uses.all()) == USES_MAX


def test_names_with_a_prefix_are_counted_together():
    room = NameRoom(TOPICS, {"": 4, "shop-": 2}, ["shop-a", "other"])
    room.take("shop-b")
    assert refusal(room.take, "shop-c").metadata["name"] == "shop-"
    room.take("more")
    assert refusal(room.take, "last").metadata["subject"] == "prefix"
    NameRoom(PREFIX, {}).take("anything")


@pytest.fixture
def calling(moment, monkeypatch):
    """Make a call in a process whose topic has 1,000 bytes a second; its answers' waits."""
    gate = Gate(AccessMode.OPEN, int, now_s=moment)
    rules = AccessRules(version=1, quotas=[quota(SENT, TOPIC, "orders", 1000)])
    gate.change_rules(rules)
    waits = []
    callers = set()
    real_sleep = asyncio.sleep

    async def sleep(seconds):
        # Loops that other tests have left in threads sleep, too.
        if asyncio.current_task() in callers:
            waits.append(seconds)
        else:
            await real_sleep(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)

    def calling(left_s):
        callers.add(asyncio.current_task())
        call = Call("m", "", SimpleNamespace(time_remaining=lambda: left_s))
        call.gate = gate
        enter_call(call)
        return call

    calling.waits = waits
    return calling


async def test_a_sender_is_slowed_within_its_deadline_before_it_is_refused(calling, moment):
    call = calling(8.0)
    charging.check_topics(["orders"])
    charging.charge_stored(["orders", "free"], [0, 4000, 9_000_000])
    await charging.wait_for_quotas(call)
    # A second of rest pays the first 1,000 bytes.
    assert calling.waits == [pytest.approx(3.0)]
    # Half of what the deadline leaves, and no more.
    call = calling(2.0)
    told = refusal(charging.check_topics, ["free", "orders"])
    assert told.retry_after_ms == 2000
    assert (told.metadata["name"], told.metadata["limit"]) == ("orders", "1000")
    moment.now_s += 2.0
    charging.check_topics(["orders"])
    charging.charge_stored(["orders"], [0, 5000])
    await charging.wait_for_quotas(call)
    assert calling.waits[1:] == [1.0]
    # Without a deadline: so long that nobody takes the process for dead.
    call = calling(None)
    refusal(charging.check_topics, ["orders"])
    moment.now_s += 1.0
    charging.check_topics(["orders"])
    charging.charge_stored(["orders"], [0, 9000])
    await charging.wait_for_quotas(call)
    assert calling.waits[2:] == [5.0]


async def test_readers_are_slowed_and_never_refused(calling, moment):
    call = calling(None)
    call.gate.change_rules(AccessRules(version=2, quotas=[quota(2, TOPIC, "", 100)]))
    for _ in range(3):
        charging.charge_handed_out([("orders", 10**6)])
        charging.check_topics(["orders"])
    await charging.wait_for_quotas(call)
    assert calling.waits == [5.0]


def test_rates_are_averages_of_the_last_ten_seconds(quotas, moment):
    quotas.change([quota(SENT, TOPIC, "orders", 100), quota(CALLS, TOPIC, "", 10)])
    orders = quotas.topic("orders")

    def told():
        return {each.figure: (each.limit, each.used, each.part) for each in quotas.amounts()}

    orders.charge(SENT, 50, moment.now_s)
    assert told() == {SENT: (100, 50, 0.5), CALLS: (10, 0, 0)}
    for _ in range(10):
        moment.now_s += 1
        orders.charge(SENT, 20, moment.now_s)
    # The last charge began the next ten seconds.
    assert told()[SENT] == (100, 23, 0.23)
    moment.now_s += 40
    assert told()[SENT] == (100, 0.5, 0.005)
    moment.now_s += 10
    assert told()[SENT] == (100, 0, 0)


def test_connections_that_have_quotas_are_told_by_address(quotas):
    connections = Connections(quotas)
    for peer in ("ipv4:10.0.0.1:1", "ipv4:10.0.0.1:2", "ipv4:10.9.0.1:1"):
        assert connections.opened(peer)
    assert list(connections.amounts()) == []
    quotas.change([quota(CONNECTIONS, ADDRESS, "10.0.0.0/24", 4)])
    assert list(connections.amounts()) == [(CONNECTIONS, ADDRESS, "10.0.0.1", 4, 2)]


def test_names_are_told_by_their_beginnings():
    room = NameRoom(TOPICS, {"shop-": 3, "": 9}, ["shop-1", "other"])
    assert list(room.amounts()) == [(TOPICS, PREFIX, "shop-", 3, 1), (TOPICS, PREFIX, "", 9, 2)]
