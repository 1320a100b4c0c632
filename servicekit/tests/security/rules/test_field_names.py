from __future__ import annotations

import pytest

from ariane.admin.v1.filter_service_pb2 import ClusterFilter, ListFiltersResponse
from ariane.broker.v1.client_service_pb2 import AttachRequest, ClientHello, Membership
from ariane.common.v1.subscription_pb2 import Subscription
from ariane.filter.v1.filter_pb2 import Filter
from ariane.namesrv.v1.route_service_pb2 import GetRouteRequest, ListTopicsResponse
from ariane_servicekit.security.rules.field_names import FieldPathWrong, list_at, names_at

HELLO = AttachRequest(
    hello=ClientHello(
        memberships=[
            Membership(consumer_group="g", subscriptions=[Subscription(topic="a")] * 2),
            Membership(consumer_group="h", subscriptions=[Subscription(topic="b")]),
        ]
    )
)


@pytest.mark.parametrize(
    ("message", "path", "names"),
    [
        (GetRouteRequest(topic="a"), "topic", ["a"]),
        (HELLO, "hello.client_id", [""]),
        (HELLO, "hello.memberships.consumer_group", ["g", "h"]),
        (HELLO, "hello.memberships.subscriptions.topic", ["a", "a", "b"]),
        (HELLO, "heartbeat.memberships.consumer_group", []),
        (ListTopicsResponse(topics=["a", "b"]), "topics", ["a", "b"]),
        (ClusterFilter(filters={"x": Filter(filter="f")}), "filters.value.filter", ["f"]),
    ],
)
def test_names_are_found_along_paths(message, path, names):
    assert list(names_at(message.DESCRIPTOR, path)(message)) == names


def test_lists_are_cut_by_the_names_of_their_entries():
    field, names = list_at(ListFiltersResponse.DESCRIPTOR, "filters.filters.value.filter")
    assert field == "filters"
    assert list(names(ClusterFilter(filters={"x": Filter(filter="f")}))) == ["f"]
    field, names = list_at(ListTopicsResponse.DESCRIPTOR, "topics")
    assert list(names("a")) == ["a"]


@pytest.mark.parametrize("path", ["topics", "hello.topic", "hello.memberships", "hello", ""])
def test_paths_that_lead_nowhere_are_refused(path):
    with pytest.raises(FieldPathWrong):
        names_at(AttachRequest.DESCRIPTOR, path)
    with pytest.raises(FieldPathWrong):
        list_at(AttachRequest.DESCRIPTOR, path)
