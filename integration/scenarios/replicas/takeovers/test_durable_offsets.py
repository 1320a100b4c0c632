"""Offsets whose storing was answered as durable: who takes over has them, too."""

from __future__ import annotations

import pytest
from replica_group import in_sync

from ariane_sdk import ClusterClient, Message, Producer, PullConsumer, PushConsumer, QueueReader

# State that nobody calls for is not copied during the test.
RARELY = ("--primary-lease-s", "2.5", "--replica-state-s", "600")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


async def test_a_new_primary_has_durable_reset_and_cloned_offsets(local_cluster):
    async with (
        local_cluster(*RARELY, replicas=1) as cluster,
        ClusterClient(cluster.name_servers) as client,
        QueueReader(cluster.name_servers) as reader,
    ):
        [first], [second] = cluster.brokers, cluster.replicas
        await in_sync(first, 0, 1)
        await client.create_topic("orders", queue_count=1)
        async with Producer(cluster.name_servers) as producer:
            await producer.send_batch([Message("orders", b"%d" % number) for number in range(10)])
        [queue] = await reader.bounds("orders")
        await reader.store_offsets("stored", {queue: 4})
        await reader.store_offsets("again", {queue: 8})
        await client.reset_offsets("again", "orders", to={queue: 5})
        await client.clone_offsets("again", "cloned", "orders")
        known = [await reader.stored_offsets(name, "orders") for name in ("stored", "again")]
        assert known == [{queue: 4}, {queue: 5}]
        async with PullConsumer(
            cluster.name_servers, group="new", subscriptions={"orders": "*"}, auto_commit=False
        ) as consumer:
            await consumer.wait_assigned()
            first.kill()
            await first.wait()
            await in_sync(second, 1)
        for name, offset in (("stored", 4), ("again", 5), ("cloned", 5), ("new", 10)):
            assert await reader.stored_offsets(name, "orders") == {queue: offset}


async def test_who_takes_over_knows_how_far_a_member_was_that_has_closed(local_cluster, until):
    """Nobody else could tell it."""
    got = []

    async def listen(messages):
        got.extend(messages)

    async with (
        local_cluster(*RARELY, replicas=1) as cluster,
        Producer(cluster.name_servers) as producer,
        QueueReader(cluster.name_servers) as reader,
    ):
        [first], [second] = cluster.brokers, cluster.replicas
        await in_sync(first, 0, 1)
        await producer.send_batch([Message("orders", b"%d" % number) for number in range(100)])
        ends = {queue: end for queue, (_, end) in (await reader.bounds("orders")).items()}

        async def all_came():
            return len(got) == 100

        async with PushConsumer(
            cluster.name_servers,
            group="pushed",
            start="earliest",
            subscriptions={"orders": "*"},
            listener=listen,
        ):
            await until(all_came)
        first.kill()
        await first.wait()
        await in_sync(second, 1)
        assert await reader.stored_offsets("pushed", "orders") == ends
