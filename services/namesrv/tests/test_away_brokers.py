"""Brokers that have left: routes name them, until they are back, or an operator gives them up."""

from __future__ import annotations

import pytest

from ariane_namesrv.away_brokers import AWAY_S
from ariane_namesrv.registration import BrokerKey
from ariane_namesrv.route_table import RouteTable
from ariane_servicekit import ServiceError

KEY = BrokerKey("c1", "broker-a", 0)


def test_a_broker_that_left_is_named_until_it_is_back_or_a_day_has_passed(
    table, registration, clock
):
    for name in ("broker-a", "broker-b", "broker-c"):
        table.register(registration(name))
    table.register(registration("broker-c", broker_id=1, port=1))
    assert list(table.away("orders")) == []
    clock.advance(121)
    table.expire()
    for name in ("broker-d", "broker-e"):
        table.register(registration(name))
    table.unregister(BrokerKey("c1", "broker-d", 0), "first")
    assert list(table.away("orders")) == ["broker-a", "broker-b", "broker-c", "broker-d"]
    assert list(table.away("bills")) == []
    table.register(registration("broker-b", ("bills",)))
    table.register(registration("broker-c", broker_id=1, port=1))
    assert list(table.away("orders")) == ["broker-a", "broker-d"], "it has given the topic up"
    clock.advance(AWAY_S)
    table.expire()
    assert list(table.away("orders")) == ["broker-c", "broker-e"]


def test_a_drained_one_is_not_expected(table, registration):
    table.register(registration())
    table.replace_wiped(["broker-a"])
    table.unregister(KEY, "first")
    assert list(table.away("orders")) == []


def test_their_zones_are_known(table, registration):
    for name, zone in ("broker-b", "north"), ("broker-a", ""):
        table.register(registration(name, zone=zone))
        table.unregister(BrokerKey("c1", name, 0), "first")
    assert list(table.away("orders").items()) == [("broker-a", ""), ("broker-b", "north")]


def test_the_memory_of_them_is_bounded(clock, registration):
    table = RouteTable(clock, brokers_max=2)
    for number in range(9):
        table.register(registration(f"broker-{number}"))
        table.unregister(BrokerKey("c1", f"broker-{number}", 0), "first")
    assert list(table.away("orders")) == ["broker-7", "broker-8"]


def test_a_forgotten_broker_is_named_by_no_route(table, registration, clock):
    for name, topics in ("broker-a", ("orders", "bills")), ("broker-b", ("orders",)):
        table.register(registration(name, topics))
        table.unregister(BrokerKey("c1", name, 0), "first")
    left_at_ms = clock.now_ms()
    clock.advance(60)
    table.register(registration("broker-a", cluster="c2"))
    table.unregister(BrokerKey("c2", "broker-a", 0), "first")
    assert [(one.cluster_name, one.broker_name) for one in table.away_brokers()] == [
        ("c1", "broker-a"),
        ("c1", "broker-b"),
        ("c2", "broker-a"),
    ]
    [forgotten] = table.forget("broker-a", "c1")
    assert (set(forgotten.topics), forgotten.left_at_ms) == ({"orders", "bills"}, left_at_ms)
    assert (list(table.away("bills")), list(table.away("orders"))) == ([], ["broker-a", "broker-b"])
    assert [one.cluster_name for one in table.forget("broker-a")] == ["c2"]
    assert list(table.away("orders")) == ["broker-b"]
    assert table.forget("broker-a") == []
    table.register(registration("broker-a"))
    table.unregister(KEY, "first")
    assert list(table.away("orders")) == ["broker-a", "broker-b"], "it came back, and left again"


def test_a_registered_broker_is_not_forgotten(table, registration, clock):
    table.register(registration())
    clock.advance(100)
    table.register(registration(broker_id=1, port=1))
    with pytest.raises(ServiceError, match="100 s ago; if it is silent, it leaves in 20 s") as told:
        table.forget("broker-a", "c1")
    assert told.value.row.name == "BROKER_ALIVE"
    assert table.forget("broker-a", "c2") == []
    clock.advance(21)
    with pytest.raises(ServiceError):
        table.forget("broker-a")  # The replica lives.
    clock.advance(100)
    assert [one.broker_name for one in table.forget("broker-a")] == ["broker-a"]
    assert list(table.away("orders")) == []
