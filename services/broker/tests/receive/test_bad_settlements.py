"""Settlements that nobody should send: the same twice, ranges without measure, receipts of old."""

import base64

import pytest

from ariane.broker.v1 import pull_service_pb2 as pull_pb
from ariane.broker.v1 import topic_service_pb2 as topic_pb
from ariane_broker.receive.in_hand.receive_log import ReceiveLog
from services.broker.tests.receive.receive_calls import Receiver, settlement

INT64_MAX = (1 << 63) - 1


async def test_a_handle_that_is_named_twice_becomes_one_dead_letter(broker):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a", b"b"])
    one = Receiver(broker)
    first, second = await one.receive()
    results = await one.nack(second, second, first, second, dead_letter=True)
    assert [result.dead_letter for result in results] == [True, True, True, True]
    assert sorted(await broker.bodies("%DLQ%billing")) == [b"a", b"b"]
    assert await one.standing() == [(2, 0, 0, 0, 0)]


async def test_a_handle_that_is_named_twice_is_done_once(broker):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a"])
    one = Receiver(broker)
    (first,) = await one.receive()
    assert await one.ack(first, first) == [True, True]
    assert await one.standing() == [(1, 0, 0, 0, 0)]


async def test_thousands_of_handles_are_settled_at_once(broker):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a"] * 1024)
    one = Receiver(broker)
    received = await one.receive(message_count_max=1024)
    assert len(received) == 1024
    assert await one.ack(*received * 4) == [True] * 4096


async def test_too_many_handles_are_refused(broker, refused):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a"])
    one = Receiver(broker)
    received = await one.receive()
    failure = await refused(one.ack(*received * 4097))
    assert (failure.reason, failure.metadata["field"]) == ("FIELD_INVALID", "receipt_handles")


@pytest.mark.parametrize(
    "ranges",
    [
        [(INT64_MAX, INT64_MAX)],
        [(1, INT64_MAX), (2, INT64_MAX)],
        [(0, INT64_MAX)],
    ],
)
@pytest.mark.parametrize("outcome", [{}, {"nack": {"delay": {"seconds": 0}}}])
async def test_ranges_without_measure_settle_what_there_is_and_say_so(broker, ranges, outcome):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a", b"b", b"c"])
    one = Receiver(broker)
    (queue,) = await one.receive_packed()
    (result,) = await one.settle(settlement(queue, *ranges, **outcome))
    assert result.HasField("error")
    assert result.settled_count == len({n for first, _ in ranges for n in range(first, 3)})


@pytest.mark.parametrize("outcome", [{}, {"nack": {"delay": {"seconds": 9}}}])
async def test_ranges_that_overlap_settle_each_message_once(broker, outcome):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a", b"b", b"c"])
    one = Receiver(broker)
    (queue,) = await one.receive_packed()
    (result,) = await one.settle(settlement(queue, (0, 2), (1, 2), (0, 1), **outcome))
    assert not result.HasField("error")
    assert result.settled_count == 3


@pytest.mark.parametrize("seconds", [-1, 13 * 3600, 315_576_000_000])
async def test_durations_without_measure_are_refused(broker, refused, seconds):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a"])
    one = Receiver(broker)
    (first,) = await one.receive()
    failure = await refused(one.hide(first, seconds))
    assert (failure.reason, failure.metadata["field"]) == ("FIELD_INVALID", "invisible_duration")
    failure = await refused(one.nack(first, delay_s=seconds))
    assert (failure.reason, failure.metadata["field"]) == ("FIELD_INVALID", "nack.delay")
    assert await one.ack(first) == [True]


async def test_a_receipt_of_one_message_is_none_of_packed_records_nor_the_other_way(
    broker, reason_of
):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a", b"b", b"c"])
    one = Receiver(broker)
    first, *_ = await one.receive(message_count_max=2)
    (queue,) = await one.receive_packed()

    as_packed = type(queue)(receipt=base64.urlsafe_b64decode(first.receipt_handle))
    (result,) = await one.settle(settlement(as_packed))
    assert (reason_of(result.error), result.settled_count) == ("RECEIPT_HANDLE_INVALID", 0)
    assert await one.keep("c", receipts=[as_packed.receipt]) == [False]
    as_plain = type(first)(receipt_handle=base64.urlsafe_b64encode(queue.receipt).decode())
    assert await one.ack(as_plain) == [False]
    assert await one.standing() == [(0, 3, 3, 0, 0)]


@pytest.mark.parametrize("client_id", ["c" * 256, "c\x1b[2J"])
async def test_a_client_has_a_name_that_can_be_shown(broker, refused, client_id):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a"])
    one = Receiver(broker)
    failure = await refused(one.receive(client_id=client_id))
    assert (failure.reason, failure.metadata["field"]) == ("FIELD_INVALID", "order.client_id")
    (received,) = await one.receive()
    failure = await refused(one.keep(client_id, received))
    assert (failure.reason, failure.metadata["field"]) == ("FIELD_INVALID", "client_id")
    pull = pull_pb.PullMessagesRequest(
        consumer_group="g",
        client_id=client_id,
        positions=[pull_pb.PullPosition(topic="orders", queue_id=0)],
    )
    failure = await refused(broker.pulls.PullMessages(pull))
    assert (failure.reason, failure.metadata["field"]) == ("FIELD_INVALID", "client_id")


async def test_counts_of_unknown_groups_and_topics_are_refused(broker, refused):
    await broker.create_topic("orders")
    one = Receiver(broker)
    assert (await refused(one.standing())).reason == "GROUP_NOT_FOUND"
    await one.make_group()
    assert await one.standing() == []
    assert (await refused(one.standing("none"))).reason == "TOPIC_NOT_FOUND"


async def test_a_receipt_from_before_the_topic_was_made_anew_settles_nothing(broker):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a"])
    one = Receiver(broker)
    (old,) = await one.receive()
    await broker.topics.DeleteTopic(topic_pb.DeleteTopicRequest(topic="orders"))
    await broker.create_topic("orders")
    await broker.store("orders", [b"b"])
    (new,) = await one.receive()
    assert await one.ack(old) == [False]
    assert await one.standing() == [(0, 1, 1, 0, 0)]
    assert await one.ack(new) == [True]


async def test_the_messages_of_an_answer_are_settled_by_one_change(broker, monkeypatch):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a"] * 32)
    one = Receiver(broker)
    received = await one.receive(message_count_max=32)
    changes, write = [], ReceiveLog.write

    def noting(log, events):
        changes.extend(events)
        write(log, events)

    monkeypatch.setattr(ReceiveLog, "write", noting)
    assert await one.ack(*received) == [True] * 32
    assert len(changes) == 1


async def test_of_the_messages_of_an_answer_those_are_refused_that_another_has(broker):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a", b"b", b"c", b"d"])
    one = Receiver(broker)
    received = await one.receive()
    await one.hide(received[1], 0)
    (others,) = await Receiver(broker).receive()
    assert others.message.body == b"b"
    assert await one.ack(*received[:3]) == [True, False, True]
    results = await one.nack(*received, dead_letter=True)
    assert [result.HasField("error") for result in results] == [True, True, True, False]
    assert [result.dead_letter for result in results] == [False, False, False, True]
    assert await one.ack(others) == [True]
