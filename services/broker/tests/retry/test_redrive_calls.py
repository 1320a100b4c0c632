"""Dead letters that are sent back through the wire: each once, whatever happens in between."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from ariane.broker.v1 import group_service_pb2 as group_pb
from ariane.broker.v1 import retry_service_pb2 as retry_pb
from ariane.broker.v1 import topic_service_pb2 as topic_pb
from ariane_record.decoding.columns import decode_columns
from ariane_storage.store import Store


async def messages_of(broker, topic, queue_id=0, group="billing"):
    found, queue_offset = [], 0
    while True:
        (pulled,) = await broker.pull((topic, queue_id, queue_offset), group=group)
        columns = decode_columns(pulled.records, np.frombuffer(pulled.record_sizes, "<i4"))
        if not len(columns):
            return found
        found += map(columns.message, range(len(columns)))
        queue_offset = pulled.next_queue_offset


async def dead_letters(broker, count, *, topic="orders", queue_id=1, group="billing", padding=b""):
    """Make so many dead letters of a queue."""
    wanted = group_pb.ConsumerGroup(consumer_group=group, consume_enabled=True, attempts_max=0)
    await broker.groups.CreateConsumerGroup(group_pb.CreateConsumerGroupRequest(group=wanted))
    await broker.create_topic(topic, queue_id + 1)
    bodies = [b"%d" % number + padding for number in range(count)]
    for begin in range(0, count, 20):
        part = bodies[begin : begin + 20]
        await broker.store(topic, part, queue_id, properties={"own": "kept"})
    for message in await messages_of(broker, topic, queue_id):
        answer = await broker.retries.ReturnMessage(
            retry_pb.ReturnMessageRequest(
                consumer_group=group,
                topic=topic,
                queue_id=queue_id,
                commit_log_offset=message.commit_log_offset,
                cause="no",
            )
        )
        assert answer.dead_letter


def redrive_call(broker, queue_offsets, *, group="billing", queue_id=0, **fields):
    fields.setdefault("target", retry_pb.REDRIVE_TARGET_ORIGIN)
    return broker.retries.RedriveDeadLetters(
        retry_pb.RedriveDeadLettersRequest(
            consumer_group=group, queue_id=queue_id, queue_offsets=queue_offsets, **fields
        )
    )


async def test_dead_letters_go_back_to_where_they_came_from_once(broker):
    await dead_letters(broker, 300)
    answer = await redrive_call(broker, [5, 7, 299, 7, 400])
    assert (answer.redriven_count, answer.duplicate_count) == (3, 0)
    assert [failure.queue_offset for failure in answer.failures] == [400]
    answer = await redrive_call(broker, range(300))
    assert (answer.redriven_count, answer.duplicate_count) == (297, 3)
    again = await redrive_call(broker, range(300))
    assert (again.redriven_count, again.duplicate_count) == (0, 300)
    messages = (await messages_of(broker, "orders", 1))[300:]
    assert sorted(int(message.body) for message in messages) == list(range(300))
    assert {message.attempts for message in messages} == {0}
    assert set(messages[0].properties) == {"UNIQ_KEY", "own", "REDRIVEN_FROM"}


async def test_letters_that_take_more_than_a_segment_go_back(running):
    async with running(segment_bytes=1 << 20, message_bytes_max=1 << 16) as broker:
        await dead_letters(broker, 60, padding=b" " * (30 << 10))
        answer = await redrive_call(broker, range(60))
        assert (answer.redriven_count, list(answer.failures)) == (60, [])
        messages = (await messages_of(broker, "orders", 1))[60:]
        assert [int(message.body) for message in messages] == list(range(60))


async def test_which_were_sent_back_is_told(broker, refused):
    await dead_letters(broker, 30)
    await redrive_call(broker, [5, 7, 29])

    def listed(begin, end, queue_id=0, group="billing"):
        return broker.retries.FindRedrivenDeadLetters(
            retry_pb.FindRedrivenDeadLettersRequest(
                consumer_group=group,
                queue_id=queue_id,
                begin_queue_offset=begin,
                end_queue_offset=end,
            )
        )

    assert (await listed(0, 30)).queue_offsets == [5, 7, 29]
    assert (await listed(6, 29)).queue_offsets == [7]
    assert (await listed(100, 200)).queue_offsets == []
    for begin, end in ((0, 0), (5, 4), (-1, 3), (0, 10_001)):
        assert (await refused(listed(begin, end))).reason == "FIELD_INVALID"
    assert (await refused(listed(0, 1, queue_id=9))).reason == "QUEUE_NOT_FOUND"
    assert (await refused(listed(0, 1, group="nobody"))).reason == "TOPIC_NOT_FOUND"


async def test_to_the_group_only(broker):
    await dead_letters(broker, 3)
    answer = await redrive_call(broker, [1], target=retry_pb.REDRIVE_TARGET_UNSPECIFIED)
    assert answer.redriven_count == 1
    assert len(await messages_of(broker, "orders", 1)) == 3
    (message,) = await messages_of(broker, "%RETRY%billing")
    assert (message.body, message.attempts) == (b"1", 0)
    assert message.properties["RETRY_TOPIC"] == "orders"
    assert message.properties["ORIGIN_QUEUE_OFFSET"] == "1"
    assert "DLQ_REASON" not in message.properties


async def test_at_once_from_many_sides(broker):
    await dead_letters(broker, 300)
    answers = await asyncio.gather(*(redrive_call(broker, range(300)) for _ in range(8)))
    assert sum(answer.redriven_count for answer in answers) == 300
    assert len(await messages_of(broker, "orders", 1)) == 600


@pytest.mark.parametrize("without_snapshot", [False, True])
async def test_a_killed_broker_sends_nothing_back_twice(
    running, copy_store, tmp_path, without_snapshot
):
    async with running() as broker:
        await dead_letters(broker, 200)
        await redrive_call(broker, range(0, 200, 2))
        copy_store()
    async with running():
        pass  # The clean one has its snapshot.
    store = tmp_path / ("copy" if without_snapshot else "store")
    async with running(store_path=store) as broker:
        answer = await redrive_call(broker, range(200))
        assert (answer.redriven_count, answer.duplicate_count) == (100, 100)
        assert len(await messages_of(broker, "orders", 1)) == 400


async def test_a_letter_that_cannot_be_read_does_not_stop_those_behind_it(broker, monkeypatch):
    await dead_letters(broker, 3)
    read_queue = Store.read_queue

    def stuck(store, topic, queue_id, queue_offset, **limits):
        """Reads end in front of the second letter, as they do if its bytes are unreadable."""
        if not topic.startswith("%DLQ%") or queue_offset > 1:
            return read_queue(store, topic, queue_id, queue_offset, **limits)
        if queue_offset == 0:
            return read_queue(store, topic, queue_id, 0, **limits | {"max_count": 1})
        nothing = read_queue(store, topic, queue_id, 3, **limits)
        return replace(nothing, next_queue_offset=1)

    monkeypatch.setattr(Store, "read_queue", stuck)
    async with asyncio.timeout(60):
        answer = await redrive_call(broker, range(3))
    assert answer.redriven_count == 2
    assert [(one.queue_offset, one.cause) for one in answer.failures] == [(1, "it is damaged")]


async def test_a_producer_does_not_say_what_was_sent_back(running, crashed):
    async with running() as broker:
        await dead_letters(broker, 2)
        forged = {"REDRIVEN_FROM": "%DLQ%billing/0/1"}
        await broker.store("orders", [b"forged"], properties=forged)
        await redrive_call(broker, [0])
        async with crashed() as survivor:
            answer = await redrive_call(survivor, [0, 1])
            assert (answer.redriven_count, answer.duplicate_count) == (1, 1)


async def test_a_topic_that_is_gone_keeps_its_dead_letters(broker, refused):
    await dead_letters(broker, 2)
    await broker.topics.DeleteTopic(topic_pb.DeleteTopicRequest(topic="orders"))
    answer = await redrive_call(broker, [0, 1])
    assert (answer.redriven_count, len(answer.failures)) == (0, 2)
    await broker.create_topic("orders", 1)
    assert (await redrive_call(broker, [0, 1])).redriven_count == 2
    assert len(await messages_of(broker, "orders", 0)) == 2
    for fields, reason in (
        ({"group": "others"}, "TOPIC_NOT_FOUND"),
        ({"queue_id": 1}, "QUEUE_NOT_FOUND"),
    ):
        assert (await refused(redrive_call(broker, [0], **fields))).reason == reason
    assert (await refused(redrive_call(broker, []))).reason == "FIELD_INVALID"


async def test_new_letters_of_a_group_of_the_same_name_go_back(running, tmp_path):
    async with running() as broker:
        await dead_letters(broker, 2)
        await redrive_call(broker, range(2))
        await broker.groups.DeleteConsumerGroup(
            group_pb.DeleteConsumerGroupRequest(consumer_group="billing")
        )
        await dead_letters(broker, 3, topic="bills")
    for path in (tmp_path / "store" / "config").glob("redrivenDeadLetters.json*"):
        path.unlink()
    async with running() as broker:
        answer = await redrive_call(broker, range(3))
        assert (answer.redriven_count, answer.duplicate_count) == (3, 0)
