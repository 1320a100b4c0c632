"""What becomes of messages: more time, again, dead letters; and no repeat without an end."""

import asyncio

import pytest

from apache.rocketmq.v2 import definition_pb2 as dp
from apache.rocketmq.v2 import service_pb2 as pb
from ariane_gateway.brokers.cluster import Cluster
from ariane_gateway.receiving.handles import decode_handle
from ariane_gateway.rpc import receiving_calls
from ariane_gateway.rpc.handed_message import hand
from ariane_sdk.errors import BodyDamaged
from ariane_wire import ChannelOptions, insecure_channel


def settling(make, topic, group, message, **fields):
    return make(
        group=dp.Resource(name=group),
        topic=dp.Resource(name=topic),
        receipt_handle=message.system_properties.receipt_handle,
        message_id=message.system_properties.message_id,
        **fields,
    )


async def change(client, topic, group, message, seconds):
    request = settling(pb.ChangeInvisibleDurationRequest, topic, group, message)
    request.invisible_duration.FromSeconds(seconds)
    return await client.call("ChangeInvisibleDuration", request)


async def forward(client, topic, group, message):
    request = settling(pb.ForwardMessageToDeadLetterQueueRequest, topic, group, message)
    return await client.call("ForwardMessageToDeadLetterQueue", request)


async def test_a_message_that_failed_comes_again_after_the_time_its_consumer_says(
    client, ariane_topic, ariane_clock, group
):
    await client.send(ariane_topic, b"again")
    _, (first,) = await client.receive(ariane_topic, group)
    changed = await change(client, ariane_topic, group, first, 600)
    assert changed.status.code == dp.OK
    assert changed.receipt_handle
    ariane_clock.advance(500)
    assert (await client.receive(ariane_topic, group))[1] == []
    ariane_clock.advance(101)
    _, (second,) = await client.receive(ariane_topic, group, hold_s=10)
    assert second.system_properties.delivery_attempt == 2
    # The handle of the first attempt is worth nothing now, and says so once and for all.
    late = await client.ack(ariane_topic, group, first)
    assert late.entries[0].status.code == dp.INVALID_RECEIPT_HANDLE
    assert (await change(client, ariane_topic, group, first, 10)).status.code == (
        dp.INVALID_RECEIPT_HANDLE
    )
    assert (await forward(client, ariane_topic, group, first)).status.code == dp.OK
    assert (await client.ack(ariane_topic, group, second)).status.code == dp.OK
    # Acknowledged before: that is as good.
    assert (await client.ack(ariane_topic, group, second)).status.code == dp.OK


async def test_of_messages_that_are_acknowledged_together_each_has_its_own_result(
    client, ariane_topic, ariane_clock, group
):
    for number in range(4):
        await client.send(ariane_topic, b"%d" % number, message_group="one queue")
    _, first = await client.receive(ariane_topic, group)
    assert len(first) == 4
    await change(client, ariane_topic, group, first[1], 1)
    ariane_clock.advance(2)
    _, (again,) = await client.receive(ariane_topic, group, hold_s=10)
    codes = [each.status.code for each in (await client.ack(ariane_topic, group, *first)).entries]
    assert codes == [dp.OK, dp.INVALID_RECEIPT_HANDLE, dp.OK, dp.OK]
    answer = await client.ack(ariane_topic, group, again, *first[2:])
    assert [each.status.code for each in answer.entries] == [dp.OK] * 3
    assert answer.status.code == dp.OK
    ariane_clock.advance(60)
    assert (await client.receive(ariane_topic, group))[1] == []


async def test_what_is_given_up_becomes_a_dead_letter_and_can_be_received(
    client, ariane_topic, ariane_clock, group
):
    await client.send(ariane_topic, b"poison", properties={"colour": "blue"})
    _, (message,) = await client.receive(ariane_topic, group)
    assert (await forward(client, ariane_topic, group, message)).status.code == dp.OK
    ariane_clock.advance(120)
    assert (await client.receive(ariane_topic, group))[1] == []
    dead_letters = f"%DLQ%{group}"
    _, (dead,) = await client.receive(dead_letters, f"{group}-dead", hold_s=5)
    assert (dead.body, dead.topic.name) == (b"poison", dead_letters)
    assert dict(dead.user_properties) == {"colour": "blue"}
    letter = dead.system_properties.dead_letter_queue
    assert letter.topic == ariane_topic
    assert letter.message_id


async def test_after_the_last_attempt_a_message_is_a_dead_letter(
    client, ariane_topic, ariane_clock, make_group
):
    group = await make_group(attempts_max=1)
    await client.send(ariane_topic, b"poison")
    for attempt in (1, 2):
        _, (message,) = await client.receive(ariane_topic, group, hold_s=10)
        assert message.system_properties.delivery_attempt == attempt
        await change(client, ariane_topic, group, message, 1)
        ariane_clock.advance(2)
    async with asyncio.timeout(30):
        # Until the first letter makes the topic.
        while (await client.queues(f"%DLQ%{group}")).status.code != dp.OK:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    _, (dead,) = await client.receive(f"%DLQ%{group}", f"{group}-dead", hold_s=10)
    assert dead.body == b"poison"


@pytest.mark.parametrize("handle", ["", "nonsense", "AQAAAAAAAAAAAWJ4", "a" * 5000])
async def test_a_handle_that_nobody_gave_is_invalid_for_good(client, ariane_topic, group, handle):
    await client.receive(ariane_topic, group)
    message = dp.Message(
        system_properties=dp.SystemProperties(message_id="1", receipt_handle=handle)
    )
    acked = await client.ack(ariane_topic, group, message)
    assert acked.status.code == dp.INVALID_RECEIPT_HANDLE
    changed = await change(client, ariane_topic, group, message, 1)
    assert changed.status.code == dp.INVALID_RECEIPT_HANDLE
    assert (await forward(client, ariane_topic, group, message)).status.code == dp.OK


async def test_the_handle_of_another_group_or_of_a_topic_that_is_gone_is_invalid(
    client, ariane_topic, group
):
    await client.send(ariane_topic)
    _, (message,) = await client.receive(ariane_topic, group)
    await client.receive(ariane_topic, f"{group}-other", count=1)
    for topic, of_group in ((ariane_topic, f"{group}-other"), ("nobody-knows-it", group)):
        acked = await client.ack(topic, of_group, message)
        assert acked.entries[0].status.code == dp.INVALID_RECEIPT_HANDLE
    assert (await client.ack(ariane_topic, group, message)).status.code == dp.OK


async def test_some_of_several_handles_are_invalid(client, ariane_topic, group):
    await client.send(ariane_topic)
    _, (message,) = await client.receive(ariane_topic, group)
    wrong = dp.Message()
    wrong.CopyFrom(message)
    wrong.system_properties.receipt_handle = "nonsense"
    acked = await client.ack(ariane_topic, group, message, wrong)
    assert acked.status.code == dp.MULTIPLE_RESULTS
    codes = [each.status.code for each in acked.entries]
    assert codes == [dp.OK, dp.INVALID_RECEIPT_HANDLE]


async def test_what_a_broker_that_is_away_has_handed_out_is_settled_by_a_repeat(
    client, ariane_topic, group, monkeypatch
):
    await client.send(ariane_topic)
    _, (message,) = await client.receive(ariane_topic, group)
    away = dp.Message()
    away.CopyFrom(message)
    handle = decode_handle(message.system_properties.receipt_handle)
    away.system_properties.receipt_handle = handle._replace(broker_name="away").encode()
    primary = Cluster.primary

    async def primary_or_nobody(cluster, broker_name, topic):
        return (
            "127.0.0.1:1" if broker_name == "away" else await primary(cluster, broker_name, topic)
        )

    monkeypatch.setattr(Cluster, "primary", primary_or_nobody)
    acked = await client.ack(ariane_topic, group, away, message, away)
    assert acked.status.code == dp.MULTIPLE_RESULTS
    codes = [each.status.code for each in acked.entries]
    assert codes == [dp.HA_NOT_AVAILABLE, dp.OK, dp.HA_NOT_AVAILABLE]
    changed = await change(client, ariane_topic, group, away, 9)
    # Clients take the handle of the answer, whatever its status.
    assert (changed.status.code, changed.receipt_handle) == (
        dp.HA_NOT_AVAILABLE,
        away.system_properties.receipt_handle,
    )
    forwarded = await forward(client, ariane_topic, group, away)
    assert forwarded.status.code == dp.HA_NOT_AVAILABLE


async def test_a_group_in_order_gets_messages_together_and_the_next_when_all_are_settled(
    client, make_ariane_topic, make_group
):
    topic = make_ariane_topic(queue_count=2, fifo=True)
    group = await make_group(receive_in_order=True, attempts_max=3)
    assignment = await client.call(
        "QueryAssignment",
        pb.QueryAssignmentRequest(topic=dp.Resource(name=topic), group=dp.Resource(name=group)),
    )
    assert [each.message_queue.id for each in assignment.assignments] == [0, 1]
    for number in range(3):
        await client.send(topic, b"%d" % number, dp.FIFO, message_group="order-7")
    await client.send(topic, b"other", dp.FIFO, message_group="order-8")
    _, messages = await client.receive(topic, group)
    bodies = [each.body for each in messages]
    assert sorted(bodies) == [b"0", b"1", b"2", b"other"]
    in_turn = [each for each in messages if each.body != b"other"]
    assert [each.body for each in in_turn] == [b"0", b"1", b"2"]
    await client.send(topic, b"3", dp.FIFO, message_group="order-7")
    for each in in_turn:
        assert (await client.receive(topic, group))[1] == []
        await client.ack(topic, group, each)
    await client.send(topic, b"4", dp.FIFO, message_group="order-7")
    # A push consumer gets one at a time.
    _, (last,) = await client.receive(topic, group, auto_renew=True)
    assert last.body == b"3"
    assert (await client.receive(topic, group, auto_renew=True))[1] == []


FILTERS = [
    (dp.TAG, "red || blue", {b"red", b"blue"}),
    (dp.TAG, "*", {b"red", b"blue", b"green"}),
    (dp.SQL, "price > 1 AND TAGS <> 'green'", {b"blue"}),
    (dp.SQL, "name IS NULL", {b"red", b"blue", b"green"}),
]


@pytest.mark.parametrize(("kind", "expression", "expected"), FILTERS)
async def test_a_consumer_gets_what_its_filter_lets_through(
    client, ariane_topic, group, kind, expression, expected
):
    for price, tag in enumerate(("red", "green", "blue")):
        await client.send(ariane_topic, tag.encode(), tag=tag, properties={"price": str(price)})
    wanted = dp.FilterExpression(type=kind, expression=expression)
    _, messages = await client.receive(ariane_topic, group, filter_expression=wanted)
    assert {each.body for each in messages} == expected


async def test_a_filter_that_is_none_is_refused(client, ariane_topic, group):
    wanted = dp.FilterExpression(type=dp.SQL, expression="price >")
    status, _ = await client.receive(ariane_topic, group, filter_expression=wanted)
    assert status.code == dp.ILLEGAL_FILTER_EXPRESSION


async def test_who_wants_other_messages_than_its_group_is_forbidden_to(client, ariane_topic, group):
    for tag, code in (("red", dp.MESSAGE_NOT_FOUND), ("blue", dp.FORBIDDEN)):
        wanted = dp.FilterExpression(type=dp.TAG, expression=tag)
        status, _ = await client.receive(ariane_topic, group, filter_expression=wanted)
        assert status.code == code, status


async def test_a_time_to_hide_a_message_is_0_to_12_hours(client, ariane_topic, group):
    await client.send(ariane_topic, b"a teapot")
    _, (message,) = await client.receive(ariane_topic, group)
    for seconds in (-1, 12 * 3600 + 1, 300_000_000_000):
        changed = await change(client, ariane_topic, group, message, seconds)
        assert changed.status.code == dp.ILLEGAL_INVISIBLE_TIME
    for seconds in (12 * 3600, 0):
        assert (await change(client, ariane_topic, group, message, seconds)).status.code == dp.OK
    _, (again,) = await client.receive(ariane_topic, group, hold_s=10)
    assert again.system_properties.delivery_attempt == 2


async def test_a_receive_is_held_until_a_message_comes(client, ariane_topic, group):
    receiving = asyncio.ensure_future(client.receive(ariane_topic, group, hold_s=20))
    await asyncio.sleep(0.05)
    await client.send(ariane_topic, b"late")
    _, (message,) = await receiving
    assert message.body == b"late"


async def test_names_and_times_that_cannot_be_are_refused(client, ariane_topic, group):
    for invisible_s in (0.5, 0, -1, 12 * 3600 + 1, 300_000_000_000):
        status, _ = await client.receive(ariane_topic, group, invisible_s=invisible_s)
        assert status.code == dp.ILLEGAL_INVISIBLE_TIME
    for count, code in (
        (0, dp.MESSAGE_NOT_FOUND),
        (1024, dp.MESSAGE_NOT_FOUND),
        (1025, dp.BAD_REQUEST),
        (-1, dp.BAD_REQUEST),
        (-(1 << 31), dp.BAD_REQUEST),
    ):
        assert (await client.receive(ariane_topic, group, count=count))[0].code == code
    assert (await client.receive(ariane_topic, "", broker="broker-a"))[0].code == (
        dp.ILLEGAL_CONSUMER_GROUP
    )
    assert (await client.receive(ariane_topic, "%RETRY%b"))[0].code == dp.ILLEGAL_CONSUMER_GROUP
    assert (await client.receive("nobody-knows-it", group, broker="broker-a"))[0].code == (
        dp.TOPIC_NOT_FOUND
    )
    status, _ = await client.receive(ariane_topic, group, broker="nobody")
    assert status.code == dp.TOPIC_NOT_FOUND


async def test_a_client_that_leaves_while_it_waits_gets_nothing(client, ariane_topic, group):
    waiting = asyncio.ensure_future(client.receive(ariane_topic, group, hold_s=20))
    await asyncio.sleep(0.1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await asyncio.sleep(0.1)
    await client.send(ariane_topic, b"for the living")
    _, (message,) = await client.receive(ariane_topic, group, hold_s=20)
    assert message.system_properties.delivery_attempt == 1


async def test_a_group_in_order_goes_on_behind_what_its_consumer_gave_up(
    client, make_ariane_topic, make_group
):
    topic = make_ariane_topic(queue_count=1, fifo=True)
    group = await make_group(receive_in_order=True, ordered_attempts_max=1)
    for number in range(2):
        await client.send(topic, b"%d" % number, dp.FIFO, message_group="order-7")
    for number in range(2):
        _, (message,) = await client.receive(topic, group, auto_renew=True, count=1)
        assert message.body == b"%d" % number
        assert (await forward(client, topic, group, message)).status.code == dp.OK
    _, dead = await client.receive(f"%DLQ%{group}", f"{group}-dead", hold_s=5)
    assert {each.body for each in dead} <= {b"0", b"1"}
    assert dead


async def test_what_a_client_did_not_take_is_there_for_others_at_once(
    start_gateway, connect, ariane_topic, group
):
    address, _ = await start_gateway()
    narrow = insecure_channel(address, ChannelOptions(stream_window_octets=1 << 16))
    client, other = connect(address, channel=narrow), connect(address)
    await client.send(ariane_topic, bytes(3 << 20))
    call = client.stub.ReceiveMessage(
        client.receive_request(
            ariane_topic, group, (await client.queues(ariane_topic)).message_queues[0].broker.name
        ),
        metadata=client.metadata,
    )
    assert (await call.read()).status.code == dp.OK
    call.cancel()  # It reads no further: the body is larger than what is sent ahead.
    _, (message,) = await other.receive(ariane_topic, group, hold_s=20)
    assert message.system_properties.delivery_attempt == 2


async def test_a_message_that_nobody_can_unpack_is_a_dead_letter_at_once(
    client, ariane_topic, group, monkeypatch
):
    def handing(delivery, wanted, now_ms, to):
        if delivery.message.body == b"damaged" and wanted.name == ariane_topic:
            raise BodyDamaged("it is no zlib")
        hand(delivery, wanted, now_ms, to)

    monkeypatch.setattr(receiving_calls, "hand", handing)
    beat = pb.HeartbeatRequest(group=dp.Resource(name=group), client_type=dp.PUSH_CONSUMER)
    await client.call("Heartbeat", beat)
    for body in (b"damaged", b"whole"):
        await client.send(ariane_topic, body, message_group="one queue")
    _, (message,) = await client.receive(ariane_topic, group, auto_renew=True)
    assert message.body == b"whole"
    async with asyncio.timeout(30):
        # Until the letter makes the topic.
        while (await client.queues(f"%DLQ%{group}")).status.code != dp.OK:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    _, (dead,) = await client.receive(f"%DLQ%{group}", f"{group}-dead", hold_s=10)
    assert dead.body == b"damaged"
