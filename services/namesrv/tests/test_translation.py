from __future__ import annotations

import pytest
from google.protobuf.duration_pb2 import Duration

from ariane.namesrv.v1 import route_pb2
from ariane.namesrv.v1.registration_service_pb2 import RegisterBrokerRequest
from ariane_namesrv.registration import BrokerKey, Permission, TopicLayout
from ariane_namesrv.translation import read_registration
from ariane_servicekit import ServiceError

READ_WRITE = route_pb2.TOPIC_PERMISSION_READ_WRITE


def announcement(**changes) -> RegisterBrokerRequest:
    request = RegisterBrokerRequest(
        identity=route_pb2.BrokerIdentity(
            cluster_name="c1", broker_name="broker-a", address="127.0.0.1:1"
        ),
        incarnation="first",
        topics=[route_pb2.TopicRegistration(topic="orders", permission=READ_WRITE)],
        writable=True,
    )
    request.MergeFrom(RegisterBrokerRequest(**changes))
    return request


def read(request, standing=()):
    return read_registration(
        request, silence_s_max=120, topics_max=3, standing=lambda key: standing
    )


def test_an_ordinary_announcement():
    registration = read(
        announcement(
            topics=[
                route_pb2.TopicRegistration(
                    topic="%RETRY%group",
                    read_queue_count=3,
                    write_queue_count=2,
                    permission=route_pb2.TOPIC_PERMISSION_READ,
                    version=9,
                    ordered=True,
                )
            ],
            topics_version=7,
            filter_server_addresses=["[::1]:5"],
        )
    )
    assert registration.key == BrokerKey("c1", "broker-a", 0)
    assert registration.topics == {
        "orders": TopicLayout(0, 0, Permission.READ | Permission.WRITE),
        "%RETRY%group": TopicLayout(3, 2, Permission.READ, version=9, ordered=True),
    }
    assert registration.topics_version == 7
    assert registration.silence_s_max == 120
    assert registration.filter_server_addresses == ("[::1]:5",)
    assert registration.writable


def test_a_broker_may_ask_for_its_own_silence():
    assert (
        read(announcement(silence_max=Duration(seconds=2, nanos=500_000_000))).silence_s_max == 2.5
    )


def identity(**fields):
    return {"identity": route_pb2.BrokerIdentity(**fields)}


def topic(**fields):
    return {"topics": [route_pb2.TopicRegistration(**fields)]}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        (identity(broker_name="a/b"), "broker_name"),
        (identity(broker_name="b" * 121), "broker_name"),
        (identity(cluster_name="c 1"), "cluster_name"),
        (identity(broker_id=-1), "broker_id"),
        (identity(zone="a\nb"), "identity.zone"),
        (identity(zone="z" * 121), "identity.zone"),
        (identity(address="nowhere"), "identity.address"),
        (identity(address="127.0.0.1:0"), "identity.address"),
        (identity(address="0.0.0.0:1"), "identity.address"),
        (identity(address="[::]:1"), "identity.address"),
        ({"incarnation": "a b"}, "incarnation"),
        ({"topics_version": -1}, "topics_version"),
        ({"silence_max": Duration()}, "silence_max"),
        ({"silence_max": Duration(seconds=3601)}, "silence_max"),
        ({"filter_server_addresses": ["x"]}, "filter_server_addresses[0]"),
        ({"filter_server_addresses": ["h:1"] * 65}, "filter_server_addresses"),
    ],
)
def test_a_refused_announcement_names_the_field(changes, field):
    with pytest.raises(ServiceError) as caught:
        read(announcement(**changes))
    assert caught.value.row.name == "FIELD_INVALID"
    assert caught.value.field == field


@pytest.mark.parametrize("field", ["cluster_name", "broker_name"])
def test_names_are_required(field):
    request = announcement()
    request.identity.ClearField(field)
    with pytest.raises(ServiceError) as caught:
        read(request)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("broken", "shown", "cause"),
    [
        ({}, "", "its name"),
        ({"topic": "a b"}, "a b", "its name"),
        ({"topic": "a\x1b[31m"}, "a\\x1b[31m", "its name"),
        ({"topic": "t" * 256}, "t" * 255, "its name"),
        ({"topic": "orders", "permission": READ_WRITE}, "orders", "named twice"),
        ({"topic": "x"}, "x", "its permission"),
        ({"topic": "x", "permission": 99}, "x", "its permission"),
        ({"topic": "x", "write_queue_count": -1}, "x", "its write_queue_count"),
        ({"topic": "x", "read_queue_count": 65_537}, "x", "its read_queue_count"),
    ],
)
def test_a_topic_that_breaks_a_rule_is_refused_by_itself(broken, shown, cause):
    registration = read(announcement(**topic(**broken)))
    assert list(registration.topics) == ["orders"]
    assert registration.refused_topic_count == 1
    (refused,) = registration.refused_topics
    assert refused.topic == shown
    assert cause in refused.cause


def numbered(names):
    return [
        route_pb2.TopicRegistration(topic=name, permission=READ_WRITE, version=version)
        for name, version in names.items()
    ]


def test_beyond_the_limit_the_youngest_topics_are_refused():
    request = announcement(topics=numbered({"a-flood-1": 8, "old": 2, "a-flood-2": 9, "new": 5}))
    registration = read(request)
    assert set(registration.topics) == {"orders", "old", "new"}
    assert registration.refused_topic_count == 2
    assert [one.topic for one in registration.refused_topics] == ["a-flood-1", "a-flood-2"]


def test_a_topic_that_stands_in_routes_stays_there_whatever_comes():
    request = announcement(topics=numbered({"flood-1": 2, "flood-2": 3, "changed-now": 99}))
    registration = read(request, standing={"changed-now", "gone"})
    assert set(registration.topics) == {"orders", "flood-1", "changed-now"}


def test_few_of_very_many_refused_topics_are_named():
    flood = numbered({f"flood-{number:04}": number + 1 for number in range(2000)})
    registration = read(announcement(topics=flood, unannounced_topic_count=7))
    assert registration.refused_topic_count == 2001 - 3 + 7
    assert len(registration.refused_topics) == 20
