"""Small batches of one call travel as a table, whatever their messages are; each is answered."""

import asyncio

import grpc
import pytest

from ariane_sdk import Message, Producer, ProducerSettings, errors

TOPICS = [f"topic-{number}" for number in range(20)]
SETTINGS = ProducerSettings(
    call_timeout_s=60.0, send_timeout_s=120.0, repeat_delay_s_min=0.01, repeat_delay_s_max=0.01
)


async def sent(producer, broker, bodies):
    """Send a message of a group to each topic, all in one call; the outcomes."""
    gate = asyncio.Event()
    broker.script.appendleft(gate)
    first = producer.send_nowait(Message("topic-0", b"first"))
    await broker.wait_called(1)
    futures = [
        producer.send_nowait(Message(topic, body, message_group=topic, keys=("k",)))
        for topic, body in zip(TOPICS, bodies, strict=True)
    ]
    gate.set()
    await first
    return await asyncio.gather(*futures, return_exceptions=True)


@pytest.fixture
async def broker(many):
    return many.brokers["broker-a"]


@pytest.fixture
async def producer(many):
    async with Producer(many.name_servers, settings=SETTINGS) as producer:
        for topic in TOPICS:
            await producer.route(topic)
        yield producer


async def test_many_small_batches_are_a_table(producer, broker):
    bodies = [b"%d" % number for number in range(20)]
    outcomes = await sent(producer, broker, bodies)
    assert broker.table_count >= 1
    for topic, body, outcome in zip(TOPICS, bodies, outcomes, strict=True):
        queue = broker.queues[topic, outcome.message_queue.queue_id]
        assert queue[outcome.queue_offset].body == body
        assert queue[outcome.queue_offset].properties["KEYS"] == "k"


async def test_of_a_table_with_one_that_is_refused_the_others_are_stored(
    producer, broker, make_status
):
    refused = make_status(grpc.StatusCode.PERMISSION_DENIED, "ACCESS_DENIED")
    broker.script.append([refused, *[None] * 19])
    outcomes = await sent(producer, broker, [b"x"] * 20)
    failed = [outcome for outcome in outcomes if isinstance(outcome, errors.SendError)]
    assert [error.reason for error in failed] == ["ACCESS_DENIED"]
    assert len(broker.messages) == 1 + 19


async def test_large_batches_travel_as_they_are(producer, broker):
    await sent(producer, broker, [b"x" * 40_000] * 20)
    assert broker.table_count == 0
