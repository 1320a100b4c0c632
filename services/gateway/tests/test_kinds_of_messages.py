"""Message groups, delivery times, priorities, transactions, packed and damaged bodies."""

import gzip
import hashlib
import time
import zlib

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from apache.rocketmq.v2 import definition_pb2 as dp
from apache.rocketmq.v2 import service_pb2 as pb
from ariane_sdk import Message, Producer
from ariane_sdk.message import RelayedMessage


def in_seconds(number, now_ms=None):
    """A time from now, by the machine's clock or another one."""
    moment = Timestamp()
    moment.FromMilliseconds(
        (time.time_ns() // 1_000_000 if now_ms is None else now_ms) + number * 1000
    )
    return moment


async def test_a_message_group_stays_in_one_queue_whichever_client_sends(
    client, ariane_name_servers, make_ariane_topic, group
):
    topic = make_ariane_topic(queue_count=4, fifo=True)
    async with Producer(ariane_name_servers) as producer:
        for number in range(4):
            body = b"%d" % number
            if number % 2:
                # The queue that a client chooses by its own hash does not matter.
                await client.send(topic, body, dp.FIFO, message_group="order-7", queue_id=number)
            else:
                await producer.send(Message(topic, body, message_group="order-7"))
    _, messages = await client.receive(topic, group)
    assert [each.body for each in messages] == [b"0", b"1", b"2", b"3"]
    assert len({each.system_properties.queue_id for each in messages}) == 1
    assert {each.system_properties.message_type for each in messages} == {dp.FIFO}
    assert {each.system_properties.message_group for each in messages} == {"order-7"}


async def test_what_rocketmq_wrote_into_a_message_is_no_property_of_its_client(
    client, ariane_name_servers, ariane_topic, group
):
    wrote = {"__BORNHOST": "10.0.0.7", "BORN_TIMESTAMP": "1", "POP_CK": "3 1", "CLUSTER": "c"}
    async with Producer(ariane_name_servers) as producer:
        message = RelayedMessage(ariane_topic, b"old", properties={"colour": "blue", **wrote})
        await producer.send(message)
    _, (came,) = await client.receive(ariane_topic, group)
    assert dict(came.user_properties) == {"colour": "blue"}
    assert came.system_properties.born_host == "10.0.0.7"


async def test_a_delivery_time_that_no_client_could_read_keeps_nothing_back(
    client, ariane_name_servers, make_ariane_topic, group
):
    topic = make_ariane_topic(queue_count=1)
    async with Producer(ariane_name_servers) as producer:
        for due_ms in ("9" * 20, "9" * 5000, "1"):
            stored = RelayedMessage(topic, b"old", properties={"TIMER_DELIVER_MS": due_ms})
            await producer.send(stored)
    _, came = await client.receive(topic, group)
    told = [each.system_properties.HasField("delivery_timestamp") for each in came]
    assert told == [False, False, True]


async def test_a_delayed_message_comes_at_its_time_or_is_recalled(
    client, ariane_topic, ariane_clock, group
):
    # Other tests may have moved the broker's clock.
    due = in_seconds(600, ariane_clock.now_ms())
    kept = await client.send(ariane_topic, b"kept", dp.DELAY, delivery_timestamp=due)
    taken = await client.send(ariane_topic, b"taken", dp.DELAY, delivery_timestamp=due)
    recall = pb.RecallMessageRequest(
        topic=dp.Resource(name=ariane_topic), recall_handle=taken.recall_handle
    )
    recalled = await client.call("RecallMessage", recall)
    assert (recalled.status.code, recalled.message_id) == (dp.OK, taken.message_id)
    assert (await client.receive(ariane_topic, group))[1] == []
    ariane_clock.advance(601)
    _, (message,) = await client.receive(ariane_topic, group, hold_s=10)
    assert (message.body, message.system_properties.message_id) == (b"kept", kept.message_id)
    assert message.system_properties.message_type == dp.DELAY
    assert message.system_properties.HasField("delivery_timestamp")
    odd = pb.RecallMessageRequest(
        topic=dp.Resource(name="another"), recall_handle=kept.recall_handle
    )
    assert (await client.call("RecallMessage", odd)).status.code == dp.BAD_REQUEST
    odd = pb.RecallMessageRequest(topic=dp.Resource(name=ariane_topic), recall_handle="nonsense")
    assert (await client.call("RecallMessage", odd)).status.code == dp.BAD_REQUEST
    late = pb.RecallMessageRequest(
        topic=dp.Resource(name=ariane_topic), recall_handle=kept.recall_handle
    )
    assert (await client.call("RecallMessage", late)).status.code == dp.MESSAGE_NOT_FOUND


async def test_a_higher_priority_comes_first(client, make_ariane_topic, group):
    topic = make_ariane_topic(queue_count=1)
    for priority in (1, 3, 0, 2):
        await client.send(topic, b"%d" % priority, dp.PRIORITY, priority=priority)
    received = []
    for _ in range(4):
        _, (message,) = await client.receive(topic, group, count=1)
        received.append(message.system_properties.priority)
        assert message.system_properties.message_type == dp.PRIORITY
    assert received == [3, 2, 1, 0]


def ending(topic, sent, resolution):
    return pb.EndTransactionRequest(
        topic=dp.Resource(name=topic),
        message_id=sent.message_id,
        transaction_id=sent.transaction_id,
        resolution=resolution,
        source=dp.SOURCE_CLIENT,
    )


async def test_a_half_message_is_seen_once_it_is_committed(client, ariane_topic, group):
    committed = await client.send(ariane_topic, b"committed", dp.TRANSACTION)
    rolled_back = await client.send(ariane_topic, b"rolled back", dp.TRANSACTION)
    assert (await client.receive(ariane_topic, group))[1] == []
    for _ in range(2):  # A repeat changes nothing.
        for sent, resolution in ((committed, dp.COMMIT), (rolled_back, dp.ROLLBACK)):
            ended = await client.call("EndTransaction", ending(ariane_topic, sent, resolution))
            assert ended.status.code == dp.OK, ended
    _, (message,) = await client.receive(ariane_topic, group, hold_s=5)
    assert (message.body, message.system_properties.message_id) == (
        b"committed",
        committed.message_id,
    )
    assert message.system_properties.message_type == dp.TRANSACTION
    otherwise = await client.call("EndTransaction", ending(ariane_topic, committed, dp.ROLLBACK))
    assert otherwise.status.code == dp.INVALID_TRANSACTION_ID
    committed.transaction_id = "nobody"
    nobodys = await client.call("EndTransaction", ending(ariane_topic, committed, dp.COMMIT))
    assert nobodys.status.code == dp.INVALID_TRANSACTION_ID


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
async def test_a_packed_body_is_handed_out_unpacked(client, ariane_topic, group, pack):
    message = client.message(ariane_topic, pack(b"a teapot" * 100))
    message.system_properties.body_encoding = dp.GZIP
    assert (await client.send_messages(message)).status.code == dp.OK
    _, (message,) = await client.receive(ariane_topic, group)
    assert (message.body, message.system_properties.body_encoding) == (
        b"a teapot" * 100,
        dp.IDENTITY,
    )


LAST_TIME = Timestamp(seconds=253_402_300_799)
FIRST_TIME = Timestamp(seconds=-62_135_596_800)

BROKEN = [
    (dp.MESSAGE_BODY_EMPTY, b"", {}),
    (dp.MESSAGE_BODY_TOO_LARGE, bytes((4 << 20) + 1), {}),
    (dp.ILLEGAL_MESSAGE_TAG, b"a", {"tag": "a|b"}),
    (dp.ILLEGAL_MESSAGE_TAG, b"a", {"tag": " "}),
    (dp.ILLEGAL_MESSAGE_KEY, b"a", {"keys": [" "]}),
    (dp.ILLEGAL_MESSAGE_KEY, b"a", {"keys": list(map(str, range(255)))}),
    (dp.ILLEGAL_MESSAGE_GROUP, b"a", {"kind": dp.FIFO}),
    (dp.ILLEGAL_MESSAGE_GROUP, b"a", {"kind": dp.FIFO, "message_group": "g" * 65}),
    (dp.ILLEGAL_MESSAGE_GROUP, b"a", {"kind": dp.FIFO, "message_group": " "}),
    (dp.ILLEGAL_MESSAGE_GROUP, b"a", {"kind": dp.FIFO, "message_group": "a\n"}),
    (dp.ILLEGAL_DELIVERY_TIME, b"a", {"kind": dp.DELAY}),
    (dp.ILLEGAL_DELIVERY_TIME, b"a", {"kind": dp.DELAY, "delivery_timestamp": Timestamp(nanos=-5)}),
    (
        dp.ILLEGAL_DELIVERY_TIME,
        b"a",
        {"kind": dp.DELAY, "delivery_timestamp": Timestamp(seconds=1 << 62)},
    ),
    (dp.ILLEGAL_DELIVERY_TIME, b"a", {"kind": dp.DELAY, "delivery_timestamp": LAST_TIME}),
    (dp.NOT_IMPLEMENTED, b"a", {"kind": dp.LITE, "lite_topic": "lite"}),
    (dp.ILLEGAL_MESSAGE_PROPERTY_KEY, b"a", {"properties": {"TRAN_MSG": "true"}}),
    (dp.ILLEGAL_MESSAGE_PROPERTY_KEY, b"a", {"properties": {"POP_CK": "1"}}),
    (dp.ILLEGAL_MESSAGE_PROPERTY_KEY, b"a", {"properties": {"a": "b\x01"}}),
    (dp.ILLEGAL_MESSAGE_PROPERTY_KEY, b"a", {"properties": {"a": ""}}),
    (dp.ILLEGAL_MESSAGE_PROPERTY_KEY, b"a", {"properties": {"": "b"}}),
    (dp.ILLEGAL_MESSAGE_PROPERTY_KEY, b"a", {"properties": {"KEYS": "b"}}),
    (dp.ILLEGAL_MESSAGE_PROPERTY_KEY, b"a", {"properties": {"LAST_ERROR": "b"}}),
    (dp.MESSAGE_PROPERTIES_TOO_LARGE, b"a", {"properties": {"a": "b" * (16 << 10)}}),
    (dp.MESSAGE_PROPERTIES_TOO_LARGE, b"a", {"properties": {"a": "\u20ac" * 12_000}}),
    (dp.MESSAGE_PROPERTIES_TOO_LARGE, b"a", {"keys": ["k" * 40_000]}),
    (
        dp.MESSAGE_PROPERTIES_TOO_LARGE,
        b"a",
        {"kind": dp.TRANSACTION, "trace_context": "t" * 40_000},
    ),
    (dp.MESSAGE_CORRUPTED, b"a", {"body_digest": dp.Digest(type=dp.MD5, checksum="00")}),
    (dp.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, b"a", {"delivery_timestamp": in_seconds(9)}),
    (
        dp.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
        b"a",
        {"kind": dp.TRANSACTION, "delivery_timestamp": in_seconds(9)},
    ),
    (
        dp.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
        b"a",
        {"kind": dp.DELAY, "delivery_timestamp": in_seconds(9), "message_group": "g"},
    ),
]


@pytest.mark.parametrize(("code", "body", "options"), BROKEN)
async def test_a_message_that_breaks_a_rule_is_refused_by_its_code(
    client, ariane_topic, code, body, options
):
    sent = await client.send_messages(client.message(ariane_topic, body, **options))
    assert (sent.status.code, sent.entries[0].status.code) == (code, code)
    assert sent.status.message


async def test_words_of_any_script_arrive_and_what_was_due_long_ago_comes_at_once(
    client, ariane_topic, group
):
    words = {"tag": "größe", "keys": ["ключ"], "message_group": "заказ 7"}
    properties = {"a b 😀": "голубой"}
    await client.send(ariane_topic, b"words", dp.FIFO, properties, **words)
    await client.send(ariane_topic, b"due", dp.DELAY, delivery_timestamp=FIRST_TIME)
    await client.send(ariane_topic, b"low", dp.PRIORITY, priority=-5)
    came = {}
    while len(came) < 3:
        _, messages = await client.receive(ariane_topic, group, hold_s=10)
        came |= {each.body: each for each in messages}
    system = came[b"words"].system_properties
    assert dict(came[b"words"].user_properties) == properties
    assert (system.tag, list(system.keys), system.message_group) == tuple(words.values())
    assert came[b"low"].system_properties.priority == -5


async def test_digests_are_compared_whatever_their_letters_and_zeros(client, ariane_topic):
    body = b"digest-23"  # Its CRC-32 begins with a zero.
    crc = zlib.crc32(body)
    sha = hashlib.sha1(body, usedforsecurity=False).hexdigest()
    for kind, checksum in ((dp.CRC32, f"{crc:X}"), (dp.CRC32, f"{crc:08x}"), (dp.SHA1, sha)):
        digest = dp.Digest(type=kind, checksum=checksum)
        await client.send(ariane_topic, body, body_digest=digest)


async def test_a_topic_of_another_type_refuses_the_message(client, make_ariane_topic):
    topic = make_ariane_topic(fifo=True)
    sent = await client.send_messages(client.message(topic))
    assert sent.status.code == dp.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
    route = await client.queues(topic)
    assert list(route.message_queues[0].accept_message_types) == [dp.FIFO]


async def test_a_route_names_no_type_that_an_older_client_stumbles_over(client, ariane_topic):
    told = {}
    for language, version in (("JAVA", "5.0.8"), ("JAVA", "5.2.0"), ("GO", "5.0.1"), ("JAVA", "")):
        client.metadata = [
            ("x-mq-client-id", client.client_id),
            ("x-mq-language", language),
            ("x-mq-client-version", version),
        ]
        route = await client.queues(ariane_topic)
        told[language, version] = dp.PRIORITY in route.message_queues[0].accept_message_types
    knows = {("JAVA", "5.2.0"), ("GO", "5.0.1"), ("JAVA", "")}
    assert told == {each: each in knows for each in told}


async def test_a_tag_that_no_subscription_could_name_is_refused_as_a_tag(client, ariane_topic):
    for kind in (dp.NORMAL, dp.TRANSACTION):
        for tag in (" a", "a|b", "a\n"):
            sent = await client.send_messages(client.message(ariane_topic, b"m", kind, tag=tag))
            assert sent.status.code == dp.ILLEGAL_MESSAGE_TAG, (kind, tag, sent)


async def test_some_of_several_messages_are_refused(client, ariane_topic):
    good, bad = client.message(ariane_topic), client.message(ariane_topic, b"")
    sent = await client.send_messages(good, bad)
    assert sent.status.code == dp.MULTIPLE_RESULTS
    assert [each.status.code for each in sent.entries] == [dp.OK, dp.MESSAGE_BODY_EMPTY]
    missing = await client.send_messages(client.message("nobody-knows-it"))
    assert missing.status.code == dp.TOPIC_NOT_FOUND


async def test_an_empty_tag_is_none_and_an_empty_place_among_tags_names_none(
    client, ariane_topic, group
):
    """As by RocketMQ's proxy: the client in Go sends what its application sets, also nothing.

    An example of the client in Node sends ``*``.
    """
    await client.send(ariane_topic, b"plain", tag="", keys=["", "k"])
    await client.send(ariane_topic, b"star", tag="*")
    await client.send(ariane_topic, b"tagged", tag="a")
    tagged = dp.FilterExpression(type=dp.TAG, expression="|| a || ")
    status, (message,) = await client.receive(ariane_topic, group, filter_expression=tagged)
    assert (status.code, message.body) == (dp.OK, b"tagged")
    _, messages = await client.receive(ariane_topic, f"{group}-all")
    said = {each.body: each.system_properties for each in messages}
    assert (said[b"plain"].HasField("tag"), list(said[b"plain"].keys)) == (False, ["k"])
    assert not said[b"star"].HasField("tag")
    none = dp.FilterExpression(type=dp.TAG, expression="||")
    status, _ = await client.receive(ariane_topic, group, filter_expression=none)
    assert status.code == dp.ILLEGAL_FILTER_EXPRESSION
