"""Receiving: messages a second that are received and acknowledged, beside owning the queues.

    .venv/bin/python bench/receive.py [--pairs 5] [--quick]

One broker, one topic of 4 queues, messages of 1 KiB. The work: one consumer receives all in batches
and acknowledges each batch. Its limit: one consumer that owns the queues polls all. Both of a pair
consume the same messages, each in a group of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import tempfile
import time
from contextlib import aclosing
from pathlib import Path

from measure import Row, pairs_of, table_of, write_results

from ariane_sdk import ClusterClient, Message, Producer, PullConsumer, ReceiveConsumer
from ariane_servicekit.running.processes import LocalCluster

TOPIC = "jobs"
BATCH = 2000
_groups = itertools.count()


async def send(name_servers: str, count: int) -> None:
    """Fill the queues."""
    async with ClusterClient(name_servers) as client:
        await client.create_topic(TOPIC, queue_count=4)
    async with Producer(name_servers) as producer:
        for _ in range(0, count, BATCH):
            await producer.send_batch([Message(TOPIC, bytes(1024))] * BATCH)


async def received(name_servers: str, count: int) -> float:
    """Receive and acknowledge all; how long it took."""
    consumer = ReceiveConsumer(
        name_servers, group=f"receive-{next(_groups)}", subscriptions={TOPIC: "*"}
    )
    async with consumer, aclosing(consumer.batches(BATCH)) as batches:
        # As below: the clock starts with the first messages.
        first = await anext(batches)
        begin, left = time.perf_counter(), count - len(first)
        await consumer.ack(*first)
        while left > 0:
            batch = await anext(batches)
            await consumer.ack(*batch)
            left -= len(batch)
        return (time.perf_counter() - begin) * count / (count - len(first))


async def owned(name_servers: str, count: int) -> float:
    """Poll all as the owner of all queues; how long it took."""
    consumer = PullConsumer(
        name_servers,
        group=f"own-{next(_groups)}",
        subscriptions={TOPIC: "*"},
        start="earliest",
    )
    async with consumer:
        # Joining the group is not consuming: the clock starts with the first messages.
        first = len(await consumer.poll(BATCH, timeout_s=60))
        begin, left = time.perf_counter(), count - first
        while left > 0:
            left -= len(await consumer.poll(BATCH))
        return (time.perf_counter() - begin) * count / (count - first)


async def in_turn(name_servers: str, count: int, pairs: int) -> list[tuple[float, float]]:
    """Both, one after the other; seconds of each."""
    await send(name_servers, count)
    return [
        (await received(name_servers, count), await owned(name_servers, count))
        for _ in range(pairs)
    ]


def rows(*, pairs: int, quick: bool) -> list[Row]:
    """What ``bench/run.py`` shows."""
    count = 60_000 if quick else 200_000
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(Path(folder), brokers=1) as cluster,
    ):
        measured = asyncio.run(in_turn(cluster.name_servers, count, pairs + 1))
    result = pairs_of(measured[1:])
    return [
        Row(
            work="receive and acknowledge, 1 KiB",
            ours=count / result.seconds / 1e3,
            unit="k/s",
            against="owning the queues",
            theirs=count / result.limit_seconds / 1e3,
            ratio=result.ratio,
            ratio_min=result.ratio_min,
            ratio_max=result.ratio_max,
            pairs=result.pairs,
            goal=0.9,
        )
    ]


def main() -> None:
    """Run, print, and keep unless it is a quick run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="fewer messages, nothing kept")
    arguments = parser.parse_args()
    measured = rows(pairs=arguments.pairs, quick=arguments.quick)
    print(table_of(measured))
    if not arguments.quick:
        write_results("receive", measured)


if __name__ == "__main__":
    main()
