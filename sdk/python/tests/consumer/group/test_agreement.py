"""Groups whose topics are on different brokers: members agree, and receive from all of them."""

import asyncio
from uuid import uuid4

import grpc
import pytest

from ariane.broker.v1.group_service_pb2 import (
    SUBSCRIPTION_CONFLICT_POLICY_FLAG,
    ConsumerGroup,
    CreateConsumerGroupRequest,
)
from ariane.broker.v1.group_service_pb2_grpc import GroupServiceStub
from ariane.broker.v1.topic_service_pb2 import CreateTopicRequest, Topic
from ariane.broker.v1.topic_service_pb2_grpc import TopicServiceStub
from ariane_sdk import ClusterClient, Message, Producer, PushConsumer, ReceiveConsumer, errors


@pytest.fixture
async def apart(cluster):
    """Topics "apart-a" and "apart-b", each on one broker; their addresses by topic."""
    async with ClusterClient(cluster.name_servers) as client:
        brokers = await client.list_brokers()
    addresses = dict(zip(("apart-a", "apart-b"), (b.address for b in brokers), strict=True))
    for topic, address in addresses.items():
        async with grpc.aio.insecure_channel(address) as channel:
            wanted = Topic(topic=topic, read_queue_count=1, write_queue_count=1)
            try:
                await TopicServiceStub(channel).CreateTopic(CreateTopicRequest(topic=wanted))
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
                    raise
    return addresses


def member(cluster, group, topic):
    async def listen(_messages):
        pass

    return PushConsumer(
        cluster.name_servers, group=group, subscriptions={topic: "*"}, listener=listen
    )


async def test_a_member_that_differs_is_refused_on_another_broker_too(cluster, apart):
    async with member(cluster, "strangers", "apart-a") as first:
        with pytest.raises(errors.GroupRefused) as refused:
            await member(cluster, "strangers", "apart-b").start()
        assert refused.value.reason == "SUBSCRIPTION_CONFLICT"
        assert refused.value.metadata["member"] == first.client_id
        async with member(cluster, "strangers", "apart-a"):
            pass
    async with member(cluster, "strangers", "apart-b"):
        pass


async def test_a_group_that_flags_lets_them_be(cluster, apart):
    group = ConsumerGroup(
        consumer_group="lax",
        consume_enabled=True,
        subscription_conflict_policy=SUBSCRIPTION_CONFLICT_POLICY_FLAG,
    )
    for address in apart.values():
        async with grpc.aio.insecure_channel(address) as channel:
            request = CreateConsumerGroupRequest(group=group)
            await GroupServiceStub(channel).CreateConsumerGroup(request)
    async with member(cluster, "lax", "apart-a"), member(cluster, "lax", "apart-b"):
        pass


async def test_a_member_receives_topics_that_are_on_different_brokers(cluster, apart):
    sent = {uuid4().bytes: topic for topic in apart for _ in range(3)}
    async with Producer(cluster.name_servers) as producer:
        for body, topic in sent.items():
            await producer.send(Message(topic, body))
    got = {}
    consumer = ReceiveConsumer(
        cluster.name_servers,
        group=f"both-{uuid4().hex[:8]}",
        subscriptions=dict.fromkeys(apart, "*"),
    )
    async with consumer, asyncio.timeout(60):
        while sent.keys() - got.keys():
            for message in await consumer.receive_batch():
                got[bytes(message.body)] = message.topic
                await consumer.ack(message)
    assert got == got | sent
