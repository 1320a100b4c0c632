"""Consumers that read from a replica: far behind, or while there is no primary."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from replica_group import in_sync, state_of

from ariane_sdk import ClusterClient, Message, Producer, PushConsumer, PushSettings, QueueReader
from ariane_sdk.consumer.pulling.replica_reads import ReplicaReads

QUEUES = 4
SMALL_WINDOWS = PushSettings(
    queue_message_count_max=64, rebalance_gap_s_min=0.05, handover_s=0.1, release_timeout_s=2
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


class Reads:
    """What was read from replicas: addresses by count of messages."""

    def __init__(self, monkeypatch):
        self.begun = Counter()
        self.counts = Counter()
        read = ReplicaReads.read

        async def noted(reads, work, address, end):
            self.begun[address] += 1
            begin = work.window.next_pull_offset
            try:
                await read(reads, work, address, end)
            finally:
                self.counts[address] += work.window.next_pull_offset - begin

        monkeypatch.setattr(ReplicaReads, "read", noted)


class Arrivals:
    """What a listener got, by queue; it waits until it is let go."""

    def __init__(self):
        self.offsets = {}
        self.go = asyncio.Event()

    async def __call__(self, messages):
        await self.go.wait()
        for message in messages:
            self.offsets.setdefault(message.queue_id, []).append(message.queue_offset)

    @property
    def count(self):
        return sum(map(len, self.offsets.values()))

    def is_whole(self, count):
        """Whether all came once, each queue in order."""
        in_order = all(offsets == list(range(len(offsets))) for offsets in self.offsets.values())
        return in_order and self.count == count


async def filled(cluster, until, count):
    """A topic with some messages of 1 KiB, all of which the replica hands out."""
    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic("orders", queue_count=QUEUES)
    await send(cluster, count)
    [primary], [replica] = cluster.brokers, cluster.replicas
    end = (await state_of(primary)).confirmed_commit_log_offset

    async def told():
        return (await state_of(replica)).confirmed_commit_log_offset >= end

    await until(told)


async def send(cluster, count):
    async with Producer(cluster.name_servers) as producer:
        await producer.send_batch([Message("orders", b"x" * 1024) for _ in range(count)])


def consumer(cluster, listener, **options):
    return PushConsumer(
        cluster.name_servers,
        group="readers",
        subscriptions={"orders": "*"},
        listener=listener,
        start="earliest",
        settings=SMALL_WINDOWS,
        **options,
    )


async def test_a_deep_backlog_comes_from_a_replica_and_what_is_fresh_from_the_primary(
    local_cluster, until, monkeypatch
):
    reads, arrivals = Reads(monkeypatch), Arrivals()
    arrivals.go.set()
    async with local_cluster("--backlog-memory-ratio", "0.00001", replicas=1) as cluster:
        await in_sync(cluster.brokers[0], 0, 1)
        await filled(cluster, until, 4000)
        async with consumer(cluster, arrivals):

            async def come():
                return arrivals.count >= 4000

            await until(come)
            await send(cluster, 40)

            async def all_come():
                return arrivals.count >= 4040

            await until(all_come)
        assert arrivals.is_whole(4040)
        assert set(reads.counts) == {cluster.replicas[0].address}
        assert 2000 < reads.counts.total() < 4000
        async with QueueReader(cluster.name_servers) as reader:
            ends = {queue: end for queue, (_, end) in (await reader.bounds("orders")).items()}
            assert await reader.stored_offsets("readers", "orders") == ends


async def test_consumers_in_order_stay_with_the_primary(local_cluster, until, monkeypatch):
    reads, arrivals = Reads(monkeypatch), Arrivals()
    arrivals.go.set()
    async with local_cluster("--backlog-memory-ratio", "0.00001", replicas=1) as cluster:
        await in_sync(cluster.brokers[0], 0, 1)
        await filled(cluster, until, 1000)
        async with consumer(cluster, arrivals, ordered=True):

            async def come():
                return arrivals.count >= 1000

            await until(come)
        assert arrivals.is_whole(1000)
        assert not reads.begun


async def test_a_replica_that_dies_in_the_middle_costs_nothing(local_cluster, until, monkeypatch):
    reads, arrivals = Reads(monkeypatch), Arrivals()
    async with local_cluster("--backlog-memory-ratio", "0.00001", replicas=1) as cluster:
        await in_sync(cluster.brokers[0], 0, 1)
        await filled(cluster, until, 8000)
        async with consumer(cluster, arrivals):

            async def reading():
                return reads.begun.total() >= QUEUES

            await until(reading)
            [replica] = cluster.replicas
            replica.kill()
            await replica.wait()
            arrivals.go.set()

            async def come():
                return arrivals.count >= 8000

            await until(come)
        assert arrivals.is_whole(8000)
        assert reads.counts.total() < 8000


async def test_members_go_on_while_there_is_no_primary(local_cluster, until, monkeypatch):
    reads, arrivals = Reads(monkeypatch), Arrivals()
    # Nobody is elected for a while.
    async with local_cluster("--primary-lease-s", "60", replicas=1) as cluster:
        [first], [replica] = cluster.brokers, cluster.replicas
        await in_sync(first, 0, 1)
        await filled(cluster, until, 4000)
        async with consumer(cluster, arrivals) as member:
            await member.wait_assigned()
            first.kill()
            await first.wait()
            arrivals.go.set()

            async def come():
                return arrivals.count >= 4000

            await until(come, seconds=50)
            assert not (await state_of(replica)).has_lease
            assert set(reads.counts) == {replica.address}
            await first.start()
            await in_sync(first, 0, 1)
            await send(cluster, 40)

            async def all_come():
                return arrivals.count >= 4040

            await until(all_come)
        assert arrivals.is_whole(4040)
        async with QueueReader(cluster.name_servers) as reader:
            ends = {queue: end for queue, (_, end) in (await reader.bounds("orders")).items()}
            assert await reader.stored_offsets("readers", "orders") == ends
