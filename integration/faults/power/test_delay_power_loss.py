"""The plug is pulled while messages wait and are delivered: each that was acknowledged comes once.

    POWER_LOSS_SEED=7 .venv/bin/pytest integration/faults/power/test_delay_power_loss.py

Under synchronous flush. What was acknowledged while the plug was being pulled is left out: see
``test_power_loss``.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
from collections import Counter
from datetime import timedelta

import pytest
from unplugged_disk import UnpluggedDisk, why_not

from ariane_sdk import ClusterClient, Message, Producer, ProducerSettings, QueueReader
from ariane_servicekit.running.processes import LocalCluster

SEED = int(os.environ.get("POWER_LOSS_SEED", "20130101"))
TOPIC = "reminders"
SMALL_STORE = (
    *("--segment-bytes", str(4 << 20)),
    *("--message-bytes-max", str(1 << 18)),
    *("--consume-queue-entries", "1000"),
    *("--index-slots", "1000"),
    *("--index-items", "4000"),
    *("--disk-clean-ratio", "0.97"),
    *("--disk-force-ratio", "0.98"),
    *("--disk-refuse-ratio", "0.99"),
    *("--producer-save-s", "0.3"),
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]


@pytest.fixture
def disk(tmp_path):
    disk = UnpluggedDisk(tmp_path / "disk", megabytes=192)
    disk.plug_in()
    yield disk
    subprocess.run(["umount", "-l", str(disk.mount_point)], check=False, capture_output=True)


@pytest.fixture
async def cluster(tmp_path, disk):
    flags = ("--store-path", str(disk.mount_point / "store"), *SMALL_STORE)
    async with LocalCluster(tmp_path, flush_mode="sync", extra_broker_args=flags) as cluster:
        yield cluster


async def send_until(stopped, name_servers, acknowledged):
    chance = random.Random(SEED + 1)
    number = 0
    async with Producer(name_servers, settings=ProducerSettings(send_timeout_s=60)) as producer:
        while not stopped.is_set():
            messages = []
            for _ in range(20):
                delay_ms = chance.choice((1000, chance.randrange(3000)))
                body = b"%d %d" % (number, delay_ms)
                if delay_ms == 1000:
                    messages.append(Message(TOPIC, body, delay_level=1))
                else:
                    delay = timedelta(milliseconds=delay_ms)
                    messages.append(Message(TOPIC, body, delay=delay))
                number += 1
            await producer.send_batch(messages)
            acknowledged.update(message.body for message in messages)
            await asyncio.sleep(0.01)


async def delivered(name_servers):
    found = []
    async with QueueReader(name_servers) as reader:
        for queue, (begin, end) in (await reader.bounds(TOPIC)).items():
            async for columns in reader.read_range(queue, begin, end):
                found += map(columns.message, range(len(columns)))
    return found


async def lose_power(disk, broker):
    await asyncio.to_thread(disk.pull_the_plug)
    broker.kill()
    await broker.wait()


@pytest.mark.parametrize("points", [4, 40])
async def test_what_was_acknowledged_comes_once(cluster, disk, points):
    chance = random.Random(SEED)
    acknowledged, doubtful, stopped = set(), set(), asyncio.Event()
    names, (broker,) = cluster.name_servers, cluster.brokers
    async with ClusterClient(names) as client:
        await client.create_topic(TOPIC, queue_count=2)
    sending = asyncio.create_task(send_until(stopped, names, acknowledged))
    for _ in range(points):
        await asyncio.sleep(chance.uniform(0.5, 3.0))
        certain = set(acknowledged)
        await lose_power(disk, broker)
        await asyncio.sleep(0.1)
        doubtful |= acknowledged - certain
        disk.unmount()
        disk.plug_in()
        await broker.restart()
    await asyncio.sleep(1)
    stopped.set()
    await sending
    async with asyncio.timeout(60):
        while not {m.body for m in await delivered(names)} >= acknowledged - doubtful:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.1)
    await asyncio.sleep(1)
    found = await delivered(names)
    counts = Counter(message.body for message in found)
    assert [body for body, count in counts.items() if count > 1] == [], f"twice: seed {SEED}"
    for message in found:
        waited_ms = message.store_timestamp_ms - message.born_timestamp_ms
        assert waited_ms >= int(message.body.split()[1]), f"early: seed {SEED}"
    assert len(acknowledged - doubtful) > 20 * points
