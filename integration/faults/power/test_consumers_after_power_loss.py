"""The plug is pulled under asynchronous flush, and messages come before consumers come back.

They have the queue offsets of those that were lost. Whoever had read beyond the new end of the log
must get them all the same: a group by its stored offset, a consumer that lives on, one that keeps
its offsets itself.
"""

from __future__ import annotations

import asyncio
import subprocess

import pytest
from unplugged_disk import UnpluggedDisk, why_not

from ariane.broker.v1.broker_service_pb2 import GetBrokerStateRequest
from ariane.broker.v1.broker_service_pb2_grpc import BrokerServiceStub
from ariane_sdk import (
    ClusterClient,
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    PullSettings,
    QueueReader,
)
from ariane_servicekit.running.processes import LocalCluster
from ariane_testkit.closed_clusters import open_aio_channel

TOPIC = "orders"
QUEUE = MessageQueue(TOPIC, "broker-a", 0)
LOST_COUNT, LATER_COUNT = 100, 150
TRIES_MAX = 20
SMALL_STORE = (
    *("--segment-bytes", str(4 << 20)),
    *("--message-bytes-max", str(1 << 18)),
    *("--consume-queue-entries", "1000"),
    *("--index-slots", "1000"),
    *("--index-items", "4000"),
    *("--disk-clean-ratio", "0.97"),
    *("--disk-force-ratio", "0.98"),
    *("--disk-refuse-ratio", "0.99"),
    # The log goes to the disk once a second, with the consume queues, and not more often.
    *("--flush-interval-ms", "60000"),
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]


@pytest.fixture
def disk(tmp_path):
    disk = UnpluggedDisk(tmp_path / "disk", megabytes=64)
    disk.plug_in()
    yield disk
    subprocess.run(["umount", "-l", str(disk.mount_point)], check=False, capture_output=True)


@pytest.fixture
async def cluster(tmp_path, disk):
    flags = ("--store-path", str(disk.mount_point / "store"), *SMALL_STORE)
    async with LocalCluster(tmp_path, extra_broker_args=flags) as cluster:
        async with ClusterClient(cluster.name_servers) as client:
            await client.create_topic(TOPIC, queue_count=1)
        yield cluster


class Sender:
    """Sends numbered messages, each body once."""

    def __init__(self, producer):
        self.producer = producer
        self.sent = 0

    async def send(self, count):
        bodies = [b"%d" % number for number in range(self.sent, self.sent + count)]
        self.sent += count
        await self.producer.send_batch([Message(TOPIC, body) for body in bodies])
        return set(bodies)


@pytest.fixture
async def sender(cluster):
    async with Producer(cluster.name_servers) as producer:
        yield Sender(producer)


async def lose_power(disk, broker):
    await asyncio.to_thread(disk.pull_the_plug)
    broker.kill()
    await broker.wait()
    disk.unmount()
    disk.plug_in()
    await broker.restart()


async def receive(consumer, bodies):
    """Poll until all of these have come."""
    async with asyncio.timeout(60):
        while missing := bodies - {message.body for message in await consumer.poll()}:
            bodies = missing


async def end_of_queue(cluster):
    async with QueueReader(cluster.name_servers) as reader:
        return (await reader.bounds(TOPIC))[QUEUE][1]


async def test_a_group_skips_nothing_behind_a_stored_offset(cluster, disk, sender):
    (broker,) = cluster.brokers
    options = {"group": "billing", "start": "earliest"}
    for _ in range(3):
        async with PullConsumer(cluster.name_servers, **options) as consumer:
            await consumer.assign([QUEUE])
            await receive(consumer, await sender.send(LOST_COUNT))
            await consumer.commit()
            await lose_power(disk, broker)
        later = await sender.send(LATER_COUNT)
        async with PullConsumer(cluster.name_servers, **options) as consumer:
            await consumer.assign([QUEUE])
            await receive(consumer, later)


async def test_consumers_that_know_their_positions_skip_nothing(cluster, disk, sender, tmp_path):
    (broker,) = cluster.brokers
    names = cluster.name_servers
    settings = PullSettings(local_offsets_path=tmp_path / "offsets", offset_store_interval_s=3600)
    own = {
        "group": "screens",
        "model": "broadcasting",
        "subscriptions": {TOPIC: "*"},
        "start": "earliest",
        "settings": settings,
    }
    async with PullConsumer(names, group="billing", start="earliest", settings=settings) as living:
        await living.assign([QUEUE])
        for _ in range(TRIES_MAX):
            sent = await sender.send(LOST_COUNT)
            await receive(living, sent)
            async with PullConsumer(names, **own) as screen:
                await receive(screen, sent)
            living.pause(QUEUE)
            before = await end_of_queue(cluster)
            await lose_power(disk, broker)
            lost = before - await end_of_queue(cluster)
            later = await sender.send(LATER_COUNT)
            living.resume(QUEUE)
            await receive(living, later)
            async with PullConsumer(names, **own) as screen:
                await receive(screen, later)
            if lost:
                break
        else:
            pytest.fail("the power never took anything")
    async with open_aio_channel(broker.address) as channel:
        state = await BrokerServiceStub(channel).GetBrokerState(GetBrokerStateRequest())
    assert state.statistics.set_back_offset_count >= 2
