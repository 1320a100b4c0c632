"""Dead letters that are sent back while client and broker are killed: each comes once."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path

import pytest

from ariane_record import RecordFields
from ariane_record.single.record_copy import encode_block
from ariane_sdk import (
    DeadLetters,
    Message,
    Producer,
    PushConsumer,
    PushSettings,
    QueueReader,
)
from ariane_sdk.errors import MessagesFailed
from ariane_storage.config import StoreConfig
from ariane_storage.store import Store

GIVEN_UP = 300
"""Dead letters that a real consumer makes; the others are written into the store."""

REDRIVER = Path(__file__).with_name("redriver.py")
BRISK = PushSettings(rebalance_gap_s_min=0.05, handover_s=0.05, call_timeout_s=10.0)


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
        await producer.send_batch([Message(topic, b"%d" % number) for number in range(count)])
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
        async with asyncio.timeout(60):
            await all_seen.wait()


def bury(root, numbers):
    """Write dead letters into the store of a broker that does not run."""
    # As SMALL_STORE has it.
    config = StoreConfig(
        segment_bytes=64 << 20,
        index_slots=10_000,
        index_items=40_000,
        store_host=("127.0.0.1", 10911),
    )
    with Store.open(root, config) as store:
        for first in range(0, len(numbers), 1000):
            records = [
                RecordFields(
                    topic="",
                    body=b"%d" % number,
                    properties={
                        "DLQ_ORIGIN_TOPIC": "orders",
                        "ORIGIN_QUEUE_ID": str(number % 4),
                        "UNIQ_KEY": f"{number:032X}",
                    },
                    born_timestamp_ms=1_700_000_000_000,
                )
                for number in numbers[first : first + 1000]
            ]
            store.append(encode_block("%DLQ%billing", records), 0)


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


@pytest.mark.slow
@pytest.mark.parametrize("count", [1500, 100_000])
async def test_interrupted_twice_each_comes_once(local_cluster, ariane, count):
    async with local_cluster() as cluster:
        broker = cluster.brokers[0]
        await ariane(cluster, "topic", "create", "orders", "--queues", "4")
        await give_up(cluster, "orders", "billing", GIVEN_UP)
        # Whoever has so many had them over days.
        broker.terminate()
        await broker.wait()
        bury(cluster.data_path / broker.name, range(GIVEN_UP, count))
        await broker.restart()
        async with DeadLetters(cluster.name_servers) as letters:
            assert len([letter async for letter in letters.read("billing")]) == count

        step = count // 30
        first = await Redriver.started(cluster.name_servers, "billing", step)
        sent = await first.has_sent(count // 4)
        await first.kill()

        second = await Redriver.started(cluster.name_servers, "billing", step)
        sent += await second.has_sent(count // 4)
        broker.kill()
        await second.kill()
        await broker.restart()

        words = ("dead-letter", "redrive", "billing", "--to-topic", "--yes")
        status, done = await ariane(cluster, *words)
        assert (status, done["failures"]) == (0, [])
        assert done["redriven"] + done["redriven_before"] == count
        assert 0 < done["redriven"] <= count - sent
        expected = {b"%d" % number: 1 + (number < GIVEN_UP) for number in range(count)}
        assert await counted(cluster.name_servers, "orders") == expected
        assert (await ariane(cluster, *words))[1]["redriven"] == 0
