"""Limits of the client and of a real broker: the largest message passes both, the next neither."""

import pytest

from ariane_sdk import (
    ClusterClient,
    Message,
    MessageQueue,
    Producer,
    ProducerSettings,
    QueueReader,
    errors,
)

LARGEST = 4 << 20


@pytest.fixture
async def topic(cluster):
    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic("large", exists_ok=True)
    return "large"


async def test_the_largest_message_passes(cluster, topic):
    body = bytes(range(256)) * (LARGEST // 256)
    async with Producer(cluster.name_servers) as producer:
        sent = await producer.send(Message(topic, body, properties={"a": "x" * 30_000}))
    async with QueueReader(cluster.name_servers) as reader:
        first = sent.queue_offset
        chunks = [c async for c in reader.read_range(sent.message_queue, first, first + 1)]

    assert [columns.bodies() for columns in chunks] == [[body]]


async def test_one_byte_more_is_refused_here(cluster, topic):
    async with Producer(cluster.name_servers) as producer:
        with pytest.raises(errors.MessageTooLarge) as caught:
            await producer.send(Message(topic, bytes(LARGEST + 1)))

    assert caught.value.metadata == {
        "size_bytes": str(LARGEST + 1),
        "limit_bytes": str(LARGEST),
    }


async def test_and_by_the_broker(cluster, topic):
    settings = ProducerSettings(body_bytes_max=LARGEST + 1)
    queue = MessageQueue(topic, "broker-a", 0)
    async with Producer(cluster.name_servers, settings=settings) as producer:
        before = await producer.send(Message(topic, b"x"), message_queue=queue)
        with pytest.raises(errors.SendError) as caught:
            await producer.send(Message(topic, bytes(LARGEST + 1)), message_queue=queue)
        after = await producer.send(Message(topic, b"x"), message_queue=queue)

    assert caught.value.reason == "MESSAGE_TOO_LARGE"
    assert not caught.value.outcome_unknown
    assert after.queue_offset == before.queue_offset + 1


async def test_many_large_messages_at_once(cluster, topic):
    async with Producer(cluster.name_servers) as producer:
        results = await producer.send_batch([Message(topic, bytes(1 << 20)) for _ in range(30)])

    assert len({(result.message_queue, result.queue_offset) for result in results}) == 30


async def test_many_small_messages_with_many_keys(cluster, topic):
    keys = tuple(str(number) for number in range(254))
    async with Producer(cluster.name_servers) as producer:
        results = await producer.send_batch([Message(topic, b"", keys=keys)] * 6000)

    assert len(results) == 6000
