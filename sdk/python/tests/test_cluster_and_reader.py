import asyncio
import itertools
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from ariane_sdk import (
    ClusterClient,
    Message,
    MessageQueue,
    Producer,
    PushConsumer,
    QueueReader,
    TimeBoundary,
    errors,
)

_numbers = itertools.count()


@pytest.fixture
async def client(cluster):
    async with ClusterClient(cluster.name_servers) as running:
        yield running


@pytest.fixture
async def reader(cluster):
    async with QueueReader(cluster.name_servers) as running:
        yield running


@pytest.fixture
async def producer(cluster):
    async with Producer(cluster.name_servers) as running:
        yield running


@pytest.fixture
async def topic(client):
    name = f"read-{next(_numbers)}"
    await client.create_topic(name, queue_count=2)
    return name


async def test_topics_are_created_on_every_broker_and_deleted(client):
    await client.create_topic("short-lived", queue_count=3)

    route = await client.route("short-lived")
    assert [broker.broker_name for broker in route.brokers] == ["broker-a", "broker-b"]
    assert len(route.write_queues) == len(route.read_queues) == 6
    assert "short-lived" in await client.list_topics()

    await client.delete_topic("short-lived")
    assert "short-lived" not in await client.list_topics()
    with pytest.raises(errors.TopicNotFound):
        await client.delete_topic("short-lived")
    await client.delete_topic("short-lived", missing_ok=True)
    with pytest.raises(errors.RouteNotFound):
        await client.route("short-lived")


async def test_a_topic_stands_once(client, topic):
    with pytest.raises(errors.TopicExists) as caught:
        await client.create_topic(topic)
    await client.create_topic(topic, exists_ok=True, queue_count=50)

    assert caught.value.metadata["topic"] == topic
    assert len((await client.route(topic)).read_queues) == 4


async def test_illegal_names_are_refused_here(client):
    for name in ("", "a b", "x" * 200, "%RETRY%x", "TBW102"):
        with pytest.raises(errors.NameIllegal):
            await client.create_topic(name)


async def test_a_topic_without_queues_is_refused(client):
    with pytest.raises(errors.IllegalArgument, match="queue_count 0"):
        await client.create_topic("queueless", queue_count=0)


async def test_system_topics_are_listed_when_asked_for(client, topic):
    user_topics = set(await client.list_topics())
    all_topics = set(await client.list_topics(include_system=True))

    assert topic in user_topics
    assert "SCHEDULE_TOPIC_XXXX" in all_topics - user_topics


async def test_the_topic_of_replies_is_of_the_system_where_its_cluster_lives(client):
    for name in ("DefaultCluster_REPLY_TOPIC", "shop_REPLY_TOPIC"):
        await client.create_topic(name, exists_ok=True)

    hidden = set(await client.list_topics(include_system=True)) - set(await client.list_topics())

    assert "DefaultCluster_REPLY_TOPIC" in hidden
    assert "shop_REPLY_TOPIC" not in hidden


async def test_brokers(client, cluster):
    brokers = await client.list_brokers()

    assert [(b.broker_name, b.address) for b in brokers] == [
        (process.name, process.address) for process in cluster.brokers
    ]
    assert all(datetime.now(UTC) - b.last_heard_time < timedelta(minutes=2) for b in brokers)


async def test_brokers_are_asked_by_name(client, topic, producer, reader):
    await producer.send(Message(topic, b"x"))
    await reader.store_offsets("asked", {MessageQueue(topic, "broker-b", 0): 0})

    assert "asked" in await client.list_groups(broker_names=["broker-b"])
    assert "asked" not in await client.list_groups(broker_names=["broker-a"])
    assert await client.list_members("asked", broker_names=["broker-a"]) == []
    lags = await client.consumer_lag("asked", topic, broker_names=["broker-b"])
    assert {lag.message_queue.broker_name for lag in lags} == {"broker-b"}
    only = {"broker_names": ["broker-a"]}
    for queues in (
        await reader.bounds(topic, **only),
        await reader.offsets_at(topic, datetime.now(UTC), **only),
    ):
        assert {queue.broker_name for queue in queues} == {"broker-a"}


async def test_a_broker_that_is_not_registered_is_waited_for_as_long_as_was_said(cluster):
    async with ClusterClient(cluster.name_servers, patience_s=0.2) as client:
        with pytest.raises(errors.ServiceUnavailable, match="no broker broker-z is registered"):
            await client.list_groups(broker_names=["broker-z"])


async def test_nobody_there():
    async with ClusterClient("127.0.0.1:1") as client:
        with pytest.raises(errors.NameServersUnreachable):
            await client.list_topics()
    with pytest.raises(errors.ClientNotRunning):
        await client.list_topics()


async def test_a_range_is_read_as_columns(topic, producer, reader):
    bodies = [bytes([number % 256]) * 3000 for number in range(500)]
    queue = MessageQueue(topic, "broker-b", 1)
    await asyncio.gather(
        *(producer.send(Message(topic, body), message_queue=queue) for body in bodies)
    )

    chunks = [c async for c in reader.read_range(queue, 100, 400, chunk_bytes=1 << 16)]

    assert len(chunks) > 5
    offsets = np.concatenate([columns.queue_offset for columns in chunks])
    assert offsets.tolist() == list(range(100, 400))
    assert [body for columns in chunks for body in columns.bodies()] == bodies[100:400]


async def test_a_range_ends_at_the_readable_end(topic, producer, reader):
    sent = await producer.send(Message(topic, b"x"))

    chunks = [columns async for columns in reader.read_range(sent.message_queue, 0, 1 << 40)]

    assert sum(map(len, chunks)) == 1


async def test_what_cannot_be_read_is_an_error(topic, reader):
    queue = MessageQueue(topic, "broker-a", 0)
    for wrong, error in (
        (queue._replace(queue_id=99), errors.QueueNotFound),
        (queue._replace(broker_name="broker-z"), errors.QueueNotFound),
        (queue._replace(topic="nowhere"), errors.RouteNotFound),
    ):
        with pytest.raises(error):
            [columns async for columns in reader.read_range(wrong, 0, 10)]
    with pytest.raises(errors.QueueOffsetOutOfRange) as caught:
        [columns async for columns in reader.read_range(queue, 5, 10)]
    assert (caught.value.min_queue_offset, caught.value.max_queue_offset) == (0, 0)


async def test_bounds_and_offsets_by_time(topic, producer, reader):
    queue = MessageQueue(topic, "broker-a", 0)
    first = await producer.send(Message(topic, b"x"), message_queue=queue)
    await asyncio.sleep(0.01)
    second = await producer.send(Message(topic, b"x"), message_queue=queue)
    bounds = await reader.bounds(topic)

    assert len(bounds) == 4
    assert bounds[queue] == (0, 2)
    for timestamp_ms, lower, upper in (
        (first.store_timestamp_ms - 1, 0, 0),
        (first.store_timestamp_ms, 0, 1),
        (second.store_timestamp_ms, 1, 2),
        (second.store_timestamp_ms + 1, 2, 2),
    ):
        when = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
        assert (await reader.offsets_at(topic, when))[queue] == lower
        assert (await reader.offsets_at(topic, when, TimeBoundary.UPPER))[queue] == upper
    with pytest.raises(errors.IllegalArgument):
        await reader.offsets_at(topic, datetime(2024, 1, 1))  # noqa: DTZ001 - the mistake.


async def test_offsets_of_a_group(topic, producer, reader, client):
    one, two = MessageQueue(topic, "broker-a", 0), MessageQueue(topic, "broker-b", 1)
    for queue in (one, one, two):
        await producer.send(Message(topic, b"x"), message_queue=queue)
    assert await reader.stored_offsets("fresh", topic) == {}

    await reader.store_offsets("fresh", {one: 1, two: 1})
    assert await reader.stored_offsets("fresh", topic) == {one: 1, two: 1}

    with pytest.raises(errors.ConsumerOffsetRefused) as caught:
        await reader.store_offsets("fresh", {one: 99, two: 0})
    assert list(caught.value.refused) == [one]
    assert await reader.stored_offsets("fresh", topic) == {one: 1, two: 0}

    lags = {lag.message_queue: lag for lag in await client.consumer_lag("fresh", topic)}
    assert (lags[one].consumer_offset, lags[one].message_count) == (1, 1)
    assert lags[two].message_count == 1
    assert lags[one].oldest_store_time is not None


async def test_groups_and_their_members(topic, client, cluster):
    def consumer(group):
        return PushConsumer(
            cluster.name_servers, group=group, subscriptions={topic: "b||a"}, listener=print
        )

    async with consumer("seen") as first, consumer("seen") as second:
        members = await client.list_members("seen")

        assert [member.client_id for member in members] == sorted(
            [first.client_id, second.client_id]
        )
        assert members[0].subscriptions == {topic: "a || b"}
        assert "seen" in await client.list_groups()
    assert await client.list_members("nobody") == []


async def test_the_member_that_works_on_each_queue_is_reported(topic, client, cluster):
    async with PushConsumer(
        cluster.name_servers, group="owning", subscriptions={topic: "*"}, listener=print
    ) as member:
        await member.wait_assigned()
        owners = await client.queue_owners("owning")
        route = await client.route(topic)

        assert {queue for queue in owners if queue.topic == topic} == set(route.read_queues)
        assert set(owners.values()) == {member.client_id}
    assert await client.queue_owners("owning") == {}
