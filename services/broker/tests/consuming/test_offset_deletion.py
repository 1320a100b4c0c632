"""Deleting a group's offsets of one topic: it begins anew there, and nowhere else."""

import json

import pytest

from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.broker.v1 import offset_service_pb2 as offset_pb
from ariane.broker.v1 import receive_service_pb2 as receive_pb
from ariane.broker.v1 import topic_service_pb2 as topic_pb


async def deleted(broker, topic="orders", **fields):
    request = offset_pb.DeleteConsumerOffsetsRequest(consumer_group="group", topic=topic, **fields)
    answer = await broker.offsets.DeleteConsumerOffsets(request)
    return [(each.queue_id, each.queue_offset) for each in answer.offsets]


@pytest.fixture
async def prepared(broker):
    for topic in ("orders", "bills"):
        await broker.create_topic(topic, 2)
        await broker.store(topic, [b"a", b"b"], 1)
        await broker.store_offset("group", topic, 0, 0)
        await broker.store_offset("group", topic, 1, 2, durable=True)
    return broker


async def test_they_are_gone_from_the_disk_with_the_answer_and_others_stay(prepared, tmp_path):
    assert await deleted(prepared, validate_only=True) == [(0, 0), (1, 2)]
    assert await prepared.known_offset("group", "orders", 1) == 2
    assert await deleted(prepared) == [(0, 0), (1, 2)]
    assert await prepared.known_offset("group", "orders", 1) is None
    assert await prepared.known_offset("group", "bills", 1) == 2
    content = (tmp_path / "store" / "config" / "consumerOffset.json").read_text()
    assert json.loads(content)["offsetTable"] == {"bills@group": {"0": 0, "1": 2}}
    assert await deleted(prepared) == []


async def test_members_of_the_topic_keep_them_and_those_of_others_do_not(prepared, refused):
    call = prepared.clients.Attach()
    membership = client_pb.Membership(consumer_group="group")
    membership.subscriptions.add(topic="orders")
    hello = client_pb.ClientHello(client_id="a", memberships=[membership])
    await call.write(client_pb.AttachRequest(hello=hello))
    assert (await call.read()).HasField("accepted")
    failure = await refused(deleted(prepared))
    assert (failure.reason, failure.metadata["member_count"]) == ("GROUP_IN_USE", "1")
    assert await prepared.known_offset("group", "orders", 1) == 2
    assert await deleted(prepared, "bills") == [(0, 0), (1, 2)]
    call.cancel()


async def test_who_has_not_heard_of_it_brings_none_back(running):
    async def stored(broker, **fence):
        offset = offset_pb.QueueConsumerOffset(topic="orders", queue_offset=2, **fence)
        request = offset_pb.StoreConsumerOffsetsRequest(consumer_group="group", offsets=[offset])
        answer = await broker.offsets.StoreConsumerOffsets(request)
        return [each.error.message for each in answer.refused]

    async with running() as broker:
        await broker.create_topic("orders")
        await broker.store("orders", [b"a", b"b"])
        assert await stored(broker, reset_epoch=0) == []
        assert await deleted(broker) == [(0, 2)]
        # A member that was frozen for so long that nobody missed it.
        (refusal,) = await stored(broker, reset_epoch=0)
        assert "reset" in refusal
    async with running() as broker:
        assert len(await stored(broker, reset_epoch=0)) == 1
        assert await broker.known_offset("group", "orders") is None
        assert await stored(broker, reset_epoch=1) == []
        assert await broker.known_offset("group", "orders") == 2


async def test_a_group_that_is_not_there_is_refused_and_a_topic_need_not_be(prepared, refused):
    request = offset_pb.DeleteConsumerOffsetsRequest(consumer_group="none", topic="orders")
    failure = await refused(prepared.offsets.DeleteConsumerOffsets(request))
    assert failure.reason == "GROUP_NOT_FOUND"
    await prepared.topics.DeleteTopic(topic_pb.DeleteTopicRequest(topic="bills"))
    assert await deleted(prepared, "bills") == []


async def test_messages_in_hand_raise_no_offset_again(running):
    async def received(broker, message_count):
        order = receive_pb.ReceiveOrder(consumer_group="group", message_count_max=message_count)
        order.subscriptions.add(topic="orders")
        request = receive_pb.ReceiveMessagesRequest(order=order)
        bodies = []
        async for answer in broker.receives.ReceiveMessages(request):
            bodies += [each.message.body for each in answer.messages]
        return bodies

    async with running() as broker:
        await broker.create_topic("orders")
        await broker.store_offset("group", "orders", 0, 0)
        await broker.store("orders", [b"a", b"b"])
        assert await received(broker, 1) == [b"a"]
        assert await deleted(broker) == [(0, 0)]
        assert await broker.known_offset("group", "orders") is None
    async with running() as broker:
        assert await broker.known_offset("group", "orders") is None
