"""Queues that are new to a group, and the clock by which "latest" is decided."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

import pytest

from ariane_admin.terminal.exits import ExitStatus
from ariane_sdk import (
    ClusterClient,
    Message,
    Producer,
    PullConsumer,
    PullSettings,
    PushConsumer,
    QueueReader,
    ReceiveConsumer,
)
from ariane_sdk.consumer.offsets import group_start
from ariane_sdk.errors import RouteNotFound

GROUP = "billing"
TOPIC = "orders"
COUNT = 120


class FastClock:
    """A clock that is a minute ahead."""

    def now_ms(self):
        return time.time_ns() // 1_000_000 + 60_000

    def monotonic_s(self):
        return time.monotonic()

    async def sleep(self, seconds):
        await asyncio.sleep(seconds)


async def send(cluster, first, count=COUNT):
    """Messages to all queues; no group of messages sticks to a queue."""
    async with Producer(cluster.name_servers) as producer:
        for number in range(first, first + count):
            await producer.send(Message(TOPIC, b"%d" % number, message_group=str(number)))


class Pulling:
    """A life of a pull consumer."""

    def __init__(self, cluster, tmp_path, **options):
        settings = PullSettings(local_offsets_path=tmp_path / "offsets")
        self.consumer = PullConsumer(
            cluster.name_servers,
            group=GROUP,
            subscriptions={TOPIC: "*"},
            settings=settings,
            **options,
        )

    async def begin(self):
        await self.consumer.wait_assigned()

    async def take(self, count):
        """So many messages, or all that come within a while."""
        found = []
        while len(found) < count:
            batch = await self.consumer.poll(timeout_s=10)
            if not batch:
                break
            found += [int(message.body) for message in batch]
        return found


class Broadcast(Pulling):
    def __init__(self, cluster, tmp_path, **options):
        super().__init__(cluster, tmp_path, model="broadcasting", **options)


class Pushed:
    """A life of a push consumer."""

    def __init__(self, cluster, _tmp_path, **options):
        self.found = []
        self.consumer = PushConsumer(
            cluster.name_servers,
            group=GROUP,
            subscriptions={TOPIC: "*"},
            listener=self.listen,
            **options,
        )

    async def listen(self, messages):
        self.found += [int(message.body) for message in messages]

    async def begin(self):
        await self.consumer.wait_assigned()

    async def take(self, count):
        try:
            async with asyncio.timeout(15):
                while len(self.found) < count:  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.05)
        except TimeoutError:
            pass
        return self.found


class Received:
    """A life of a receiving consumer."""

    def __init__(self, cluster, _tmp_path, **options):
        self.consumer = ReceiveConsumer(
            cluster.name_servers,
            group=GROUP,
            subscriptions={TOPIC: "*"},
            from_oldest=False,
            **options,
        )

    async def begin(self):
        assert await self.consumer.receive_batch(timeout_s=2) == []

    async def take(self, count):
        found = []
        while len(found) < count:
            batch = await self.consumer.receive_batch(100, timeout_s=10)
            if not batch:
                break
            await self.consumer.ack(*batch)
            found += [int(message.body) for message in batch]
        return found


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", [Pushed, Pulling, Broadcast, Received])
async def test_a_queue_that_was_added_while_the_group_was_away_is_consumed_from_its_first_message(
    local_cluster, ariane, until, tmp_path, kind
):
    async with local_cluster(brokers=2) as cluster, ClusterClient(cluster.name_servers) as client:
        on_first = ("--broker", "broker-a", "--queues", "2")
        status, _ = await ariane(cluster, "topic", "create", TOPIC, *on_first)
        assert status == 0
        await send(cluster, 0)
        life = kind(cluster, tmp_path)
        async with life.consumer:
            await life.begin()
            await send(cluster, COUNT)
            assert sorted(await life.take(COUNT)) == list(range(COUNT, 2 * COUNT))
        await ariane(cluster, "topic", "update", TOPIC, "--queues", "4")
        await ariane(cluster, "topic", "create", TOPIC, "--broker", "broker-b", "--queues", "2")

        async def grown():
            return len((await client.route(TOPIC)).read_queues) == 6

        await until(grown)
        await send(cluster, 2 * COUNT)
        life = kind(cluster, tmp_path)
        async with life.consumer:
            found = await life.take(COUNT)
    assert sorted(found) == list(range(2 * COUNT, 3 * COUNT))


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", [Pushed, Pulling, Broadcast, Received])
async def test_a_group_is_not_new_at_a_broker_while_the_one_that_knows_it_is_away(
    local_cluster, ariane, until, tmp_path, monkeypatch, kind
):
    monkeypatch.setattr(group_start, "AWAY_WAIT_S", 1.0)
    async with local_cluster(brokers=2) as cluster, ClusterClient(cluster.name_servers) as client:
        on_first = ("--broker", "broker-a", "--queues", "2")
        status, _ = await ariane(cluster, "topic", "create", TOPIC, *on_first)
        assert status == 0
        life = kind(cluster, tmp_path)
        async with life.consumer:
            await life.begin()
            await send(cluster, 0)
            assert sorted(await life.take(COUNT)) == list(range(COUNT))
        await cluster.brokers[0].stop()
        await ariane(cluster, "topic", "create", TOPIC, "--broker", "broker-b", "--queues", "2")

        async def only_second():
            with suppress(RouteNotFound):
                queues = (await client.route(TOPIC)).read_queues
                return {queue.broker_name for queue in queues} == {"broker-b"}

        await until(only_second)
        await send(cluster, COUNT)
        life = kind(cluster, tmp_path)
        async with life.consumer:
            found = await life.take(COUNT)
    assert sorted(found) == list(range(COUNT, 2 * COUNT))


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_forgotten_broker_is_not_waited_for(local_cluster, ariane, tmp_path, monkeypatch):
    monkeypatch.setattr(group_start, "AWAY_WAIT_S", 3600.0)
    async with local_cluster(brokers=2) as cluster:
        await ariane(cluster, "topic", "create", TOPIC, "--queues", "2")
        forget = "broker", "forget", "broker-b", "--yes"
        assert (await ariane(cluster, *forget))[0] == ExitStatus.REFUSED
        await cluster.brokers[1].stop()
        status, told = await ariane(cluster, *forget)
        assert (status, told["name_server_failures"]) == (0, [])
        life = Pushed(cluster, tmp_path)
        async with life.consumer:
            await life.begin()
            await send(cluster, 0)
            assert sorted(await life.take(COUNT)) == list(range(COUNT))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", [Pushed, Pulling, Broadcast])
async def test_latest_does_not_depend_on_the_clock_of_the_client(
    local_cluster, ariane, tmp_path, kind
):
    """In a topic that comes after the consumer, no message is older than the start."""
    async with local_cluster() as cluster:
        life = kind(cluster, tmp_path, clock=FastClock())
        async with life.consumer:
            await ariane(cluster, "topic", "create", TOPIC)
            await send(cluster, 0)
            found = await life.take(COUNT)
    assert sorted(found) == list(range(COUNT))


@pytest.mark.timeout(120)
async def test_where_a_group_begins_outlives_a_broker_that_is_killed(local_cluster, tmp_path):
    """A group without offsets is new again, and would not get what is sent until it returns."""
    async with local_cluster() as cluster, QueueReader(cluster.name_servers) as reader:
        async with ClusterClient(cluster.name_servers) as client:
            await client.create_topic(TOPIC, queue_count=2)
        await send(cluster, 0)
        life = Pushed(cluster, tmp_path)
        async with life.consumer:
            await life.begin()
            begun = await reader.stored_offsets(GROUP, TOPIC)
            cluster.brokers[0].kill()
        await cluster.brokers[0].start()
        assert sum(begun.values()) == COUNT
        assert await reader.stored_offsets(GROUP, TOPIC) == begun
