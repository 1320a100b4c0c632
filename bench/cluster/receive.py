"""Receiving: messages a second that are received and acknowledged, beside owning the queues.

    .venv/bin/python -m bench.cluster.receive [--pairs 5] [--quick]

One broker, one topic of 4 queues, messages of 1 KiB. The work: consumers of one group, in one
process, receive all in batches and acknowledge each batch. Its limit: one consumer that owns the
queues polls all. Both of a pair consume the same messages, each in a group of its own. The clock
of both starts when every consumer is connected and has had a message. In both, whoever asks for the
next batch has dropped the last one: Python's garbage collector visits what is kept again and again.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
import time
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

from ariane_sdk import (
    ClusterClient,
    Message,
    Producer,
    PullConsumer,
    ReceiveConsumer,
    ReceivedMessage,
)
from ariane_servicekit.running.processes import LocalCluster
from bench.measure import Paired, Row, pairs_of, program

TOPIC = "jobs"
BATCH = 2000
MEMBERS = (1, 8, 64)
_groups = itertools.count()


async def send(name_servers: str, count: int) -> None:
    """Fill the queues."""
    async with ClusterClient(name_servers) as client:
        await client.create_topic(TOPIC, queue_count=4)
    async with Producer(name_servers) as producer:
        for _ in range(0, count, BATCH):
            await producer.send_batch([Message(TOPIC, bytes(1024))] * BATCH)


async def received(name_servers: str, count: int, members: int) -> float:
    """Receive and acknowledge all, shared by members of one group; how long it took."""
    group = f"receive-{next(_groups)}"
    left, connected = count, 0
    done, begun = asyncio.Event(), asyncio.Event()

    async def settle(consumer: ReceiveConsumer, batch: Sequence[ReceivedMessage]) -> None:
        nonlocal left
        await consumer.ack(*batch)
        left -= len(batch)
        if left <= 0:
            done.set()

    async def consume() -> None:
        nonlocal connected
        consumer = ReceiveConsumer(name_servers, group=group, subscriptions={TOPIC: "*"})
        async with consumer:
            # Connecting is not consuming: the clock starts when each has had a message.
            await settle(consumer, await consumer.receive_batch(1, timeout_s=60))
            connected += 1
            if connected == members:
                begun.set()
            await begun.wait()
            async with aclosing(consumer.batches(BATCH)) as batches:
                while True:
                    await settle(consumer, await anext(batches))

    async with asyncio.TaskGroup() as all_members:
        tasks = [all_members.create_task(consume()) for _ in range(members)]
        await begun.wait()
        begin, timed = time.perf_counter(), left
        await done.wait()
        seconds = time.perf_counter() - begin
        for task in tasks:
            task.cancel()
    return seconds * count / timed


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


async def in_turn(
    name_servers: str, count: int, pairs: int
) -> dict[int, list[tuple[float, float]]]:
    """Both, one after the other; seconds of each, by members that receive."""
    await send(name_servers, count)
    return {
        members: [
            (await received(name_servers, count, members), await owned(name_servers, count))
            for _ in range(pairs)
        ]
        for members in MEMBERS
    }


def rows(*, pairs: int, quick: bool) -> list[Row]:
    """What ``python -m bench.run`` shows."""
    count = 60_000 if quick else 200_000
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(Path(folder), brokers=1) as cluster,
    ):
        measured = asyncio.run(in_turn(cluster.name_servers, count, pairs + 1))
    return [_row(members, count, pairs_of(each[1:])) for members, each in measured.items()]


def _row(members: int, count: int, result: Paired) -> Row:
    return Row(
        work=f"receive and acknowledge, 1 KiB, {members} consumer{'s' * (members > 1)}",
        ours=count / result.seconds / 1e3,
        unit="k/s",
        against="one that owns the queues",
        theirs=count / result.limit_seconds / 1e3,
        ratio=result.ratio,
        ratio_min=result.ratio_min,
        ratio_max=result.ratio_max,
        pairs=result.pairs,
        goal=0.9,
    )


if __name__ == "__main__":
    program("receive", __doc__, rows, pairs=5)
