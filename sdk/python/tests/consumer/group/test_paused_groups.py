"""Groups that an operator has paused: their members stay, and say why they get nothing."""

import asyncio
import logging

import pytest
from grpc import aio

from ariane.broker.v1 import group_service_pb2 as group_pb
from ariane.broker.v1.group_service_pb2_grpc import GroupServiceStub
from ariane_sdk import Message, QueueReader, ReceiveConsumer
from sdk.python.tests.consumer.push_side import Book, wait_until


@pytest.fixture
def set_paused(cluster):
    async def put(group, *, paused):
        change = group_pb.ConsumerGroupChange(consumer_group=group, consume_enabled=not paused)
        request = group_pb.UpdateConsumerGroupRequest(group=change, allow_missing=True)
        for broker in cluster.brokers:
            async with aio.insecure_channel(broker.address) as channel:
                await GroupServiceStub(channel).UpdateConsumerGroup(request)

    return put


@pytest.fixture
def warnings(caplog):
    caplog.set_level(logging.WARNING, "ariane_sdk")
    return lambda: [record.getMessage() for record in caplog.records]


async def test_members_of_a_paused_group_stay_and_say_so_once(
    cluster, topic, producer, make_consumer, set_paused, warnings
):
    await producer.send(Message(topic, b"before"))
    book, newcomer = Book(), Book()
    async with make_consumer(book, group="paused") as member:
        await book.wait(1)
        await set_paused("paused", paused=True)
        # Pulls that brokers hold already get nothing either.
        await producer.send(Message(topic, b"after"))
        await wait_until(lambda: any("paused" in line for line in warnings()))
        await member.close()
    assert book.bodies == ["before"]
    async with QueueReader(cluster.name_servers) as reader:
        # What it had consumed is stored all the same, so that nobody gets it again.
        assert sum((await reader.stored_offsets("paused", topic)).values()) == 1
    async with make_consumer(newcomer, group="paused") as member:
        await member.wait_assigned()
        await wait_until(lambda: len(warnings()) >= 2)
        await set_paused("paused", paused=False)
        await newcomer.wait(1)
        await wait_until(lambda: "the group is resumed" in warnings())
    assert newcomer.bodies == ["after"]
    refused = "an operator has paused group 'paused'"
    first, second, resumed = warnings()
    assert refused in first
    assert refused in second
    assert resumed == "the group is resumed"


async def test_a_receiving_member_waits_until_its_group_is_resumed(
    cluster, topic, producer, set_paused, warnings
):
    await set_paused("paused-receiver", paused=True)
    await producer.send(Message(topic, b"one"))
    async with ReceiveConsumer(
        cluster.name_servers, group="paused-receiver", subscriptions={topic: "*"}
    ) as consumer:
        waiting = asyncio.create_task(consumer.receive_batch(1, timeout_s=60.0))
        await wait_until(lambda: any("paused" in line for line in warnings()))
        await set_paused("paused-receiver", paused=False)
        [message] = await waiting
        await consumer.ack(message)
        while "the group is resumed" not in warnings():
            await consumer.receive_batch(1, timeout_s=0.1)
    assert message.body == b"one"
    assert len(warnings()) == 2
