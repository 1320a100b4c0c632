"""Which messages wake calls that wait: those that somebody of the group wants."""

import asyncio

import pytest

from ariane.broker.v1 import group_service_pb2 as group_pb
from ariane.broker.v1 import offset_service_pb2 as offset_pb
from ariane_broker.receive.handing_out.waiting_line import WaitingLine
from services.broker.tests.receive.receive_calls import Receiver, held, held_count


@pytest.fixture
def served(monkeypatch):
    """How often waiting calls were served."""
    serve_first, turns = WaitingLine._serve_first, []

    def counted(line, *arguments):
        turns.append(len(line))
        return serve_first(line, *arguments)

    monkeypatch.setattr(WaitingLine, "_serve_first", counted)
    return turns


async def waiting(receiver, **wanted):
    """A call that waits, besides others."""
    before = await held_count(receiver.broker)
    call = asyncio.ensure_future(receiver.receive(hold_s=30, **wanted))
    await held(receiver.broker, before + 1)
    return call


async def test_receivers_of_some_tags_are_woken_by_these_only(running, served):
    async with running() as broker:
        await broker.create_topic("orders")
        one = await waiting(Receiver(broker, "paid"), tag="paid")
        for body in b"a", b"b", b"c":
            await broker.store("orders", [body], tags=["sent"])
        await broker.store("orders", [b"d"])
        assert served == []
        await broker.store("orders", [b"e"], tags=["paid"])
        (got,) = await one
        assert got.message.body == b"e"
        assert len(served) == 1
        # What woke nobody is passed over by the next call, and is no backlog.
        assert await Receiver(broker, "paid").receive(tag="paid") == []


async def test_a_waiting_call_gets_the_messages_that_a_reset_makes_new(running):
    async with running() as broker:
        await broker.create_topic("orders", 2)
        receiver = Receiver(broker)
        await broker.store("orders", [b"a"], 1)
        await receiver.ack(*await receiver.receive())
        waits = await waiting(receiver)
        await broker.offsets.ResetConsumerOffsets(
            offset_pb.ResetConsumerOffsetsRequest(
                consumer_group="billing", topic="orders", earliest=True
            )
        )
        async with asyncio.timeout(20):
            assert [each.message.body for each in await waits] == [b"a"]


async def test_a_waiting_call_gets_nothing_once_its_group_is_paused(running, refused):
    async with running() as broker:
        await broker.create_topic("orders")
        receiver = Receiver(broker)

        async def let_consume(*, enabled):
            change = group_pb.ConsumerGroupChange(consumer_group="billing", consume_enabled=enabled)
            request = group_pb.UpdateConsumerGroupRequest(group=change)
            await broker.groups.UpdateConsumerGroup(request)

        waits = await waiting(receiver)
        await let_consume(enabled=False)
        await broker.store("orders", [b"a"])
        assert (await refused(waits)).reason == "GROUP_PAUSED"
        await let_consume(enabled=True)
        (got,) = await receiver.receive()
        assert (got.message.body, got.message.position.attempts) == (b"a", 0)


async def test_a_call_for_all_messages_is_woken_by_all_beside_one_for_a_tag(running, served):
    async with running() as broker:
        await broker.create_topic("orders")
        receiver = Receiver(broker, "all")
        flag = group_pb.SUBSCRIPTION_CONFLICT_POLICY_FLAG
        await receiver.make_group(subscription_conflict_policy=flag)
        both = await waiting(receiver, client_id="two")
        tagged = await waiting(receiver, tag="paid", client_id="one")
        await broker.store("orders", [b"a"], tags=["sent"])
        (got,) = await both
        assert got.message.body == b"a"
        assert served
        await broker.store("orders", [b"b"], tags=["paid"])
        (got,) = await tagged
        assert got.message.body == b"b"
