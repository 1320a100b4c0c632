"""``ariane broker forget`` against a real cluster, which a broker has left."""

from datetime import UTC, datetime

import grpc
import pytest

from ariane.namesrv.v1 import registration_service_pb2 as registering
from ariane.namesrv.v1 import route_pb2
from ariane.namesrv.v1 import route_service_pb2 as routing
from ariane.namesrv.v1.registration_service_pb2_grpc import RegistrationServiceStub
from ariane.namesrv.v1.route_service_pb2_grpc import RouteServiceStub
from ariane_admin.cli import main
from ariane_admin.terminal.exits import ExitStatus

TOPICS = "bf-orders", "bf-bills"
IDENTITY = route_pb2.BrokerIdentity(
    cluster_name="DefaultCluster", broker_name="broker-gone", address="127.0.0.1:1"
)


@pytest.fixture
def channels(cluster):
    """A connection to each name server."""
    channels = [grpc.insecure_channel(address) for address in cluster.name_servers.split(",")]
    yield channels
    for channel in channels:
        channel.close()


def come(channel):
    """Register the broker, as its process does."""
    RegistrationServiceStub(channel).RegisterBroker(
        registering.RegisterBrokerRequest(
            identity=IDENTITY,
            incarnation="first",
            topics=[
                route_pb2.TopicRegistration(
                    topic=topic,
                    read_queue_count=1,
                    write_queue_count=1,
                    permission=route_pb2.TOPIC_PERMISSION_READ_WRITE,
                )
                for topic in TOPICS
            ],
            writable=True,
        )
    )


def go(channel):
    """Unregister it."""
    RegistrationServiceStub(channel).UnregisterBroker(
        registering.UnregisterBrokerRequest(
            cluster_name=IDENTITY.cluster_name, broker_name="broker-gone", incarnation="first"
        )
    )


def away(channel):
    """The brokers that a name server names as away."""
    answer = RouteServiceStub(channel).ListBrokers(routing.ListBrokersRequest())
    return [one.broker_name for one in answer.away_brokers]


@pytest.mark.parametrize("command", ["show", "update", "order"])
def test_a_topic_of_a_broker_that_is_away_is_not_said_to_be_missing(
    cluster, admin_beside, ariane, channels, command
):
    for channel in channels:
        come(channel)
        go(channel)
    flags = ("--queues", "2") if command == "update" else ()
    said = ariane("topic", command, TOPICS[0], *flags, status=ExitStatus.UNREACHABLE)
    assert "broker-gone had it and may come back" in said
    # Not by admin, which would note it.
    main(("broker", "forget", "broker-gone", "--yes", "--name-servers", cluster.name_servers))
    said = ariane("topic", command, TOPICS[0], *flags, status=ExitStatus.NOT_FOUND)
    assert "no live broker carries topic" in said
    assert "broker-gone" not in said


def test_a_broker_that_has_left_for_good_is_forgotten(admin_beside, ariane, ariane_json, channels):
    first, second = channels
    for channel in channels:
        come(channel)
    ariane("broker", "forget", "broker-gone", status=ExitStatus.USAGE)
    go(first)
    for how in "--dry-run", "--yes":
        said = ariane("broker", "forget", "broker-gone", how, status=ExitStatus.REFUSED)
        assert "broker broker-gone at 127.0.0.1:1 is registered with name server" in said
        assert "[BROKER_ALIVE]" in said
    assert away(first) == ["broker-gone"], "it lives for the other name server"

    go(second)
    told = ariane_json("broker", "forget", "broker-gone", "--dry-run")
    assert (told["topics"], told["name_server_failures"], told["dry_run"]) == (2, [], True)
    assert datetime.fromisoformat(told["left"]) <= datetime.now(UTC)
    assert away(first) == away(second) == ["broker-gone"]
    told = ariane_json("broker", "forget", "broker-gone", "--yes")
    assert (told["topics"], told["dry_run"]) == (2, False)
    assert away(first) == away(second) == []

    for how in "--dry-run", "--yes":
        said = ariane("broker", "forget", "broker-gone", how, status=ExitStatus.NOT_FOUND)
        assert "no name server names a broker broker-gone as away" in said
    rows = ariane_json("audit", "list", "--method", "ForgetBroker")
    assert [(row["name"], row["outcome"]) for row in rows] == [
        ("broker-gone", "failed"),
        ("broker-gone", "done"),
        ("broker-gone", "failed"),
    ]


def test_a_name_server_that_is_away_is_named(cluster, channels, capfd):
    for channel in channels:
        come(channel)
        go(channel)
    names = f"{cluster.name_servers},127.0.0.1:1"
    argv = ("broker", "forget", "broker-gone", "--yes", "--name-servers", names)
    assert main(argv) == ExitStatus.UNREACHABLE
    out, err = capfd.readouterr()
    assert out == "Routes of 2 topics no longer name broker broker-gone as away.\n"
    assert "name server 127.0.0.1:1" in err
    assert "1 name server did not answer and may still name it" in err
    assert [away(channel) for channel in channels] == [[], []]
