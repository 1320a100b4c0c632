"""Finding messages by id, unique id, key and time, and how far a group is behind."""

import asyncio
import itertools
from datetime import UTC, datetime, timedelta

import pytest

from ariane_sdk import ClusterClient, Message, Producer, PullConsumer, QueueReader, errors
from ariane_sdk.sync import QueueReader as BlockingReader

_numbers = itertools.count()


@pytest.fixture
async def topic(cluster):
    name = f"found-{next(_numbers)}"
    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic(name, queue_count=2)
    return name


@pytest.fixture
async def producer(cluster):
    async with Producer(cluster.name_servers) as running:
        yield running


@pytest.fixture
async def reader(cluster):
    async with QueueReader(cluster.name_servers) as running:
        yield running


async def test_a_message_is_found_by_either_id(topic, producer, reader):
    message = Message(
        topic,
        b"body",
        tag="created",
        keys=("o-1", "o-2"),
        message_group="c-7",
        properties={"a": "b"},
        flag=-9,
    )
    sent = await producer.send(message)

    for found in (
        await reader.find_message(sent.message_id),
        await reader.find_message(sent.message_id, topic=topic),
        await reader.find_message(sent.unique_id, topic=topic),
    ):
        assert (found.topic, found.body, found.tag, found.flag) == (topic, b"body", "created", -9)
        assert (found.keys, found.message_group) == (("o-1", "o-2"), "c-7")
        assert found.properties["a"] == "b"
        assert (found.unique_id, found.offset_message_id) == (sent.unique_id, sent.message_id)
        assert (found.message_queue, found.queue_offset) == (sent.message_queue, sent.queue_offset)
        assert found.commit_log_offset == sent.commit_log_offset
        assert found.store_timestamp_ms == sent.store_timestamp_ms
        assert found.born_time <= found.store_time + timedelta(seconds=1)
        assert found.born_host[0] == "127.0.0.1"


async def test_a_missing_message_is_not_found(topic, producer, reader):
    sent = await producer.send(Message(topic, b"x"))
    for message_id, where in [("0" * 32, ""), ("nonsense", topic), (sent.message_id, "elsewhere")]:
        with pytest.raises((errors.MessageNotFound, errors.RouteNotFound)):
            await reader.find_message(message_id, topic=where)
    assert [m async for m in reader.query_messages(topic, key="none")] == []
    with pytest.raises(errors.IllegalArgument):
        await anext(reader.query_messages(topic))
    with pytest.raises(errors.IllegalArgument):
        await anext(reader.query_messages(topic, key="a", unique_id="b"))
    with pytest.raises(errors.IllegalArgument):
        await anext(reader.query_messages(topic, key="a", begin=datetime(2024, 1, 1)))  # noqa: DTZ001 - that is the mistake.


async def test_a_key_is_found_page_by_page_newest_first(topic, producer, reader):
    for burst in range(2):
        # More than a page in one millisecond.
        await producer.send_batch(
            [Message(topic, str(burst * 100 + n).encode(), keys=("k",)) for n in range(100)]
        )
        await asyncio.sleep(0.002)
    await producer.send(Message(topic, b"other", keys=("l",)))

    found = [message async for message in reader.query_messages(topic, key="k")]

    assert sorted(int(message.body) for message in found) == list(range(200))
    times = [message.store_timestamp_ms for message in found]
    assert times == sorted(times, reverse=True)
    # Those of one burst may have one store time, or several.
    middle = min(message.store_time for message in found if int(message.body) >= 100)
    newer = [m async for m in reader.query_messages(topic, key="k", begin=middle)]
    older = [m async for m in reader.query_messages(topic, key="k", end=middle)]
    assert sorted(int(message.body) for message in newer) == list(range(100, 200))
    assert sorted(int(message.body) for message in older) == list(range(100))
    async for message in reader.query_messages(topic, key="k"):
        assert message.store_timestamp_ms == times[0]
        break


async def test_a_time_is_read_queue_by_queue(topic, producer, reader):
    await producer.send_batch([Message(topic, b"before") for _ in range(20)])
    await asyncio.sleep(0.01)
    begin = datetime.now(UTC)
    for _ in range(4):
        await producer.send_batch([Message(topic, b"within") for _ in range(10)])
    await asyncio.sleep(0.01)
    end = datetime.now(UTC)
    await asyncio.sleep(0.01)
    await producer.send_batch([Message(topic, b"after") for _ in range(20)])

    within = [message async for message in reader.messages_between(topic, begin, end)]
    since = [message async for message in reader.messages_between(topic, begin)]

    assert [message.body for message in within] == [b"within"] * 40
    assert len(since) == 60
    places = [(message.message_queue, message.queue_offset) for message in within]
    assert places == sorted(places)


async def test_without_a_loop(cluster, topic, producer):
    sent = await producer.send(Message(topic, b"x", keys=("k",)))

    def ask():
        with BlockingReader(cluster.name_servers) as reader:
            since = sent.store_timestamp_ms / 1000 - 1
            return [
                reader.find_message(sent.message_id),
                *reader.query_messages(topic, key="k"),
                *reader.messages_between(topic, datetime.fromtimestamp(since, UTC)),
            ]

    found = await asyncio.to_thread(ask)

    assert [message.unique_id for message in found] == [sent.unique_id] * 3


async def test_lag_is_right_at_every_step(cluster, topic, producer):
    async def lag():
        lags = await client.consumer_lag("behind", topic)
        oldest = [one.oldest_store_time for one in lags if one.oldest_store_time]
        return sum(one.message_count for one in lags), min(oldest, default=None)

    async with ClusterClient(cluster.name_servers) as client:
        async with PullConsumer(
            cluster.name_servers,
            group="behind",
            subscriptions={topic: "*"},
            start="earliest",
            auto_commit=False,
        ) as consumer:
            await consumer.wait_assigned()
            assert await lag() == (0, None)
            sent = await producer.send_batch([Message(topic, b"x") for _ in range(30)])
            first_ms = min(result.store_timestamp_ms for result in sent)
            count, oldest = await lag()
            assert (count, oldest.timestamp() * 1000) == (30, pytest.approx(first_ms))
            got = 0
            while got < 30:
                got += len(await consumer.poll(7))
                # In hand is not done.
                before, _ = await lag()
                await consumer.commit(durable=False)
                assert await lag() == (30 - got, (await lag())[1])
                assert before > 30 - got
            assert await lag() == (0, None)
            await producer.send(Message(topic, b"x"))
            assert (await lag())[0] == 1
        assert (await lag())[0] == 1
