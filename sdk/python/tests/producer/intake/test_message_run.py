"""``send_batch`` of many plain messages: encoded in one go, and as good as one by one."""

import asyncio
import copy
import gc
import operator
import pickle
from dataclasses import asdict
from datetime import timedelta

import grpc
import pytest

from ariane_record.encoding.message_properties import TAG_KEPT_LENGTH_MAX
from ariane_sdk import Message, Producer, ProducerSettings, errors
from ariane_sdk.producer.intake.whole_rows import COUNT_MIN, MessageRun

COUNT = 3 * COUNT_MIN
SMALL_BATCHES = ProducerSettings(batch_bytes_max=8_000, send_timeout_s=60)


def plain(count=COUNT, **fields):
    return [Message("orders", b"%d" % number * (number % 40), **fields) for number in range(count)]


def by_id(broker):
    return {message.unique_id: message for message in broker.messages}


@pytest.mark.parametrize("tag", ["", "created"])
async def test_every_message_has_its_result(world, tag):
    messages = plain(tag=tag)
    async with Producer(world.name_servers, settings=SMALL_BATCHES) as producer:
        results = await producer.send_batch(messages)

    stored = by_id(world.brokers["broker-a"])
    assert len(stored) == len(results) == COUNT
    for message, result in zip(messages, results, strict=True):
        found = stored[result.unique_id]
        assert (found.body, found.tag) == (message.body, tag)
        queue = world.brokers["broker-a"].queues["orders", result.message_queue.queue_id]
        assert queue[result.queue_offset].unique_id == result.unique_id


async def test_numbers_of_idempotent_batches_go_on(world):
    broker = world.brokers["broker-a"]
    async with Producer(world.name_servers, settings=SMALL_BATCHES) as producer:
        await producer.send_batch(plain())
        await producer.send(Message("orders", b"one"))
    streams = {}
    for call in broker.calls:
        for batch in call.rows:
            expected = streams.get(batch.queue_id, 0)
            assert batch.sequence.first_sequence == expected
            streams[batch.queue_id] = expected + len(batch.key_counts)


async def test_a_lost_answer_is_asked_for_again(world):
    world.brokers["broker-a"].script.append(grpc.StatusCode.UNAVAILABLE)
    async with Producer(world.name_servers) as producer:
        results = await producer.send_batch(plain())
    assert len(by_id(world.brokers["broker-a"])) == len(results) == COUNT


async def test_messages_that_wait_for_an_answer_are_freed(world):
    def alive():
        objects = gc.get_objects()
        return sum(type(each) is Message and each.tag == "let go" for each in objects)

    answer = asyncio.Event()
    world.brokers["broker-a"].script.append(answer)
    patient = ProducerSettings(call_timeout_s=60, send_timeout_s=60)
    async with Producer(world.name_servers, settings=patient) as producer:
        kept = plain(tag="let go")
        assert alive() == COUNT
        sending = asyncio.create_task(producer.send_batch(kept))
        del kept
        await world.brokers["broker-a"].wait_called(1)
        assert alive() == 0
        answer.set()
        assert len(await sending) == COUNT


async def test_each_refused_message_has_its_error(two_brokers, make_status):
    refused = make_status(grpc.StatusCode.INVALID_ARGUMENT, "BLOCK_CORRUPTED")
    two_brokers.brokers["broker-a"].script.extend([[refused]] * 100)
    settings = ProducerSettings(
        batch_bytes_max=8_000, request_bytes_max=8_000, send_timeout_s=60, idempotent=False
    )
    messages = plain(600)
    async with Producer(two_brokers.name_servers, settings=settings) as producer:
        with pytest.raises(errors.BatchSendError) as caught:
            await producer.send_batch(messages)
    outcomes = caught.value.outcomes
    assert len(outcomes) == len(messages)
    stored = by_id(two_brokers.brokers["broker-b"])
    good = [outcome for outcome in outcomes if not isinstance(outcome, errors.ArianeError)]
    assert 0 < len(good) == len(stored) < len(messages)
    for message, outcome in zip(messages, outcomes, strict=True):
        if not isinstance(outcome, errors.ArianeError):
            assert stored[outcome.unique_id].body == message.body


async def test_a_topic_without_a_route_is_told_for_each(world):
    settings = ProducerSettings(send_timeout_s=0.2)
    async with Producer(world.name_servers, settings=settings) as producer:
        with pytest.raises(errors.BatchSendError) as caught:
            await producer.send_batch([Message("nowhere", b"x")] * COUNT)
    assert len(caught.value.outcomes) == COUNT


@pytest.mark.parametrize(
    "other",
    [
        Message("orders", bytearray(b"x")),
        Message("bills", b"x"),
        Message("orders", b"x", tag="other"),
        Message("orders", b"x", keys=("k",)),
        Message("orders", b"x", properties={"a": "b"}),
        Message("orders", b"x", message_group="g"),
        Message("orders", b"x", flag=1),
        Message("orders", b"x", delay_level=1),
        Message("orders", b"x", delay=timedelta(0)),
        Message("orders", b"x" * 201),
        Message("orders", "text"),
    ],
)
def test_one_that_is_not_plain_makes_all_go_one_by_one(other):
    assert MessageRun.of(plain(), body_bytes_max=200) is not None
    assert MessageRun.of([*plain(), other], body_bytes_max=200) is None


def test_a_few_go_one_by_one():
    assert MessageRun.of(plain(COUNT_MIN - 1), body_bytes_max=200) is None


async def test_an_illegal_tag_is_told_for_each(world):
    async with Producer(world.name_servers) as producer:
        with pytest.raises(errors.BatchSendError) as caught:
            await producer.send_batch(plain(tag="a || b"))
    kinds = {type(outcome) for outcome in caught.value.outcomes}
    assert kinds == {errors.MessageIllegal}
    assert len(caught.value.outcomes) == COUNT


async def test_messages_with_a_long_tag_are_stored_all_the_same(world):
    tag = "x" * (TAG_KEPT_LENGTH_MAX + 1)
    async with Producer(world.name_servers) as producer:
        results = await producer.send_batch(plain(tag=tag))
    stored = by_id(world.brokers["broker-a"])
    assert len(results) == len(stored) == COUNT
    assert {message.tag for message in stored.values()} == {tag}


def test_messages_without_properties_have_the_same_ones_for_good():
    message, other = Message("orders", b"x"), Message("orders", b"x")
    assert message.properties == {} == asdict(message)["properties"]
    again = pickle.loads(pickle.dumps(message))  # noqa: S301 - our own.
    assert message == other == copy.deepcopy(message) == again
    # Readable where there are no such messages: by older clients, for one.
    assert type(again.properties) is type(copy.deepcopy(message).properties) is dict
    for change in (
        lambda pairs: operator.setitem(pairs, "a", "b"),
        lambda pairs: pairs.update(a="b"),
        lambda pairs: pairs.setdefault("a", "b"),
        lambda pairs: operator.ior(pairs, {"a": "b"}),
    ):
        with pytest.raises(TypeError, match="when it is made"):
            change(message.properties)
    assert other.properties == {}
