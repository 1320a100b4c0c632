"""kill -9 of the broker while it parks, delivers and takes back: each message once, none early."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from datetime import timedelta

import pytest

from ariane_sdk import ClusterClient, Message, Producer, ProducerSettings, QueueReader
from ariane_sdk.errors import ArianeError

SEED = int(os.environ.get("KILL_SEED", "7"))
TOPIC = "reminders"


class Sent:
    """What was acknowledged: body by body, and what of it was taken back."""

    def __init__(self):
        self.bodies = set()
        self.recalled = set()
        self.unknown = set()


async def send_until(stopped, name_servers, chance, sent):
    settings = ProducerSettings(send_timeout_s=60)
    number = 0
    async with Producer(name_servers, settings=settings) as producer:
        while not stopped.is_set():
            messages = []
            for _ in range(50):
                delay_ms = chance.choice((1000, chance.randrange(4000), chance.randrange(4000)))
                how = {"delay": timedelta(milliseconds=delay_ms)}
                if delay_ms == 1000:
                    how = {"delay_level": 1}
                messages.append(Message(TOPIC, b"%d %d" % (number, delay_ms), **how))
                number += 1
            results = await producer.send_batch(messages)
            sent.bodies.update(message.body for message in messages)
            for message, result in zip(messages, results, strict=True):
                if result.recall_handle and chance.random() < 0.1:
                    try:
                        if await producer.recall(result.recall_handle):
                            sent.recalled.add(message.body)
                    except ArianeError:
                        sent.unknown.add(message.body)
            await asyncio.sleep(0.02)


async def delivered(name_servers):
    found = []
    async with QueueReader(name_servers) as reader:
        for queue, (begin, end) in (await reader.bounds(TOPIC)).items():
            async for columns in reader.read_range(queue, begin, end):
                found += map(columns.message, range(len(columns)))
    return found


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kills", [4, 25])
async def test_each_comes_once_however_often_the_broker_dies(local_cluster, until, kills):
    chance = random.Random(SEED)
    sent, stopped = Sent(), asyncio.Event()
    async with local_cluster("--producer-save-s", "0.3") as cluster:
        async with ClusterClient(cluster.name_servers) as client:
            await client.create_topic(TOPIC, queue_count=2)
        names = cluster.name_servers
        sending = asyncio.create_task(send_until(stopped, names, random.Random(SEED + 1), sent))
        (broker,) = cluster.brokers
        for _ in range(kills):
            await asyncio.sleep(chance.uniform(0.3, 2.0))
            broker.kill()
            await broker.wait()
            await asyncio.sleep(chance.uniform(0, 0.5))
            await broker.restart()
        stopped.set()
        await sending

        async def all_there():
            bodies = {message.body for message in await delivered(names)}
            return bodies >= sent.bodies - sent.recalled - sent.unknown

        await until(all_there, seconds=120)
        await asyncio.sleep(1)
        found = await delivered(names)
    counts = Counter(message.body for message in found)
    assert [body for body, count in counts.items() if count > 1] == [], f"twice: seed {SEED}"
    for message in found:
        waited_ms = message.store_timestamp_ms - message.born_timestamp_ms
        assert waited_ms >= int(message.body.split()[1]), f"early: seed {SEED}"
    assert set(counts) <= sent.bodies, f"never sent: seed {SEED}"
    assert sent.recalled.isdisjoint(counts), f"recalled: seed {SEED}"
    assert len(counts) > 50 * kills
