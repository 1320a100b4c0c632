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


def read(request):
    return read_registration(request, silence_s_max=120, topics_max=3)


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
        (topic(), "topics[1].topic"),
        (topic(topic="a b"), "topics[1].topic"),
        (topic(topic="t" * 256), "topics[1].topic"),
        (topic(topic="orders"), "topics[1].topic"),
        (topic(topic="x"), "topics[1].permission"),
        (topic(topic="x", permission=99), "topics[1].permission"),
        (topic(topic="x", write_queue_count=-1), "topics[1].write_queue_count"),
        (topic(topic="x", read_queue_count=65_537), "topics[1].read_queue_count"),
        ({"topics": [route_pb2.TopicRegistration(topic="x")] * 3}, "topics"),
    ],
)
def test_what_makes_no_sense_names_the_field(changes, field):
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
