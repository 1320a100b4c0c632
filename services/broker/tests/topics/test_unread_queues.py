"""Queues that are written and not read: refused unless meant, and what lies in them is counted."""

import pytest

from ariane.broker.v1 import broker_service_pb2 as broker_pb
from ariane.broker.v1 import offset_service_pb2 as offset_pb
from ariane.broker.v1 import topic_service_pb2 as topic_pb


def update(broker, *, allow=False, **counts):
    request = topic_pb.UpdateTopicRequest(topic="orders", allow_unread_queues=allow, **counts)
    return broker.topics.UpdateTopic(request)


async def topic_of(broker):
    return (await broker.topics.GetTopic(topic_pb.GetTopicRequest(topic="orders"))).topic


async def lags(broker):
    page = await broker.offsets.ListConsumerLags(offset_pb.ListConsumerLagsRequest())
    return [(lag.queue_id, lag.message_count, lag.unread) for lag in page.lags]


async def unread_topics(broker):
    state = await broker.broker.GetBrokerState(broker_pb.GetBrokerStateRequest())
    return [(one.topic, one.queue_count, one.message_count) for one in state.unread_topics]


async def test_more_queues_are_not_written_than_read_unless_it_is_meant(broker, refused):
    await broker.create_topic("orders", 2)
    failure = await refused(update(broker, write_queue_count=4))
    assert (failure.reason, failure.code) == ("QUEUES_UNREAD", "FAILED_PRECONDITION")
    assert (failure.metadata["read_queue_count"], failure.metadata["write_queue_count"]) == (
        "2",
        "4",
    )
    assert (await refused(update(broker, read_queue_count=1))).reason == "QUEUES_UNREAD"
    assert (await topic_of(broker)).write_queue_count == 2
    await update(broker, write_queue_count=4, read_queue_count=4)
    await update(broker, write_queue_count=6, allow=True)
    # What is so already may stay, and become less.
    await update(broker, attributes={"cleanup.policy": "DELETE"})
    await update(broker, write_queue_count=5)
    wanted = topic_pb.Topic(topic="bills", read_queue_count=1, write_queue_count=2)
    call = broker.topics.CreateTopic(topic_pb.CreateTopicRequest(topic=wanted))
    assert (await refused(call)).reason == "QUEUES_UNREAD"
    await broker.topics.CreateTopic(
        topic_pb.CreateTopicRequest(topic=wanted, allow_unread_queues=True)
    )


async def test_what_nobody_can_read_is_counted(broker):
    await broker.create_topic("orders", 2)
    await broker.store_offset("group", "orders", 0, 0)
    assert await unread_topics(broker) == []
    await update(broker, write_queue_count=4, allow=True)
    await broker.store("orders", [b"a", b"b"], 2)
    await broker.store("orders", [b"c"], 3)
    await broker.store("orders", [b"d"], 0)
    assert (await topic_of(broker)).unread_message_count == 3
    page = await broker.topics.ListTopics(topic_pb.ListTopicsRequest())
    assert [topic.unread_message_count for topic in page.topics] == [3]
    assert await unread_topics(broker) == [("orders", 2, 3)]
    assert await lags(broker) == [(0, 1, False), (2, 2, True), (3, 1, True)]
    await update(broker, read_queue_count=4)
    assert (await topic_of(broker)).unread_message_count == 0
    assert await unread_topics(broker) == []
    assert await lags(broker) == [(0, 1, False)]


@pytest.mark.parametrize("consumed", [False, True])
async def test_fewer_are_read_only_when_groups_have_consumed_the_others(broker, refused, consumed):
    await broker.create_topic("orders", 2)
    await broker.store("orders", [b"a", b"b"], 1)
    await update(broker, write_queue_count=1)
    failure = await refused(update(broker, read_queue_count=1))
    assert (failure.reason, failure.metadata["message_count"]) == ("QUEUES_UNREAD", "2")
    await broker.store_offset("group", "orders", 1, 2)
    await broker.store_offset("slow", "orders", 1, 2 if consumed else 1)
    if consumed:
        await update(broker, read_queue_count=1)
    else:
        failure = await refused(update(broker, read_queue_count=1))
        assert failure.metadata["message_count"] == "1"
        await update(broker, read_queue_count=1, allow=True)
    # Kept all the same, and so told: another group would not get them.
    assert await unread_topics(broker) == [("orders", 1, 2)]
