"""Calls to a new primary about messages that it has and does not hand out yet.

The primary before has handed them out: what clients say of them is taken, or waits.
"""

from contextlib import asynccontextmanager

import pytest

from ariane.broker.v1 import group_service_pb2 as group_pb
from ariane_broker.log.broker_log import BrokerLog
from ariane_record.names import dead_letter_topic
from ariane_storage import Store
from services.broker.tests.receive.receive_calls import Receiver, bodies

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
