"""A page that the disk cannot read, a segment that somebody shortens: real files, real processes.

A mapping of such a file is a signal that ends the process.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from lossy_file import LossyFile, can_lose_pages

from integration.faults.disks.test_store_folder import SEGMENT_BYTES, cluster_in, read_all, send

pytestmark = pytest.mark.slow

PAGE = 4096
LOST = 100 * PAGE
"""Where in the first segment the lost page lies: of 1,000 messages of 1,100 bytes."""


def ariane_store(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run one of the offline tools."""
    command = [Path(sys.executable).with_name("ariane"), "store", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def told(log: Path, event: str) -> list[dict[str, object]]:
    """Lines of a broker's log."""
    lines = [line for line in log.read_text().splitlines() if f'"{event}"' in line]
    return [json.loads(line) for line in lines]


def few_are_missing(found: list[bytes], sent: list[bytes]) -> bool:
    """Whether all but what lay on one page of four messages is there."""
    return set(found) < set(sent) and len(sent) - 6 < len(found) < len(sent)


@pytest.mark.skipif(not can_lose_pages(), reason="only root can mount FUSE")
async def test_a_broker_serves_all_but_a_page_that_the_disk_cannot_read(tmp_path: Path) -> None:
    async with cluster_in(tmp_path) as cluster:
        (broker,) = cluster.brokers
        sent = await send(cluster, "orders", 800, size=1000)
        store = tmp_path / "broker-a"
        segment = store / "commitlog" / f"{0:020d}"
        broker.kill()
        await broker.wait()
        (store / "checkpoint").unlink()
        with LossyFile(segment, LOST, LOST + PAGE):
            with pytest.raises(OSError, match="Input/output error"):
                segment.read_bytes()

            fsck = ariane_store("fsck", store)
            assert fsck.returncode == 1, fsck
            assert f"commitlog/{segment.name}" in fsck.stdout
            assert "the disk cannot read it" in fsck.stdout
            dump = ariane_store("dump", store, "-o", "jsonl")
            assert dump.returncode == 1, dump
            assert len(sent) - 6 < len(dump.stdout.splitlines()) < len(sent)
            (line,) = [line for line in dump.stderr.splitlines() if "cannot read it" in line]
            assert f"commitlog/{segment.name}, byte " in line
            assert LOST - 1200 < int(line.rpartition("byte ")[2].rstrip(")")) < LOST + PAGE

            # The scan of its start meets the page.
            await broker.start()
            assert few_are_missing(await read_all(cluster, "orders"), sent)
            more = await send(cluster, "orders", 100)
            assert set(more) < set(await read_all(cluster, "orders"))
            assert "the disk cannot read it" in broker.log_path.read_text()
            await broker.stop()
            # A start without a scan: the page is met by reads, and known from before.
            await broker.start()
            assert few_are_missing(await read_all(cluster, "orders"), sent + more)
            await broker.stop()


@pytest.mark.skipif(not can_lose_pages(), reason="only root can mount FUSE")
async def test_a_read_meets_a_page_that_the_disk_cannot_read(tmp_path: Path) -> None:
    async with cluster_in(tmp_path) as cluster:
        (broker,) = cluster.brokers
        sent = await send(cluster, "orders", 800, size=1000)
        await broker.stop()
        segment = tmp_path / "broker-a" / "commitlog" / f"{0:020d}"
        with LossyFile(segment, LOST, LOST + PAGE):
            await broker.start()
            pid = broker.pid
            assert few_are_missing(await read_all(cluster, "orders"), sent)
            await until_told(broker.log_path, "damage_found")
            (damage,) = told(broker.log_path, "damage_found")
            assert damage["reason"] == "the disk cannot read it"
            assert (broker.running, broker.pid) == (True, pid)
            await broker.stop()


async def test_a_segment_is_shortened_under_a_running_broker(tmp_path: Path) -> None:
    async with cluster_in(tmp_path) as cluster:
        (broker,) = cluster.brokers
        sent = await send(cluster, "orders", 2000, size=1000)
        segment = tmp_path / "broker-a" / "commitlog" / f"{0:020d}"
        pid = broker.pid
        os.truncate(segment, LOST)

        found = await read_all(cluster, "orders")

        assert set(found) < set(sent)
        # A record has more than 1,000 bytes, and what was not cut off is served.
        assert 2000 - (SEGMENT_BYTES - LOST) // 1000 <= len(found) < 2000
        await until_told(broker.log_path, "damage_found")
        more = await send(cluster, "orders", 100)
        assert set(more) < set(await read_all(cluster, "orders"))
        assert (broker.running, broker.pid) == (True, pid)


async def until_told(log: Path, event: str) -> None:
    async with asyncio.timeout(60):
        while not told(log, event):  # noqa: ASYNC110 - another process writes it.
            await asyncio.sleep(0.05)
