"""Names of topics and groups, and namespaces, are judged as by RocketMQ's proxy."""

import asyncio

import pytest
from grpc import aio

from apache.rocketmq.v2 import definition_pb2 as dp
from apache.rocketmq.v2 import service_pb2 as pb
from ariane.broker.v1.topic_service_pb2 import DeleteTopicRequest
from ariane.broker.v1.topic_service_pb2_grpc import TopicServiceStub
from ariane_gateway.app import GatewayApp
from ariane_gateway.brokers import cluster
from ariane_gateway.rpc.caller import group_of, topic_of
from ariane_gateway.rpc.statuses import Illegal
from ariane_gateway.settings import GatewaySettings
from ariane_sdk import ClusterClient
from ariane_sdk.routing.name_servers import NameServers
from ariane_sdk.routing.routes import Routes
from ariane_servicekit import Address, serving
from ariane_servicekit.running.processes import LocalCluster
from ariane_testkit.java_names import JAVA_GROUP, JAVA_TOPIC, leave_java_names
from ariane_testkit.small_store import SMALL_STORE

BOTH = ["a%b", "%x", "a|b", "|", "a-b_C9", "a%b%c"]
NEITHER = ["", " ", "a.b", "a+b", "a b", "a\n", "ü", "a/b", "..", "a@b"]


@pytest.mark.parametrize("name", [*BOTH, "x" * 127, "%DLQ%g", "%RETRY%a%b", "RMQ_SYS"])
def test_topics_that_clients_may_name(name):
    assert topic_of(dp.Resource(name=name)) == name
    assert topic_of(dp.Resource(name=name, resource_namespace="shop")) == name


@pytest.mark.parametrize(
    "name",
    [
        *(*NEITHER, "x" * 128, "%RETRY%" + "x" * 121),
        *("rmq_sys_x", "RMQ_SYS_TRACE_TOPIC", "TBW102", "BenchmarkTest", "SCHEDULE_TOPIC_XXXX"),
    ],
)
def test_topics_that_no_client_names(name):
    with pytest.raises(Illegal) as raised:
        topic_of(dp.Resource(name=name))
    assert raised.value.status.code == dp.ILLEGAL_TOPIC


@pytest.mark.parametrize("name", [*BOTH, "x" * 120])
def test_groups_that_clients_may_name(name):
    assert group_of(dp.Resource(name=name)) == name
    assert group_of(dp.Resource(name=name, resource_namespace="shop")) == name


@pytest.mark.parametrize("name", [*NEITHER, "x" * 121, "x" * 255, "CID_RMQ_SYS_TRANS"])
def test_groups_that_no_client_names(name):
    with pytest.raises(Illegal) as raised:
        group_of(dp.Resource(name=name))
    assert raised.value.status.code == dp.ILLEGAL_CONSUMER_GROUP


async def test_a_namespace_is_no_part_of_a_name(client, ariane_topic, group):
    message = client.message(ariane_topic)
    message.topic.resource_namespace = "shop"
    sent = await client.send_messages(message)
    assert sent.status.code == dp.OK, sent
    shop = dp.Resource(name=ariane_topic, resource_namespace="shop")
    asked = pb.QueryRouteRequest(topic=shop, endpoints=client.endpoints)
    queue = (await client.call("QueryRoute", asked)).message_queues[0]
    assert queue.topic == shop
    request = client.receive_request(ariane_topic, group, queue.broker.name)
    request.message_queue.topic.CopyFrom(shop)
    call = client.stub.ReceiveMessage(request, metadata=client.metadata, timeout=20)
    (received,) = [each.message async for each in call if each.HasField("message")]
    assert received.topic == shop
    assert received.system_properties.message_id == message.system_properties.message_id
    entry = pb.AckMessageEntry(
        message_id=received.system_properties.message_id,
        receipt_handle=received.system_properties.receipt_handle,
    )
    elsewhere = pb.AckMessageRequest(
        group=dp.Resource(name=group, resource_namespace="bar"),
        topic=dp.Resource(name=ariane_topic, resource_namespace="bar"),
        entries=[entry],
    )
    assert (await client.call("AckMessage", elsewhere)).status.code == dp.OK


async def test_topics_and_groups_are_made_by_the_rule_of_rocketmq(client, ariane_cluster):
    for topic in ("shop%orders", "a|b"):
        assert (await client.queues(topic)).status.code == dp.TOPIC_NOT_FOUND
    assert (await client.queues("%DLQ%nobody")).status.code == dp.TOPIC_NOT_FOUND
    topic = "shop%cups|eu"
    async with ClusterClient(ariane_cluster.name_servers) as cluster:
        await cluster.create_topic(topic, queue_count=1, exists_ok=True)
    assert (await client.send(topic, b"a cup")).status.code == dp.OK
    assert (await client.receive(topic, "%DLQ%x"))[0].code == dp.ILLEGAL_CONSUMER_GROUP
    _, (message,) = await client.receive(topic, "team|billing%new", hold_s=10)
    assert message.body == b"a cup"


@pytest.mark.slow
async def test_names_of_a_store_that_was_taken_over_go_on(tmp_path, connect):
    leave_java_names(tmp_path / "broker-a", [JAVA_TOPIC], [JAVA_GROUP])
    with LocalCluster(tmp_path, extra_broker_args=SMALL_STORE) as cluster:
        settings = GatewaySettings(
            listen=Address("127.0.0.1", 0), name_servers=cluster.name_servers, grace_s=0.1
        )
        async with serving(settings, GatewayApp) as address:
            client = connect(str(address))
            await client.send(JAVA_TOPIC, b"a teapot")
            _, (message,) = await client.receive(JAVA_TOPIC, JAVA_GROUP)
            assert message.body == b"a teapot"
            assert message.topic.name == JAVA_TOPIC
            done = await client.ack(JAVA_TOPIC, JAVA_GROUP, message)
            assert done.status.code == dp.OK, done
            half = await client.send(JAVA_TOPIC, b"a cup", dp.TRANSACTION)
            ending = pb.EndTransactionRequest(
                topic=dp.Resource(name=JAVA_TOPIC),
                message_id=half.message_id,
                transaction_id=half.transaction_id,
                resolution=dp.COMMIT,
            )
            ended = await client.call("EndTransaction", ending)
            assert ended.status.code == dp.OK, ended
            _, (message,) = await client.receive(JAVA_TOPIC, JAVA_GROUP, hold_s=10)
            assert message.body == b"a cup"


async def test_a_topic_that_was_deleted_has_no_route_any_more(
    client, ariane_cluster, make_ariane_topic, group
):
    topic = make_ariane_topic()
    assert (await client.queues(topic)).status.code == dp.OK
    async with aio.insecure_channel(ariane_cluster.broker_address) as channel:
        await TopicServiceStub(channel).DeleteTopic(DeleteTopicRequest(topic=topic))
    # Its brokers say so first, and name servers are asked again then.
    status, _ = await client.receive(topic, group)
    assert status.code == dp.TOPIC_NOT_FOUND
    async with asyncio.timeout(30):
        while (await client.queues(topic)).status.code != dp.TOPIC_NOT_FOUND:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_a_known_route_waits_for_no_name_server(client, ariane_topic, monkeypatch):
    assert (await client.queues(ariane_topic)).status.code == dp.OK
    monkeypatch.setattr(cluster, "CHECK_S", 0.01)
    monkeypatch.setattr(Routes, "is_confirmed", lambda *_: False)
    monkeypatch.setattr(NameServers, "get_route", lambda *_: asyncio.Event().wait())
    assert (await client.queues(ariane_topic)).status.code == dp.OK
