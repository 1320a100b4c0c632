"""A broker that gets no more memory or file descriptors loses nothing that it has acknowledged."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from ariane_sdk import Message, Producer, ProducerSettings, QueueReader
from ariane_sdk.errors import ArianeError
from ariane_servicekit.running.processes import LocalCluster

pytestmark = pytest.mark.slow

SPARE_DESCRIPTORS = 3
SPARE_BYTES = 2 << 20
LARGE = bytes(1 << 20)
PRODUCERS = 16
SENDS_MAX = 640
BURST = 64
IMPATIENT = ProducerSettings(send_timeout_s=3.0, call_timeout_s=1.0)


@asynccontextmanager
async def small_cluster(folder: Path) -> AsyncIterator[LocalCluster]:
    flags = ("--segment-bytes", str(8 << 20), "--default-queue-count", "1")
    async with LocalCluster(folder, extra_broker_args=flags) as cluster:
        yield cluster


def open_descriptors(process_id: int) -> int:
    return sum(1 for _ in Path(f"/proc/{process_id}/fd").iterdir())


def used_bytes(process_id: int) -> int:
    pages = Path(f"/proc/{process_id}/statm").read_text().split()[0]
    return int(pages) * resource.getpagesize()


async def stored_bodies(cluster: LocalCluster) -> list[bytes]:
    bodies = []
    async with QueueReader(cluster.name_servers) as reader:
        for queue, (begin, end) in (await reader.bounds("orders")).items():
            async for columns in reader.read_range(queue, begin, end):
                bodies += [bytes(body[:8]) for body in columns.bodies()]
    return bodies


async def test_a_broker_without_descriptors_serves_those_it_has_and_recovers(tmp_path):
    async with small_cluster(tmp_path / "cluster") as cluster:
        [broker] = cluster.brokers
        async with Producer(cluster.name_servers) as old:
            await old.send(Message("orders", b"%8d" % 0))
            open_count = open_descriptors(broker.pid)
            before = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
            few = (open_count + SPARE_DESCRIPTORS, before[1])
            resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, few)
            refused = 0
            async with AsyncExitStack() as crowd:
                for number in range(1, 9):
                    producer = Producer(cluster.name_servers, settings=IMPATIENT)
                    new = await crowd.enter_async_context(producer)
                    try:
                        await new.send(Message("orders", b"%8d" % number))
                    except ArianeError:
                        refused += 1
                    # Who is connected goes on, whatever becomes of others.
                    await old.send(Message("orders", b"%8d" % (100 + number)))
            assert refused
            resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, before)
            async with Producer(cluster.name_servers) as late:
                await late.send(Message("orders", b"%8d" % 200))
        bodies = await stored_bodies(cluster)
        assert {b"%8d" % number for number in (0, *range(101, 109), 200)} <= set(bodies)
        assert len(bodies) == len(set(bodies))
        assert await broker.stop() == 0


async def test_a_broker_without_memory_loses_nothing_that_was_acknowledged(tmp_path):
    async with small_cluster(tmp_path / "cluster") as cluster:
        [broker] = cluster.brokers
        acknowledged = []
        async with AsyncExitStack() as crowd:
            producers = [
                await crowd.enter_async_context(Producer(cluster.name_servers, settings=IMPATIENT))
                for _ in range(PRODUCERS)
            ]
            await producers[0].send(Message("orders", b"%8d" % 0))
            bytes_max = used_bytes(broker.pid) + SPARE_BYTES
            resource.prlimit(broker.pid, resource.RLIMIT_AS, (bytes_max, bytes_max))
            for begin in range(1, SENDS_MAX, BURST):
                numbers = range(begin, begin + BURST)
                outcomes = await asyncio.gather(
                    *(
                        producers[n % PRODUCERS].send(Message("orders", b"%8d" % n + LARGE))
                        for n in numbers
                    ),
                    return_exceptions=True,
                )
                refused = [isinstance(outcome, Exception) for outcome in outcomes]
                acknowledged += [n for n, was in zip(numbers, refused, strict=True) if not was]
                if any(refused):
                    break
        assert any(refused)
        broker.kill()
        await broker.wait()
        await broker.start()
        bodies = await stored_bodies(cluster)
        assert {b"%8d" % number for number in acknowledged} <= set(bodies)
        assert len(bodies) == len(set(bodies))
