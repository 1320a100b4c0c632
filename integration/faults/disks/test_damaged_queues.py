"""Files of consume queues are exchanged or overwritten: real files, under real brokers."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import numpy as np
import pytest

from ariane_sdk import Message, Producer
from ariane_servicekit.running.processes import LocalCluster
from ariane_storage.queues.consume_queue_entry import ENTRY, Entries
from integration.faults.disks.test_store_folder import cluster_in, read_all, send

pytestmark = pytest.mark.slow

STALL_S_MAX = 20.0
"""How long a send may take on a machine that is busy; without care it was minutes."""


def queue_files(store: Path, topic: str) -> list[Path]:
    """The files of all queues of a topic, each of one file, in order."""
    return sorted((store / "consumequeue" / topic).glob("*/*"))


def entries_in(path: Path) -> Entries:
    entries = np.frombuffer(path.read_bytes(), ENTRY)
    written = np.flatnonzero(entries["size"])
    return entries[: written[-1] + 1 if written.size else 0]


async def written_out(store: Path, topic: str, count: int) -> list[Path]:
    """Wait until all entries of a topic are in its files."""
    async with asyncio.timeout(60):
        while sum(len(entries_in(path)) for path in queue_files(store, topic)) < count:  # noqa: ASYNC110 - the disk tells nobody
            await asyncio.sleep(0.05)
    return queue_files(store, topic)


def overwrite(path: Path, content: bytes) -> None:
    """Change a file that a broker may have open."""
    with path.open("r+b") as file:
        file.write(content)


@pytest.mark.parametrize("broker_is", ["running", "stopped", "killed"])
async def test_messages_behind_exchanged_files_are_those_of_their_topic(
    tmp_path: Path, broker_is: str
) -> None:
    async with cluster_in(tmp_path) as cluster, asyncio.timeout(120):
        (broker,) = cluster.brokers
        orders = await send(cluster, "orders", 400)
        returns = await send(cluster, "returns", 300, size=130)
        store = tmp_path / "broker-a"
        files = await written_out(store, "orders", 400)
        others = await written_out(store, "returns", 300)
        if broker_is == "killed":
            broker.kill()
            await broker.wait()
        elif broker_is == "stopped":
            await broker.stop()
        for one, other in zip(files, others, strict=True):
            contents = one.read_bytes(), other.read_bytes()
            overwrite(one, contents[1])
            overwrite(other, contents[0])
        if broker_is != "running":
            await broker.start()
        assert await read_all(cluster, "orders") == sorted(orders)
        assert await read_all(cluster, "returns") == sorted(returns)
        orders += await send(cluster, "orders", 50)
        assert await read_all(cluster, "orders") == sorted(orders)


def make_foreign(files: list[Path], store: Path) -> None:
    """Have all entries lead anywhere in the log."""
    dice = np.random.default_rng(7)
    log_bytes = sum(path.stat().st_size for path in (store / "commitlog").iterdir())
    for path in files:
        entries = entries_in(path).copy()
        entries["commit_log_offset"] = dice.integers(0, log_bytes, len(entries))
        overwrite(path, entries.tobytes())


async def slowest_send(cluster: LocalCluster, reading: asyncio.Task[list[bytes]]) -> float:
    """The longest time that a send to another topic takes while a read goes on."""
    slowest = 0.0
    async with Producer(cluster.name_servers) as producer:
        while not reading.done():
            begin = time.monotonic()
            await producer.send(Message("other", b"x"))
            slowest = max(slowest, time.monotonic() - begin)
    return slowest


async def test_foreign_files_hold_up_neither_other_calls_nor_the_stop(tmp_path: Path) -> None:
    flags = ("--segment-bytes", str(16 << 20), "--consume-queue-entries", "20000")
    async with (
        LocalCluster(tmp_path, extra_broker_args=flags) as cluster,
        asyncio.timeout(240),
    ):
        (broker,) = cluster.brokers
        sent = sorted(await send(cluster, "orders", 30_000))
        await send(cluster, "other", 1)
        store = tmp_path / "broker-a"
        files = await written_out(store, "orders", 30_000)

        make_foreign(files, store)
        reading = asyncio.create_task(read_all(cluster, "orders"))
        assert await slowest_send(cluster, reading) < STALL_S_MAX
        assert reading.result() == sent
        assert broker.log_path.read_text().count('"queue_repaired"') == len(files)

        make_foreign(files, store)
        begun = broker.log_path.read_text().count('"queue_repair_begun"')
        reading = asyncio.create_task(read_all(cluster, "orders"))
        while broker.log_path.read_text().count('"queue_repair_begun"') == begun:  # noqa: ASYNC110 - a log tells nobody
            await asyncio.sleep(0.01)
        assert await broker.stop() == 0
        reading.cancel()
        await broker.start()
        assert await read_all(cluster, "orders") == sent
