"""Queues that are written and not read: refused unless meant, and what lies in them is counted."""

import asyncio
import threading

import pytest

from ariane.broker.v1 import broker_service_pb2 as broker_pb
from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.broker.v1 import offset_service_pb2 as offset_pb
from ariane.broker.v1 import topic_service_pb2 as topic_pb
from ariane_storage.state_file import StateFile


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


class HeldSave:
    """A save of topics that a test holds up, or lets fail."""

    def __init__(self, monkeypatch):
        self.begun, self.may_end = threading.Event(), threading.Event()
        self.error = None
        save = StateFile.save

        def held(file, document):
            if file.path.name == "topics.json":
                self.begun.set()
                assert self.may_end.wait(60)
                if self.error is not None:
                    raise self.error
            save(file, document)

        monkeypatch.setattr(StateFile, "save", held)


async def narrowing(broker, held, **counts):
    """A change that has been examined, and waits for the disk."""
    call = asyncio.ensure_future(update(broker, **counts))
    assert await asyncio.to_thread(held.begun.wait, 60)
    return call


async def test_nothing_comes_to_queues_while_they_are_closed(broker, monkeypatch):
    await broker.create_topic("orders", 2)
    await broker.store_half("half", queue_id=1)
    with monkeypatch.context() as patch:
        held = HeldSave(patch)
        call = await narrowing(broker, held, read_queue_count=1, write_queue_count=1)
        (sent,) = await broker.append(broker.batch("orders", [b"late"], 1))
        ended = await broker.end_transaction("half", client_pb.TRANSACTION_OUTCOME_COMMIT)
        held.may_end.set()
        await call
    assert sent.error is not None
    assert ended.position.queue_id == 0
    assert await unread_topics(broker) == []
    assert await broker.bodies("orders") == [b"paid"]


async def test_queues_that_could_not_be_closed_take_messages_as_before(
    broker, monkeypatch, refused
):
    await broker.create_topic("orders", 2)
    with monkeypatch.context() as patch:
        held = HeldSave(patch)
        held.error = OSError(28, "No space left on device")
        call = await narrowing(broker, held, read_queue_count=1, write_queue_count=1)
        held.may_end.set()
        await refused(call)
    await broker.store("orders", [b"a"], 1)
    assert await broker.bodies("orders", 1) == [b"a"]


async def test_a_killed_broker_knows_what_was_consumed_of_queues_that_are_read_no_more(
    broker, crashed
):
    await broker.create_topic("orders", 2)
    await broker.store("orders", [b"a", b"b"], 1)
    await broker.store_offset("group", "orders", 1, 0, durable=True)
    await broker.store_offset("group", "orders", 1, 2)
    await update(broker, read_queue_count=1, write_queue_count=1)
    async with crashed() as again:
        assert await lags(again) == [(1, 0, True)]


async def test_what_is_for_a_queue_that_is_gone_comes_in_another(broker):
    await broker.create_topic("orders", 2)
    delayed = broker.batch("orders", [b"later"], 1, delay_level=1)
    await broker.append(delayed)
    await update(broker, read_queue_count=1, write_queue_count=1)
    assert await broker.bodies("orders", hold_s=30) == [b"later"]
    assert await unread_topics(broker) == []
