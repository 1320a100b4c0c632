"""A damaged record in the middle of a queue: whoever reads the queue is told."""

from __future__ import annotations

import asyncio
import logging
import urllib.request

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from ariane_sdk import (
    ClusterClient,
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    PullSettings,
    PushConsumer,
    PushSettings,
    QueueReader,
    ReceiveConsumer,
)
from ariane_sdk.errors import MessagesLost
from ariane_servicekit.running.processes import LocalCluster
from ariane_testkit.free_ports import free_port
from ariane_testkit.small_store import SMALL_STORE

TOPIC = "orders"
COUNT = 100
DAMAGED = 42
MARK = b"the one whose record is damaged"
QUEUE = MessageQueue(TOPIC, "broker-a", 0)
OTHERS = [number for number in range(COUNT) if number != DAMAGED]

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
async def cluster(tmp_path):
    """A queue of which one message is damaged on the disk."""
    async with LocalCluster(tmp_path, flush_mode="sync", extra_broker_args=SMALL_STORE) as cluster:
        async with ClusterClient(cluster.name_servers) as client:
            await client.create_topic(TOPIC, queue_count=1)
        async with Producer(cluster.name_servers) as producer:
            bodies = [MARK if number == DAMAGED else b"%d" % number for number in range(COUNT)]
            await producer.send_batch([Message(TOPIC, body) for body in bodies])
        await cluster.brokers[0].stop()
        (segment,) = [
            path
            for path in (tmp_path / "broker-a").rglob("*")
            if path.is_file() and "commitlog" in path.parts and MARK in path.read_bytes()
        ]
        octets = bytearray(segment.read_bytes())
        octets[octets.index(MARK)] ^= 1
        segment.write_bytes(octets)
        await cluster.brokers[0].start()
        yield cluster


class Pulling:
    """A way to consume."""

    def __init__(self, cluster, **options):
        self.consumer = PullConsumer(
            cluster.name_servers,
            group="pulling",
            subscriptions={TOPIC: "*"},
            start="earliest",
            settings=PullSettings(**options),
        )

    async def take(self, count):
        found = []
        while len(found) < count:
            found += [int(message.body) for message in await self.consumer.poll(timeout_s=30)]
        return found


class Pushed:
    def __init__(self, cluster, **options):
        self.found = []
        self.consumer = PushConsumer(
            cluster.name_servers,
            group="pushed",
            subscriptions={TOPIC: "*"},
            start="earliest",
            listener=self.listen,
            settings=PushSettings(**options),
        )

    async def listen(self, messages):
        self.found += [int(message.body) for message in messages]

    async def take(self, count):
        async with asyncio.timeout(60):
            stopped = asyncio.create_task(self.consumer.run_until_stopped(handle_signals=False))
            while len(self.found) < count and not stopped.done():  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.02)
            if stopped.done():
                stopped.result()
            stopped.cancel()
        return self.found


class Received:
    def __init__(self, cluster, **options):
        self.consumer = ReceiveConsumer(
            cluster.name_servers, group="received", subscriptions={TOPIC: "*"}, **options
        )

    async def take(self, count):
        found = []
        while len(found) < count:
            batch = await self.consumer.receive_batch(COUNT, timeout_s=30)
            await self.consumer.ack(*batch)
            found += [int(message.body) for message in batch]
        return found


class Read:
    def __init__(self, cluster, **options):
        self.consumer = QueueReader(cluster.name_servers, **options)

    async def take(self, _count):
        return [
            int(view.body)
            async for columns in self.consumer.read_range(QUEUE, 0, COUNT)
            for view in columns.iter_messages()
        ]


KINDS = [Pulling, Pushed, Received, Read]


async def test_a_lost_message_is_told_and_counted(cluster, caplog):
    for kind in KINDS:
        caplog.clear()
        reading = kind(cluster)
        async with reading.consumer as consumer:
            assert await reading.take(COUNT - 1) == OTHERS, kind
            assert consumer.lost_message_count == 1, kind
        (said,) = [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]
        assert f"1 message from queue offset {DAMAGED} on is lost" in said, kind


async def test_a_lost_message_is_an_error_where_it_is_to_be_one(cluster):
    for kind in KINDS:
        reading = kind(cluster, fail_on_lost_messages=True)
        async with reading.consumer:
            with pytest.raises(MessagesLost) as raised:
                await reading.take(COUNT - 1)
        assert raised.value.metadata == {"queue_offset": str(DAMAGED), "count": "1"}, kind


async def test_collectors_are_told(cluster, tmp_path):
    reader = InMemoryMetricReader()
    meters = MeterProvider([reader])
    broker = cluster.brokers[0]
    address = f"127.0.0.1:{free_port()}"
    await broker.stop()
    broker.arguments = (*broker.arguments, "--metrics-listen", address)
    await broker.start()
    settings = PullSettings(meter_provider=meters)
    async with PullConsumer(
        cluster.name_servers,
        group="group",
        subscriptions={TOPIC: "*"},
        start="earliest",
        settings=settings,
    ) as consumer:
        count = 0
        async with asyncio.timeout(60):
            while count < len(OTHERS):
                count += len(await consumer.poll(timeout_s=1))
    [point] = [
        point
        for resource in reader.get_metrics_data().resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name == "ariane.client.lost.messages"
        for point in metric.data.data_points
    ]
    assert point.value == 1
    assert dict(point.attributes) == {
        "messaging.destination.name": TOPIC,
        "messaging.consumer.group.name": "group",
    }
    meters.shutdown()

    def scrape():
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=60) as answer:
            lines = answer.read().decode().splitlines()
        return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))

    values = await asyncio.to_thread(scrape)
    assert float(values["ariane_messages_lost_total"]) >= 1
    assert float(values["ariane_storage_damaged_bytes"]) > 0
