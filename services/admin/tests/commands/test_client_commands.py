"""``ariane client list``: who is attached to the brokers."""

import threading
import time

import pytest

from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.broker.v1.client_service_pb2_grpc import ClientServiceStub
from ariane_admin.terminal.exits import ExitStatus
from ariane_sdk import Message, TransactionOutcome
from ariane_sdk.sync import Producer, PushConsumer
from ariane_servicekit.security.caller import MemberKind
from ariane_testkit.closed_clusters import open_blocking_channel


@pytest.fixture
def attached(cluster, ariane):
    """A member of a group and a transactional producer."""
    ariane("topic", "create", "cl-orders", "--queues", "1", "--exists-ok")
    with (
        PushConsumer(
            cluster.name_servers,
            group="cl-crew",
            subscriptions={"cl-orders": "*"},
            listener=lambda _messages: None,
        ),
        Producer(
            cluster.name_servers,
            group="cl-shop",
            transaction_checker=lambda _message: TransactionOutcome.COMMIT,
        ),
    ):
        yield


def wait_for(rows_of, count):
    deadline = time.monotonic() + 60
    while len(rows := rows_of()) < count:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return rows


def test_consumers_and_transactional_producers_are_listed(ariane, ariane_json, attached):
    [consumer] = wait_for(lambda: ariane_json("client", "list", "--group", "cl-crew"), 1)
    assert (consumer["groups"], consumer["producer_groups"]) == (["cl-crew"], [])
    assert consumer["language"] == "python"
    [producer] = wait_for(lambda: ariane_json("client", "list", "--producer-group", "cl-shop"), 1)
    assert (producer["groups"], producer["producer_groups"]) == ([], ["cl-shop"])
    listed = {row["client_id"] for row in ariane_json("client", "list")}
    assert {consumer["client_id"], producer["client_id"]} <= listed
    for broker in ("broker-a", "broker-b"):
        ids = {row["client_id"] for row in ariane_json("client", "list", "--broker", broker)}
        assert (consumer["client_id"] in ids) == (broker in consumer["brokers"])
    assert "cl-shop" in ariane("client", "list")


def test_a_group_without_clients_is_empty(ariane, ariane_json):
    ariane("group", "retry", "cl-idle", "--attempts", "3")
    assert ariane_json("client", "list", "--group", "cl-idle") == []


def test_clients_of_a_gateway_are_listed_with_it(cluster, ariane_json):
    told = threading.Event()

    def says():
        yield client_pb.AttachRequest(hello=client_pb.ClientHello(client_id="cl-gateway"))
        hello = client_pb.ClientHello(client_id="cl-relayed", language="JAVA")
        relayed = client_pb.RelayedClient(hello=hello, address="10.0.0.7:4242")
        yield client_pb.AttachRequest(relayed_clients=client_pb.RelayedClients(present=[relayed]))
        told.wait()

    with open_blocking_channel(cluster.brokers[0].address, MemberKind.GATEWAY) as channel:
        call = ClientServiceStub(channel).Attach(says())
        deadline = time.monotonic() + 60
        rows = {}
        while "cl-relayed" not in rows:
            assert time.monotonic() < deadline
            rows = {row["client_id"]: row for row in ariane_json("client", "list")}
        told.set()
        call.cancel()
    row = rows["cl-relayed"]
    assert (row["language"], row["address"]) == ("JAVA", "10.0.0.7:4242")
    assert (row["gateways"], rows["cl-gateway"]["gateways"]) == (["cl-gateway"], [])


def test_a_client_is_disconnected_counts_as_no_death_and_comes_again(attached, ariane, ariane_json):
    def members():
        return ariane_json("client", "list", "--group", "cl-crew")

    def vanished():
        return ariane_json("broker", "show", member["brokers"][0])["vanished_members"]

    [member] = wait_for(members, 1)
    before = vanished()
    disconnect = ("client", "disconnect", member["client_id"], "--yes")
    done = ariane_json(*disconnect)
    assert (done["client_id"], done["brokers"]) == (member["client_id"], member["brokers"])
    deadline = time.monotonic() + 60
    while not (again := members()) or again[0]["attach_time"] == member["attach_time"]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert vanished() == before
    ariane("client", "disconnect", "cl-nobody", "--yes", status=ExitStatus.NOT_FOUND)


def test_producers_of_a_topic_are_listed(cluster, ariane, ariane_json):
    ariane("topic", "create", "cl-sent", "--queues", "1", "--exists-ok")
    with Producer(cluster.name_servers, group="cl-senders") as producer:
        for _ in range(4):
            producer.send(Message("cl-sent", b"m"))
    [row] = ariane_json("topic", "producers", "cl-sent")
    assert (row["producer_group"], row["message_count"]) == ("cl-senders", 4)
    assert row["agent"].startswith("ariane-python/")
    assert row["address"].startswith("127.0.0.1:")
    assert row["client_id"] in ariane("topic", "producers", "--producer-group", "cl-senders")
    assert ariane_json("topic", "producers", "cl-sent", "--producer-group", "others") == []
