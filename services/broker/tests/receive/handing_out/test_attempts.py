"""Attempts to receive that come again, because their answer was lost."""

import asyncio
from types import SimpleNamespace

import pytest

from ariane.broker.v1 import group_service_pb2 as group_pb
from ariane.broker.v1 import send_service_pb2 as send_pb
from ariane.common.v1 import message_pb2 as message_pb
from ariane_broker.queue_key import QueueKey
from ariane_broker.receive.handing_out import attempts as attempts_module
from services.broker.tests.receive.receive_calls import Receiver, attempts, bodies


async def test_a_repeated_attempt_gets_at_once_what_its_lost_answer_had(broker):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a", b"b", b"c"])
    one, other = Receiver(broker), Receiver(broker)
    lost = await one.receive(attempt_id="first", message_count_max=2)
    assert bodies(lost) == ["a", "b"]
    assert await one.ack(lost[0]) == [True]  # So one message of the answer had come through.
    assert bodies(await other.receive(attempt_id="second")) == ["c"]
    again = await one.receive(attempt_id="first")
    assert (bodies(again), attempts(again)) == (["b"], [1])
    assert await one.ack(lost[1]) == [False]
    assert await one.ack(*again) == [True]
    assert await one.receive(attempt_id="first") == []


async def test_an_ordered_group_goes_on_with_the_message_that_was_lost(broker):
    await broker.create_topic("orders")
    await broker.groups.CreateConsumerGroup(
        group_pb.CreateConsumerGroupRequest(
            group=group_pb.ConsumerGroup(
                consumer_group="billing", consume_enabled=True, receive_in_order=True
            )
        )
    )
    for body in (b"a", b"b"):
        message = message_pb.Message(body=body, message_group="order-7")
        await broker.sends.SendMessages(
            send_pb.SendMessagesRequest(topic="orders", messages=[message])
        )
    one = Receiver(broker)
    assert bodies(await one.receive(attempt_id="first")) == ["a"]
    assert await one.receive(attempt_id="second") == []
    (again,) = await one.receive(attempt_id="first")
    assert bodies([again]) == ["a"]
    assert await one.ack(again) == [True]
    assert bodies(await one.receive(attempt_id="third")) == ["b"]


async def test_attempts_of_other_groups_and_old_ones_mean_nothing(broker, monkeypatch):
    monkeypatch.setattr(attempts_module, "ATTEMPTS_MAX", 2)
    await broker.create_topic("orders")
    await broker.store("orders", [b"a"])
    one, other = Receiver(broker), Receiver(broker, "audit")
    assert bodies(await one.receive(attempt_id="first")) == ["a"]
    assert bodies(await other.receive(attempt_id="first")) == ["a"]
    assert bodies(await other.receive(attempt_id="first")) == ["a"]
    for number in range(2):
        await one.receive(attempt_id=f"later-{number}")
    assert await one.receive(attempt_id="first") == []


async def test_an_attempt_that_waits_is_known_once_it_is_served(broker):
    await broker.create_topic("orders")
    one = Receiver(broker)
    waiting = asyncio.ensure_future(one.receive(attempt_id="first", hold_s=20))
    await asyncio.sleep(0.05)
    await broker.store("orders", [b"a"])
    assert bodies(await waiting) == ["a"]
    assert bodies(await one.receive(attempt_id="first")) == ["a"]


@pytest.mark.parametrize("attempt_id", ["x" * 256, "a\nb"])
async def test_an_attempt_has_a_decent_name(broker, refused, attempt_id):
    await broker.create_topic("orders")
    refusal = await refused(Receiver(broker).receive(attempt_id=attempt_id))
    assert refusal.metadata["field"] == "order.attempt_id"


def test_what_attempts_were_given_is_remembered_in_bounded_memory(monkeypatch):
    monkeypatch.setattr(attempts_module, "ANSWERS_MAX", 100)
    known = attempts_module.Attempts(log=None)

    def note(attempt, queue_count):
        queues = (QueueKey("orders", number) for number in range(queue_count))
        known.note("g", attempt, [SimpleNamespace(queue=queue, serial=1) for queue in queues])

    for number in range(1000):
        note(f"a-{number}", 30)
    assert list(known._answers) == [("g", f"a-{number}") for number in (997, 998, 999)]
    # One that comes again counts once, and one with more than there may be is not remembered.
    note("a-999", 40)
    assert known._count == sum(map(len, known._answers.values())) == 100
    note("wide", 101)
    assert (known._count, known._answers) == (0, {})
