"""Many failed messages of one queue taken back by one call."""

import asyncio

import numpy as np
import pytest
from google.protobuf.duration_pb2 import Duration

from ariane.broker.v1 import group_service_pb2 as group_pb
from ariane.broker.v1 import retry_service_pb2 as retry_pb
from ariane_record.decoding.columns import decode_columns
from ariane_record.names import dead_letter_topic, retry_topic
from ariane_record.single.message_id import encode_offset_message_id

GROUP, TOPIC = "billing", "orders"
RETRY, DEAD = retry_topic(GROUP), dead_letter_topic(GROUP)


@pytest.fixture
async def make_group(broker):
    async def make(*, attempts_max=16):
        policy = group_pb.RetryPolicy(
            table=group_pb.DelayTable(delays=[Duration(nanos=10_000_000)])
        )
        group = group_pb.ConsumerGroup(
            consumer_group=GROUP,
            consume_enabled=True,
            attempts_max=attempts_max,
            retry_policy=policy,
        )
        await broker.groups.CreateConsumerGroup(group_pb.CreateConsumerGroupRequest(group=group))

    return make


async def messages_of(broker, topic, queue_id=0):
    found, queue_offset = [], 0
    while True:
        (pulled,) = await broker.pull((topic, queue_id, queue_offset), group=GROUP)
        if pulled.HasField("error") or not pulled.record_sizes:
            return found
        columns = decode_columns(pulled.records, np.frombuffer(pulled.record_sizes, "<i4"))
        found += map(columns.message, range(len(columns)))
        queue_offset = pulled.next_queue_offset


async def arrived(broker, count, until):
    async def enough():
        found = await messages_of(broker, RETRY)
        return found if len(found) >= count else None

    return await until(enough)


async def take_back(broker, messages, **fields):
    request = retry_pb.ReturnMessagesRequest(
        **{
            "consumer_group": GROUP,
            "topic": messages[0].topic,
            "queue_id": messages[0].queue_id,
            "queue_offsets": [message.queue_offset for message in messages],
            "commit_log_offsets": [message.commit_log_offset for message in messages],
        }
        | fields
    )
    return list((await broker.retries.ReturnMessages(request)).messages)


@pytest.fixture
def until():
    async def until(ask):
        async with asyncio.timeout(60):
            while not (answer := await ask()):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
        return answer

    return until


async def test_each_message_of_a_batch_comes_again_as_it_was(broker, make_group, until):
    await make_group()
    await broker.create_topic(TOPIC)
    count = 700
    bodies = [b"%d" % each for each in range(count)]
    tags = ["even" if each % 2 == 0 else "odd" for each in range(count)]
    keys = [f"k{each}" for each in range(count)]
    for begin in range(0, count, 100):
        part = slice(begin, begin + 100)
        await broker.store(
            TOPIC, bodies[part], tags=tags[part], keys=keys[part], properties={"colour": "red"}
        )
    sent = await messages_of(broker, TOPIC)
    # Neither in their order nor all of them: some lie far apart.
    failed = sent[650:] + sent[:300]
    answers = await take_back(broker, failed, cause="no\x01way", return_id="r1")
    assert {(a.attempts, a.dead_letter, a.duplicate) for a in answers} == {(1, False, False)}
    copies = await arrived(broker, len(failed), until)
    assert len(copies) == len(failed)
    by_body = {copy.body: copy for copy in copies}
    for message in failed:
        copy = by_body[message.body]
        assert (copy.attempts, copy.tag, copy.keys) == (1, message.tag, message.keys)
        assert copy.born_timestamp_ms == message.born_timestamp_ms
        assert copy.born_host == message.born_host
        said = copy.properties
        assert said["colour"] == "red"
        assert said["RETRY_TOPIC"] == TOPIC
        assert said["ORIGIN_QUEUE_ID"] == "0"
        assert said["ORIGIN_QUEUE_OFFSET"] == str(message.queue_offset)
        assert said["RETURNED_OFFSET"] == str(message.commit_log_offset)
        assert said["LAST_ERROR"] == "no way"
        place = message.store_host, message.commit_log_offset
        assert said["ORIGIN_MESSAGE_ID"] == encode_offset_message_id(*place)
    # Once more: each is known.
    answers = await take_back(broker, failed, return_id="r1")
    assert all(a.duplicate for a in answers)
    assert len(await messages_of(broker, RETRY)) == len(failed)


async def test_each_of_a_batch_is_dead_after_its_own_tries(broker, make_group, until):
    await make_group(attempts_max=2)
    await broker.create_topic(TOPIC)
    await broker.store(TOPIC, [b"%d" % each for each in range(4)])
    sent = await messages_of(broker, TOPIC)
    await take_back(broker, sent[:2], local_attempts=1)
    await take_back(broker, sent[2:])
    copies = await arrived(broker, 4, until)
    answers = await take_back(broker, copies, cause="again")
    said = {
        copy.body: (answer.attempts, answer.dead_letter)
        for copy, answer in zip(copies, answers, strict=True)
    }
    assert said == {b"0": (3, True), b"1": (3, True), b"2": (2, False), b"3": (2, False)}
    letters = await messages_of(broker, DEAD)
    assert [letter.body for letter in letters] == [b"0", b"1"]
    for letter, message in zip(letters, sent[:2], strict=True):
        assert letter.attempts == 3
        said = letter.properties
        assert (said["DLQ_REASON"], said["DLQ_ORIGIN_TOPIC"]) == ("ATTEMPTS_EXHAUSTED", TOPIC)
        place = message.store_host, message.commit_log_offset
        assert said["DLQ_ORIGIN_MESSAGE_ID"] == encode_offset_message_id(*place)
        assert said["ORIGIN_QUEUE_OFFSET"] == str(message.queue_offset)


async def test_what_is_not_there_does_not_keep_the_rest(broker, make_group, until):
    await make_group()
    await broker.create_topic(TOPIC)
    await broker.store(TOPIC, [b"a", b"b", b"c"])
    sent = await messages_of(broker, TOPIC)
    answers = await take_back(
        broker,
        sent,
        queue_offsets=[0, 1, 2, 3, -1],
        commit_log_offsets=[sent[0].commit_log_offset, 1, sent[2].commit_log_offset, 7, 7],
    )
    assert [answer.HasField("error") for answer in answers] == [False, True, False, True, True]
    copies = await arrived(broker, 2, until)
    assert {copy.body for copy in copies} == {b"a", b"c"}


async def test_one_without_room_for_its_cause_comes_again_without_it(broker, make_group, until):
    await make_group()
    await broker.create_topic(TOPIC)
    for body, properties in ((b"a", {}), (b"tight", {"p": "x" * 31_600}), (b"b", {})):
        await broker.store(TOPIC, [body], properties=properties)
    sent = await messages_of(broker, TOPIC)
    answers = await take_back(broker, sent, cause="y" * 1024)
    assert not any(answer.HasField("error") for answer in answers)
    copies = {copy.body: copy for copy in await arrived(broker, 3, until)}
    assert "LAST_ERROR" not in copies[b"tight"].properties
    for body in (b"a", b"b"):
        assert copies[body].properties["LAST_ERROR"] == "y" * 1024


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"queue_offsets": [], "commit_log_offsets": []}, "queue_offsets"),
        ({"queue_offsets": [0], "commit_log_offsets": []}, "commit_log_offsets"),
        (
            {"queue_offsets": range(4097), "commit_log_offsets": range(4097)},
            "queue_offsets",
        ),
        ({"attempts_max": -1}, "attempts_max"),
        ({"return_id": "x" * 65}, "return_id"),
    ],
)
async def test_nonsense_is_refused(broker, make_group, refused, fields, field):
    await make_group()
    await broker.create_topic(TOPIC)
    await broker.store(TOPIC, [b"a"])
    sent = await messages_of(broker, TOPIC)
    failure = await refused(take_back(broker, sent, **fields))
    assert failure.reason == "FIELD_INVALID"
    assert field in str(failure.metadata)
