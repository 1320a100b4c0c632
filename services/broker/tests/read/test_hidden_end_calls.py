"""Calls to a new primary about messages that it has and does not hand out yet.

The primary before has handed them out: what clients say of them is taken, or waits.
"""

from contextlib import asynccontextmanager

import pytest

from ariane.broker.v1 import group_service_pb2 as group_pb
from ariane.broker.v1 import topic_service_pb2 as topic_pb
from ariane_broker.log.broker_log import BrokerLog
from ariane_record.names import dead_letter_topic
from ariane_storage import Store
from services.broker.tests.receive.receive_calls import Receiver, bodies
from services.broker.tests.retry.test_redrive_calls import dead_letters, messages_of, redrive_call

GROUP, TOPIC = "billing", "orders"


@pytest.fixture
def hiding(running, monkeypatch):
    """A broker on the store of one before, that hands out all before a commit-log offset.

    The rest is handed out as soon as anybody waits for it.
    """
    recover, promised = Store.recover, BrokerLog.promised

    @asynccontextmanager
    async def run(commit_log_offset):
        stores = []

        def recover_and_hide(store, *arguments, **options):
            found = recover(store, *arguments, **options)
            store.copying.confirm_up_to(commit_log_offset)
            stores.append(store)
            return found

        async def confirm(log, end=None):
            log.store.copying.confirm_up_to(log.store.max_offset)
            return await promised(log, end)

        with monkeypatch.context() as patched:
            patched.setattr(Store, "recover", recover_and_hide)
            async with running() as broker:
                patched.setattr(BrokerLog, "promised", confirm)
                yield broker, stores[0]

    return run


async def prepare(broker):
    """Two messages; where the second one lies."""
    await broker.create_topic(TOPIC)
    group = group_pb.ConsumerGroup(consumer_group=GROUP, consume_enabled=True, attempts_max=16)
    await broker.groups.CreateConsumerGroup(group_pb.CreateConsumerGroupRequest(group=group))
    await broker.store(TOPIC, [b"confirmed"])
    return (await broker.store(TOPIC, [b"perhaps"])).first_commit_log_offset


async def test_a_stored_offset_behind_it_is_kept(running, hiding):
    async with running() as broker:
        edge = await prepare(broker)
        await broker.store_offset(GROUP, TOPIC, 0, 2, durable=True)
    async with hiding(edge) as (broker, _):
        assert await broker.known_offset(GROUP, TOPIC) == 2


async def test_an_offset_behind_it_is_stored_and_receivers_begin_there(running, hiding):
    async with running() as broker:
        edge = await prepare(broker)
    async with hiding(edge) as (broker, store):
        assert not await broker.store_offset(GROUP, TOPIC, 0, 2)
        (beyond,) = await broker.store_offset(GROUP, TOPIC, 0, 3)
        assert "QUEUE_OFFSET_OUT_OF_RANGE" in str(beyond)
        receiver = Receiver(broker, GROUP)
        assert await receiver.receive() == []
        store.copying.confirm_up_to(None)
        assert await receiver.receive() == []
        await broker.store(TOPIC, [b"new"])
        assert bodies(await receiver.receive()) == ["new"]


async def test_a_message_of_it_becomes_a_dead_letter(running, hiding):
    async with running() as broker:
        edge = await prepare(broker)
        _, perhaps = await Receiver(broker, GROUP).receive(invisible_s=3600)
    async with hiding(edge) as (broker, _):
        receiver = Receiver(broker, GROUP)
        (outcome,) = await receiver.nack(perhaps, dead_letter=True)
        assert outcome.dead_letter
        assert await broker.bodies(dead_letter_topic(GROUP)) == [b"perhaps"]


async def test_a_dead_letter_of_it_is_sent_back(running, hiding):
    async with running() as broker:
        await dead_letters(broker, 2, group=GROUP)
        letters = await messages_of(broker, dead_letter_topic(GROUP), group=GROUP)
    async with hiding(letters[1].commit_log_offset) as (broker, _):
        answer = await redrive_call(broker, [0, 1, 2], group=GROUP)
        assert answer.redriven_count == 2
        assert [failure.queue_offset for failure in answer.failures] == [2]


async def test_what_was_in_a_deleted_group_is_counted_with_it(running, hiding):
    async with running() as broker:
        await dead_letters(broker, 3, group=GROUP)
        letters = await messages_of(broker, dead_letter_topic(GROUP), group=GROUP)
    async with hiding(letters[1].commit_log_offset) as (broker, _):
        request = group_pb.DeleteConsumerGroupRequest(consumer_group=GROUP)
        assert (await broker.groups.DeleteConsumerGroup(request)).dead_letter_count == 3


async def test_it_counts_in_queues_that_are_not_read(running, hiding, refused):
    def update(broker, **counts):
        return broker.topics.UpdateTopic(topic_pb.UpdateTopicRequest(topic=TOPIC, **counts))

    async with running() as broker:
        await broker.create_topic(TOPIC, 3)
        await update(broker, read_queue_count=2, write_queue_count=2)
        await update(broker, read_queue_count=2, write_queue_count=3, allow_unread_queues=True)
        await broker.store(TOPIC, [b"a"], 2)
        hidden = await broker.store(TOPIC, [b"b"], 2)
        await broker.store(TOPIC, [b"c"], 1)
    async with hiding(hidden.first_commit_log_offset) as (broker, _):
        topic = (await broker.topics.GetTopic(topic_pb.GetTopicRequest(topic=TOPIC))).topic
        assert topic.unread_message_count == 2
        # Queue 1 holds a message that nobody has consumed, though nobody can read it now.
        shrunk = update(broker, read_queue_count=1, write_queue_count=1)
        assert (await refused(shrunk)).reason == "QUEUES_UNREAD"
