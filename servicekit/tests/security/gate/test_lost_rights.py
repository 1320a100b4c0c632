"""Calls in work whose users lose their rights meanwhile."""

from __future__ import annotations

import pytest

from ariane.common.v1 import access_pb2 as access
from ariane.namesrv.v1.route_service_pb2 import (
    DESCRIPTOR,
    GetRouteRequest,
    ListTopicsResponse,
)
from ariane_servicekit import ServiceError
from ariane_servicekit.rpc.calls import Call
from ariane_servicekit.security.caller import Caller, CallerKind, MemberKind
from ariane_servicekit.security.gate.access_mode import AccessMode
from ariane_servicekit.security.gate.gate import Gate
from ariane_servicekit.security.rules.method_rules import method_rules
from ariane_testkit.access_rules import rules_of
from ariane_testkit.contract import contract_services

ROUTES = DESCRIPTOR.services_by_name["RouteService"]


def admitted(gate, caller):
    call = Call("/a.B/C", "r-1", None)
    call.is_judged, call.gate, call._caller = True, gate, caller
    return call


@pytest.mark.parametrize("change", ["deleted", "too old"])
def test_a_call_in_work_of_a_user_who_is_not_known_any_more_has_no_rights(change):
    """Not the rights to everything, until somebody ends it."""
    gate = Gate(AccessMode.CLOSED, int)
    gate.change_rules(rules_of(1, "anna: allow SUBSCRIBE,PUBLISH topic a; allow GET cluster"))
    call = admitted(gate, Caller(CallerKind.USER, "ipv4:10.0.0.1:1", "anna"))
    rules = method_rules([ROUTES])
    need = rules["/ariane.namesrv.v1.RouteService/GetRoute"]
    topics = rules["/ariane.namesrv.v1.RouteService/ListTopics"]
    asked = (
        lambda: gate.judge(call, need, GetRouteRequest(topic="a")),
        lambda: gate.require(call, access.ACTION_SUBSCRIBE, access.RESOURCE_TOPIC, "a"),
        lambda: gate.require_some(call, access.ACTION_PUBLISH, access.RESOURCE_TOPIC),
        lambda: gate.show(call, topics, ListTopicsResponse(topics=["a", "b"])),
    )
    for ask in asked:
        ask()
    if change == "deleted":
        gate.change_rules(rules_of(2))
    else:
        gate.change_holding(holds=False)
    for ask in asked:
        with pytest.raises(ServiceError) as caught:
            ask()
        assert caught.value.row.name == "CREDENTIALS_INVALID"
    # Where calls are only learned, they go on.
    gate.change_mode(AccessMode.LEARN)
    for ask in asked:
        ask()


def test_only_admin_acts_for_a_user_who_has_become_a_super_user():
    gate = Gate(AccessMode.CLOSED, int)
    gate.change_rules(rules_of(1, "anna: allow PUBLISH topic a"))
    by = {
        kind: Caller(CallerKind.MEMBER, "ipv4:10.0.0.2:1", "m", member_kind=kind)
        for kind in (MemberKind.GATEWAY, MemberKind.ADMIN)
    }
    calls = {
        kind: admitted(gate, Caller(CallerKind.USER, "ipv4:10.0.0.1:1", "anna", acting=member))
        for kind, member in by.items()
    }

    def ask(kind):
        gate.require(calls[kind], access.ACTION_PUBLISH, access.RESOURCE_TOPIC, "a")

    ask(MemberKind.GATEWAY)
    gate.change_rules(rules_of(2, "anna: super"))
    with pytest.raises(ServiceError, match="may not act for a super user"):
        ask(MemberKind.GATEWAY)
    ask(MemberKind.ADMIN)
    rule = method_rules([ROUTES])["/ariane.namesrv.v1.RouteService/GetRoute"]
    causes = {kind: gate.still_allows(call, rule, ()) for kind, call in calls.items()}
    assert "may not act" in causes[MemberKind.GATEWAY]
    assert causes[MemberKind.ADMIN] == ""


GATEWAY_METHODS = {
    "/ariane.namesrv.v1.RouteService/": "GetRoute ListBrokers",
    "/ariane.broker.v1.TopicService/": "GetTopic",
    "/ariane.broker.v1.GroupService/": "GetConsumerGroup",
    "/ariane.broker.v1.SendService/": "AppendRecords RecallMessage",
    "/ariane.broker.v1.TransactionService/": "UpdateTransactions",
    "/ariane.broker.v1.ReceiveService/": "ReceiveRecords SettleRecords KeepInvisible",
}


def test_filters_and_gateways_act_for_users_where_their_clients_need_it_and_nowhere_else():
    """One that was taken over would else delete and reset in the name of every user."""
    gate = Gate(AccessMode.CLOSED, int)
    gate.change_rules(rules_of(1, "anna: allow PUBLISH,SUBSCRIBE,DELETE,GET topic *"))
    services = list(contract_services())
    methods = [
        f"/{service.full_name}/{each.name}" for service in services for each in service.methods
    ]
    rules = method_rules(services, asked=methods)
    admitted_by = {kind: set() for kind in (MemberKind.FILTER, MemberKind.GATEWAY)}
    for kind, found in admitted_by.items():
        member = Caller(CallerKind.MEMBER, "ipv4:10.0.0.2:1", "m", member_kind=kind)
        anna = Caller(CallerKind.USER, "ipv4:10.0.0.1:1", "anna", acting=member)
        for name in methods:
            call = Call(name, "r-1", None)
            call.gate, call._caller = gate, anna
            try:
                gate.admit(call, rules[name])
            except ServiceError:
                continue
            if call.is_judged:
                found.add(name)
    pulls = {name for name in methods if "/ariane.broker.v1.PullService/" in name}
    assert admitted_by[MemberKind.FILTER] == pulls
    assert admitted_by[MemberKind.GATEWAY] == {
        service + method for service, names in GATEWAY_METHODS.items() for method in names.split()
    }
