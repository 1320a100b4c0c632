"""A broker is killed while members receive: nothing is lost, nothing that is done returns."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from functools import partial
from itertools import groupby
from operator import attrgetter

import pytest

from ariane_sdk import ClusterClient, Message, Producer, ReceiveConsumer
from ariane_sdk.errors import ArianeError
from ariane_servicekit.running.processes import LocalCluster

TOPIC, GROUP = "jobs", "waiters"
COUNT, MEMBERS, KILLS = 4000, 4, 3

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


class Books:
    """What members received and acknowledged, by body, with the attempt of each."""

    def __init__(self):
        self.received = defaultdict(int)
        self.acknowledged = {}
        self.progress = asyncio.Condition()

    def has(self, count):
        """Whether so many are acknowledged."""
        return len(self.acknowledged) >= count

    def of(self, batch):
        """Body and attempt of each message; whole answers come, in order."""
        for receipt, run in groupby(batch, attrgetter("receipt")):
            messages = list(run)
            yield from ((message.body, receipt.attempts + 1) for message in messages)


async def receive(cluster, books):
    """Receive and acknowledge until all is done; what was refused comes again."""
    consumer = ReceiveConsumer(
        cluster.name_servers, group=GROUP, subscriptions={TOPIC: "*"}, invisible_s=5
    )
    async with consumer:
        while len(books.acknowledged) < COUNT:
            try:
                batch = await consumer.receive_batch(16, timeout_s=1)
                told = list(books.of(batch))
                for body, attempt in told:
                    books.received[body] = max(attempt, books.received[body])
                await consumer.ack(*batch)
            except ArianeError:
                await asyncio.sleep(0.1)
                continue
            for body, attempt in told:
                books.acknowledged[body] = max(attempt, books.acknowledged.get(body, 0))
            async with books.progress:
                books.progress.notify_all()


async def kill_in_the_midst(cluster, books):
    (broker,) = cluster.brokers
    for number in range(1, KILLS + 1):
        enough = COUNT * number // (KILLS + 1)
        async with books.progress:
            await books.progress.wait_for(partial(books.has, enough))
        broker.kill()
        await broker.wait()
        await broker.restart()


async def test_nothing_is_lost_and_nothing_acknowledged_returns(tmp_path):
    books = Books()
    async with LocalCluster(tmp_path) as cluster:
        async with ClusterClient(cluster.name_servers) as client:
            await client.create_topic(TOPIC, queue_count=4)
        async with Producer(cluster.name_servers) as producer:
            await producer.send_batch([Message(TOPIC, b"%d" % n) for n in range(COUNT)])
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(kill_in_the_midst(cluster, books))
            for _ in range(MEMBERS):
                tasks.create_task(receive(cluster, books))
        async with ReceiveConsumer(
            cluster.name_servers, group=GROUP, subscriptions={TOPIC: "*"}
        ) as late:
            # Longer than anything that was in hand stays invisible.
            rest = await late.receive_batch(timeout_s=6)
    assert set(books.acknowledged) == {b"%d" % n for n in range(COUNT)}
    # Each hand-out is an attempt, and only the latest can be acknowledged.
    returned = {
        body: (attempt, books.received[body])
        for body, attempt in books.acknowledged.items()
        if books.received[body] > attempt
    }
    assert not returned
    assert [message.body for message in rest] == []
