"""Receiving over gRPC: handing out, settling, what comes again, and what is refused."""

import asyncio

import pytest

from ariane.broker.v1 import group_service_pb2 as group_pb
from ariane.broker.v1 import offset_service_pb2 as offset_pb
from ariane.broker.v1 import send_service_pb2 as send_pb
from ariane.common.v1 import message_pb2 as message_pb
from ariane_broker.receive.handing_out import hand_outs, look_ahead
from services.broker.tests.receive.receive_calls import (
    Receiver,
    attempts,
    bodies,
    held,
    packed_bodies,
    settlement,
)


async def test_messages_are_received_and_acknowledged_by_hand(broker):
    await broker.create_topic("orders", 2)
    await broker.store("orders", [b"a", b"b", b"c"], 0)
    await broker.store("orders", [b"d"], 1)
    one, other = Receiver(broker), Receiver(broker)
    first = await one.receive()
    assert sorted(bodies(first)) == ["a", "b", "c", "d"]
    assert attempts(first) == [0, 0, 0, 0]
    assert await other.receive() == []
    assert await one.ack(*first) == [True] * 4
    assert await one.standing() == [(3, 0, 0, 0, 0), (1, 0, 0, 0, 0)]
    assert await broker.known_offset("billing", "orders") == 3


async def test_messages_that_are_not_settled_in_time_come_again_to_any_member(clock, broker):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a", b"b", b"c"])
    one, other = Receiver(broker), Receiver(broker)
    first = await one.receive(invisible_s=30)
    assert await one.ack(first[1]) == [True]
    clock.advance(29)
    assert await other.receive() == []
    clock.advance(2)
    again = await other.receive()
    assert (bodies(again), attempts(again)) == (["a", "c"], [1, 1])
    assert await one.ack(*first) == [False, True, False]
    assert await other.ack(*again) == [True, True]
    assert await one.ack(*first) == [True] * 3


async def test_a_receipt_is_good_until_somebody_else_has_the_message(clock, broker):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a"])
    one = Receiver(broker)
    (late,) = await one.receive(invisible_s=5)
    clock.advance(60)
    assert await one.ack(late) == [True]
    assert await one.receive() == []


async def test_invisibility_is_extended_and_given_up(clock, broker):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a"])
    one, other = Receiver(broker), Receiver(broker)
    (first,) = await one.receive(invisible_s=10)
    changed = await one.hide(first, 100)
    clock.advance(90)
    assert await other.receive() == []
    first.receipt_handle = changed.receipt_handle
    await one.hide(first, 0)
    (second,) = await other.receive()
    assert attempts([second]) == [1]


async def test_a_failed_message_comes_again_after_its_delay(clock, broker):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a", b"b"])
    one = Receiver(broker)
    first = await one.receive()
    results = await one.nack(first[0], delay_s=20)
    assert not results[0].HasField("error")
    assert await one.standing() == [(0, 2, 1, 1, 0)]
    assert await one.ack(*first) == [False, True]
    assert await one.receive() == []
    clock.advance(21)
    (again,) = await one.receive()
    assert (bodies([again]), attempts([again])) == (["a"], [1])
    await one.nack(again)
    # The policy's second wait: 30 s.
    clock.advance(29)
    assert await one.receive() == []
    clock.advance(2)
    assert attempts(await one.receive()) == [2]


async def test_received_in_order_a_message_is_given_up_only_where_the_group_says_so(broker):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a"])
    one = Receiver(broker)
    await one.make_group(attempts_max=1, receive_in_order=True)
    for _ in range(4):
        (again,) = await one.receive(invisible_s=10)
        assert [r.dead_letter for r in await one.nack(again, delay_s=0)] == [False]
    change = group_pb.ConsumerGroupChange(consumer_group=one.group, ordered_attempts_max=4)
    await broker.groups.UpdateConsumerGroup(group_pb.UpdateConsumerGroupRequest(group=change))
    (again,) = await one.receive(invisible_s=10)
    assert [r.dead_letter for r in await one.nack(again, delay_s=0)] == [True]
    assert await broker.bodies("%DLQ%billing") == [b"a"]


async def test_a_cause_of_several_lines_or_any_length_is_kept_as_one_line(broker):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a"])
    one = Receiver(broker)
    await one.make_group()
    (received,) = await one.receive()
    cause = "first line\n\tsecond\x1b[31m " + "x" * 2000
    assert [r.dead_letter for r in await one.nack(received, dead_letter=True, cause=cause)] == [
        True
    ]
    (letter,) = await Receiver(broker, "undertakers").receive("%DLQ%billing")
    assert letter.message.origin.last_error == ("first line  second [31m " + "x" * 2000)[:1024]


async def test_a_message_without_attempts_left_becomes_a_dead_letter(clock, broker):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a", b"b", b"c"])
    one = Receiver(broker)
    await one.make_group(attempts_max=1)
    received = await one.receive(invisible_s=10)
    assert [r.dead_letter for r in await one.nack(received[0], delay_s=0)] == [False]
    (again,) = await one.receive(invisible_s=10)
    assert [r.dead_letter for r in await one.nack(again, cause="broken")] == [True]
    assert [r.dead_letter for r in await one.nack(received[1], dead_letter=True)] == [True]
    assert await broker.bodies("%DLQ%billing") == [b"a", b"b"]
    # Nobody settles the third: its consumers die.
    clock.advance(11)
    assert bodies(await one.receive(invisible_s=10)) == ["c"]
    clock.advance(11)
    await one.comes_to_stand([(3, 0, 0, 0, 0)])
    assert await broker.bodies("%DLQ%billing") == [b"a", b"b", b"c"]
    assert await one.receive() == []
    letters = await Receiver(broker, "undertakers").receive("%DLQ%billing")
    origins = [letter.message.origin for letter in letters]
    assert [(each.topic, each.attempts) for each in origins] == [
        ("orders", 2),
        ("orders", 1),
        ("orders", 2),
    ]
    assert [(each.dead_letter_reason, each.last_error) for each in origins] == [
        ("ATTEMPTS_EXHAUSTED", "broken"),
        ("REJECTED", ""),
        ("ATTEMPTS_EXHAUSTED", ""),
    ]


async def test_a_client_waits_until_something_comes(clock, broker):
    await broker.create_topic("orders")
    one, other = Receiver(broker), Receiver(broker)
    waiting = asyncio.create_task(one.receive(hold_s=30, invisible_s=10))
    await held(broker, 1)
    behind = asyncio.create_task(other.receive(hold_s=30))
    await held(broker, 2)
    await broker.store("orders", [b"a"])
    first = await waiting
    assert bodies(first) == ["a"]
    assert not behind.done()
    # Its time is over: the one that waits gets it.
    clock.advance(11)
    assert attempts(await behind) == [1]


async def test_the_call_that_has_waited_longest_is_served_first(broker):
    await broker.create_topic("orders")
    line = [Receiver(broker) for _ in range(4)]
    waiting = []
    for receiver in line:
        waiting.append(asyncio.create_task(receiver.receive(hold_s=30, message_count_max=2)))
        await held(broker, len(waiting))
    await broker.store("orders", [b"%d" % n for n in range(7)])
    got = [bodies(received) for received in await asyncio.gather(*waiting)]
    assert got == [["0", "1"], ["2", "3"], ["4", "5"], ["6"]]


async def test_the_client_that_has_gone_keeps_nothing(clock, broker):
    await broker.create_topic("orders")
    one, other = Receiver(broker), Receiver(broker)
    waiting = asyncio.create_task(one.receive(hold_s=30))
    await held(broker, 1)
    waiting.cancel()
    await asyncio.wait([waiting])
    await held(broker, 0)
    await broker.store("orders", [b"a"])
    assert bodies(await other.receive(hold_s=30)) == ["a"]


async def test_only_wanted_messages_are_handed_out(broker):
    await broker.create_topic("orders")
    await broker.create_topic("bills")
    await broker.store("orders", [b"a", b"b", b"c"], tags=["x", "y", "x"])
    await broker.store("bills", [b"d", b"e"], tags=["y", "x"])
    one = Receiver(broker)
    received = await one.receive("orders", "bills", tag="x")
    assert sorted(bodies(received)) == ["a", "c", "e"]
    assert all(await one.ack(*received))
    assert await one.standing() == [(3, 0, 0, 0, 0)]
    assert await one.receive("orders", "bills", tag="x") == []


async def test_messages_of_a_higher_priority_come_first(broker):
    await broker.create_topic("orders")
    for number, priority in enumerate((0, 2_000_000_000, None, -1, 2_000_000_000)):
        message = message_pb.Message(body=b"%d" % number)
        if priority is not None:
            message.priority = priority
        await broker.sends.SendMessages(
            send_pb.SendMessagesRequest(topic="orders", queue_id=0, messages=[message])
        )
    one = Receiver(broker)
    received = [
        body
        for _ in range(5)
        for body in bodies(await one.receive(message_count_max=1, by_priority=True))
    ]
    assert received == ["1", "4", "0", "2", "3"]


async def test_lags_know_what_is_settled_behind_the_offset_and_what_is_in_hand(broker):
    await broker.create_topic("orders")
    await broker.store("orders", [b"%d" % n for n in range(8)])
    one = Receiver(broker)
    received = await one.receive(message_count_max=5)
    await one.ack(*received[1:4])
    await one.nack(received[4], delay_s=60)
    request = offset_pb.ListConsumerLagsRequest(consumer_group="billing", topic="orders")
    (lag,) = (await broker.offsets.ListConsumerLags(request)).lags
    assert (lag.consumer_offset, lag.max_queue_offset, lag.message_count) == (0, 8, 5)
    assert (lag.in_flight_count, lag.delayed_count) == (1, 1)
    assert lag.HasField("oldest_store_time")


async def test_filtered_messages_are_no_lag(broker):
    await broker.create_topic("orders")
    await broker.store("orders", [b"0"], tags=["a"])
    one = Receiver(broker)
    assert all(await one.ack(*await one.receive(tag="a")))
    await broker.store("orders", [b"1"], tags=["b"])
    assert await one.receive(tag="a") == []
    request = offset_pb.ListConsumerLagsRequest(consumer_group="billing", topic="orders")
    (lag,) = (await broker.offsets.ListConsumerLags(request)).lags
    assert (lag.consumer_offset, lag.max_queue_offset, lag.message_count) == (1, 2, 0)
    assert not lag.HasField("oldest_store_time")


async def test_packed_records_are_settled_by_ranges(clock, broker):
    await broker.create_topic("orders")
    await broker.store("orders", [b"%d" % n for n in range(10)])
    one = Receiver(broker)
    (queue,) = await one.receive_packed(message_count_max=100, invisible_s=10)
    assert packed_bodies([queue]) == [str(n) for n in range(10)]
    done, back = await one.settle(
        settlement(queue, (0, 3), (5, 2)),
        settlement(queue, (3, 1), nack={"delay": {"seconds": 0}}),
    )
    assert (done.settled_count, back.settled_count) == (5, 1)
    assert await one.standing() == [(3, 5, 4, 0, 1)]
    (again,) = await one.receive_packed(invisible_s=10)
    assert packed_bodies([again]) == ["3"]
    (stale,) = await one.settle(settlement(queue, (3, 1)))
    assert stale.HasField("error")
    clock.advance(11)
    (rest,) = await one.receive_packed(invisible_s=10)
    assert packed_bodies([rest]) == ["3", "4", "7", "8", "9"]
    (done,) = await one.settle(settlement(rest))
    assert done.settled_count == 5
    assert await one.standing() == [(10, 0, 0, 0, 0)]


async def test_receipts_of_others_are_refused(broker, refused, reason_of):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a"])
    one, other = Receiver(broker), Receiver(broker, "spies")
    await other.make_group()
    (received,) = await one.receive()
    assert await other.ack(received) == [False]
    forged = type(received)(receipt_handle=received.receipt_handle[:-2] + "A=")
    assert await one.ack(forged) == [False]
    forged.receipt_handle = "no handle at all"
    failure = await refused(one.hide(forged, 5))
    assert (failure.reason, failure.code) == ("RECEIPT_HANDLE_INVALID", "INVALID_ARGUMENT")
    assert await one.ack(received) == [True]
    failure = await refused(one.hide(received, 5))
    assert (failure.reason, failure.code) == ("RECEIPT_HANDLE_EXPIRED", "FAILED_PRECONDITION")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"message_count_max": 1025}, "order.message_count_max"),
        ({"message_count_max": -1}, "order.message_count_max"),
        ({"size_bytes_max": -1}, "order.size_bytes_max"),
        ({"invisible_s": 0}, "order.invisible_duration"),
        ({"invisible_s": 0.5}, "order.invisible_duration"),
        ({"invisible_s": 13 * 3600}, "order.invisible_duration"),
        ({"hold_s": 31}, "order.hold_duration"),
    ],
)
async def test_orders_out_of_range_are_refused(broker, refused, fields, field):
    await broker.create_topic("orders")
    failure = await refused(Receiver(broker).receive(**fields))
    assert (failure.reason, failure.metadata["field"]) == ("FIELD_INVALID", field)


async def test_a_refused_receive_has_the_reason(broker, refused):
    await broker.create_topic("orders")
    one = Receiver(broker)
    assert (await refused(one.receive("none"))).reason == "TOPIC_NOT_FOUND"
    assert (await refused(one.receive("orders", "orders"))).reason == "FIELD_INVALID"
    assert (await refused(one.ack())).reason == "FIELD_INVALID"
    assert (await refused(one.receive(sql="a >"))).reason == "FILTER_EXPRESSION_INVALID"
    assert (await refused(one.receive("RMQ_SYS_ARIANE_RECEIVE_TOPIC"))).reason == "TOPIC_RESERVED"


@pytest.mark.parametrize("fields", [{}, {"by_priority": True}])
async def test_a_group_has_so_many_in_hand_and_no_more(broker, monkeypatch, fields):
    for part in (hand_outs, look_ahead):
        monkeypatch.setattr(part, "UNSETTLED_MAX", 8)
    await broker.create_topic("orders")
    await broker.store("orders", [b"%d" % n for n in range(20)])
    one = Receiver(broker)
    got = [*await one.receive(message_count_max=5, **fields)]
    for _ in range(3):
        got += await one.receive(message_count_max=5, **fields)
    assert len(got) == 8
    assert all(await one.ack(*got[:4]))
    assert len(await one.receive(**fields)) == 4
