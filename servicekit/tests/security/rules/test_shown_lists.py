"""Lists of callers who see a part of them only."""

from __future__ import annotations

import pytest

from ariane.namesrv.v1.route_service_pb2 import DESCRIPTOR, ListTopicsRequest, ListTopicsResponse
from ariane_servicekit import ServiceError, take_page
from ariane_servicekit.rpc.calls import Call
from ariane_servicekit.security.caller import Caller, CallerKind
from ariane_servicekit.security.gate.access_mode import AccessMode
from ariane_servicekit.security.gate.gate import Gate
from ariane_servicekit.security.rules.method_rules import method_rules
from ariane_testkit.access_rules import rules_of

RULE = method_rules([DESCRIPTOR.services_by_name["RouteService"]])[
    "/ariane.namesrv.v1.RouteService/ListTopics"
]
TOPICS = ["bills", "order-1", "order-2", "secret-7", "secret-8"]


@pytest.fixture
def listed():
    """Ask for a page of topics as a user, in a closed process."""
    gate = Gate(AccessMode.CLOSED, int)
    gate.change_rules(rules_of(1, "anna: allow GET topic order-*", "olga: allow GET cluster"))

    def ask(user, page_token="", page_size=2):
        call = Call("/a.B/C", "r-1", None)
        call.is_judged, call.gate = True, gate
        call._caller = Caller(CallerKind.USER, "ipv4:10.0.0.1:1", user)
        request = ListTopicsRequest(page_size=page_size, page_token=page_token)
        gate.judge(call, RULE, request)
        page = take_page(
            TOPICS,
            lambda topic: (topic,),
            page_size=request.page_size,
            page_token=request.page_token,
            scope="topics",
        )
        answer = ListTopicsResponse(topics=page.entries, next_page_token=page.next_page_token)
        return gate.show(call, RULE, answer)

    return ask


def pages_of(listed, user):
    pages, token = [], ""
    while True:
        answer = listed(user, token)
        pages.append([*answer.topics])
        token = answer.next_page_token
        if not token:
            return pages


def test_who_sees_a_part_walks_through_the_list_and_reads_no_token(listed):
    assert pages_of(listed, "anna") == [["order-1"], ["order-2"], []]
    assert pages_of(listed, "olga") == [TOPICS[:2], TOPICS[2:4], TOPICS[4:]]
    assert listed("anna").next_page_token != listed("anna").next_page_token


def test_who_sees_a_part_begins_no_page_where_he_likes(listed):
    """By whether something comes behind it, every name could be found letter by letter."""
    made = take_page(
        ["secret-6", "x"], lambda topic: (topic,), page_size=1, page_token="", scope="topics"
    )
    assert [*listed("olga", made.next_page_token).topics] == ["secret-7", "secret-8"]
    sealed = listed("anna").next_page_token
    for token in (made.next_page_token, "~", "~x", "~AAAA", sealed[:-4] + "AAA=", sealed[1:]):
        with pytest.raises(ServiceError) as caught:
            listed("anna", token)
        assert caught.value.row.name == "PAGE_TOKEN_INVALID"
