"""What an earlier owner of a queue stores late does not undo what its successor has stored."""

from __future__ import annotations

import pytest

from ariane_sdk import (
    ClusterClient,
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    PullSettings,
    QueueReader,
)

GROUP = "billing"
TOPIC = "orders"
COUNT = 200
QUEUE = MessageQueue(TOPIC, "broker-a", 0)
SETTINGS = PullSettings(
    handover_s=0.2, rebalance_gap_s_min=0.05, rebalance_interval_s=1.0, release_timeout_s=60.0
)

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
async def cluster(local_cluster):
    """A queue with messages."""
    async with local_cluster() as cluster:
        async with ClusterClient(cluster.name_servers) as client:
            await client.create_topic(TOPIC, queue_count=1)
        async with Producer(cluster.name_servers) as producer:
            await producer.send_batch([Message(TOPIC, b"x") for _ in range(COUNT)])
        yield cluster


@pytest.fixture
async def reader(cluster):
    async with QueueReader(cluster.name_servers) as reader:
        yield reader


def member(cluster, **options):
    return PullConsumer(
        cluster.name_servers,
        group=GROUP,
        subscriptions={TOPIC: "*"},
        start="earliest",
        settings=SETTINGS,
        **options,
    )


async def take_all(consumer, count):
    found = []
    while len(found) < count:
        found += await consumer.poll(timeout_s=30)
    return found


def successor(cluster, earlier):
    """A member to whom the queue falls."""
    return next(
        later
        for later in (member(cluster) for _ in range(1000))
        if later.client_id < earlier.client_id
    )


@pytest.mark.parametrize("says", ["by its next poll", "by commit"])
async def test_a_late_offset_of_an_earlier_owner_changes_nothing(cluster, reader, until, says):
    async def stored():
        return (await reader.stored_offsets(GROUP, TOPIC))[QUEUE]

    async def passed():
        return later.assignment == {QUEUE} and not earlier.assignment

    async with member(cluster, auto_commit=says == "by its next poll") as earlier:
        assert len(await earlier.poll(8, timeout_s=30)) == 8
        # It does not wait for the messages that the other one has in hand.
        later = successor(cluster, earlier)
        async with later:
            await until(passed)
            await take_all(later, COUNT)
            await later.commit()
            assert await stored() == COUNT
            if says == "by commit":
                await earlier.commit()
            # All is done: the queue is released, and its last offset stored.
            assert await earlier.poll(1, timeout_s=1) == []
            await earlier.close()
            assert await stored() == COUNT


async def test_who_goes_back_on_purpose_does(cluster, reader):
    async def stored():
        return (await reader.stored_offsets(GROUP, TOPIC))[QUEUE]

    async with member(cluster, auto_commit=False) as consumer:
        await take_all(consumer, COUNT)
        await consumer.commit()
        await consumer.commit({QUEUE: 7})
        assert await stored() == 7
        await consumer.seek(QUEUE, 3)
        await consumer.poll(2, timeout_s=30)
        await consumer.commit()
        assert await stored() == 5
    await reader.store_offsets(GROUP, {QUEUE: 1})
    assert await stored() == 1
