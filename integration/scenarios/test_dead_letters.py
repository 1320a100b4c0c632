"""Dead letters that are sent back while client and broker are killed: each comes once."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path

import pytest

from ariane_sdk import (
    ConsumerSettings,
    DeadLetters,
    Message,
    Producer,
    PushConsumer,
    QueueReader,
)
from ariane_sdk.errors import MessagesFailed

REDRIVER = Path(__file__).with_name("redriver.py")
BRISK = ConsumerSettings(rebalance_gap_s_min=0.05, handover_s=0.05, queue_message_count_max=10_000)


async def give_up(cluster, topic, group, count):
    """Have a group give up so many messages."""
    seen, all_seen = 0, asyncio.Event()

    async def reject(messages):
        nonlocal seen
        seen += len(messages)
        if seen >= count:
            all_seen.set()
        raise MessagesFailed(messages, "the account is closed", rejected=True)

    async with Producer(cluster.name_servers) as producer:
        for first in range(0, count, 10_000):
            numbers = range(first, min(first + 10_000, count))
            await producer.send_batch([Message(topic, b"%d" % number) for number in numbers])
    async with PushConsumer(
        cluster.name_servers,
        group=group,
        subscriptions={topic: "*"},
        listener=reject,
        start="earliest",
        batch_size=256,
        settings=BRISK,
    ):
        # What the listener has is finished, and so sent back, before the consumer stops.
        async with asyncio.timeout(400):
            await all_seen.wait()


async def counted(name_servers, topic):
    """How often each body is stored in a topic."""
    async with QueueReader(name_servers) as reader:
        found = Counter()
        for queue, (begin, end) in (await reader.bounds(topic)).items():
            async for columns in reader.read_range(queue, begin, end):
                found.update(columns.bodies())
        return found


class Redriver:
    """A process that sends dead letters back, and is killed on its way."""

    def __init__(self, process):
        self._process = process

    @classmethod
    async def started(cls, *arguments):
        return cls(
            await asyncio.create_subprocess_exec(
                *(sys.executable, str(REDRIVER), *map(str, arguments)),
                stdout=asyncio.subprocess.PIPE,
            )
        )

    async def has_sent(self, count):
        """Wait until it has sent so many back; how many it really has."""
        async with asyncio.timeout(120):
            while line := await self._process.stdout.readline():
                if int(line) >= count:
                    return int(line)
        raise AssertionError("it ended before")

    async def kill(self):
        self._process.kill()
        await self._process.wait()


@pytest.mark.parametrize("count", [1500, pytest.param(100_000, marks=pytest.mark.slow)])
async def test_interrupted_twice_each_comes_once(local_cluster, ariane, count):
    async with local_cluster() as cluster:
        await ariane(cluster, "topic", "create", "orders", "--queues", "4")
        await give_up(cluster, "orders", "billing", count)
        async with DeadLetters(cluster.name_servers) as letters:
            assert len([letter async for letter in letters.read("billing")]) == count

        step = count // 30
        first = await Redriver.started(cluster.name_servers, "billing", step)
        sent = await first.has_sent(count // 4)
        await first.kill()

        second = await Redriver.started(cluster.name_servers, "billing", step)
        sent += await second.has_sent(count // 4)
        cluster.brokers[0].kill()
        await second.kill()
        await cluster.brokers[0].restart()

        words = ("dead-letter", "redrive", "billing", "--yes")
        status, done = await ariane(cluster, *words)
        assert (status, done["failures"]) == (0, [])
        assert done["redriven"] + done["redriven_before"] == count
        assert 0 < done["redriven"] <= count - sent
        expected = {b"%d" % number: 2 for number in range(count)}
        assert await counted(cluster.name_servers, "orders") == expected
        assert (await ariane(cluster, *words))[1]["redriven"] == 0
