"""What senders and live consumers notice of groups that read a cold backlog, and how fast they do.

    .venv/bin/python bench/backlog.py --folder /var/tmp/backlog [--gib 4] [--groups 1,4,16]
        [--read-mb 80 --reads 200]

A broker has a backlog of 16 queues on its disk. Before each case its files are dropped from the
page cache. Then 300 lone messages a second are sent in an open loop, and heard by a live consumer;
beside them so many groups read the backlog from its begin, each queue after queue, or all queues at
once. With limits, the broker's reads are held to them by a cgroup (as root; blkio of version 1, or
io of version 2). The folder must be on the disk that is meant: not on tmpfs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import statistics
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ariane_sdk import (
    ClusterClient,
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
)
from ariane_servicekit.running.processes import LocalCluster

TOPIC = "backlog"
LIVE = "live"
QUEUES = 16
BODY_BYTES = 1024
BATCH = 2000
LIVE_PER_S = 300
QUEUE_ENDS_S = 5
LAST_S = 2
"""Seconds in which the last messages are heard."""
STAMP = struct.Struct("<q")
CGROUPS = Path("/sys/fs/cgroup")
LIMITED = "ariane-backlog"


# The peers: processes of their own.


async def live(name_servers: str, seconds: float) -> dict[str, list[float]]:
    """Send lone messages on a schedule and hear them; what each took from when it was due, ms."""
    sent: list[float] = []
    heard: list[float] = []

    async def listener(messages: Sequence[ReceivedMessage]) -> None:
        now_ns = time.monotonic_ns()
        heard.extend((now_ns - STAMP.unpack_from(each.body)[0]) / 1e6 for each in messages)

    async def one(producer: Producer, due_ns: int) -> None:
        await producer.send(Message(LIVE, STAMP.pack(due_ns) + bytes(BODY_BYTES)))
        sent.append((time.monotonic_ns() - due_ns) / 1e6)

    consumer = PushConsumer(
        name_servers, group=f"live-{os.getpid()}", subscriptions={LIVE: "*"}, listener=listener
    )
    async with Producer(name_servers) as producer, consumer:
        await consumer.wait_assigned()
        await one(producer, time.monotonic_ns())
        print("ready", flush=True)
        begin_ns = time.monotonic_ns()
        async with asyncio.TaskGroup() as sends:
            for number in range(round(seconds * LIVE_PER_S)):
                due_ns = begin_ns + number * 1_000_000_000 // LIVE_PER_S
                await asyncio.sleep(max(0.0, (due_ns - time.monotonic_ns()) / 1e9))
                sends.create_task(one(producer, due_ns))
        await asyncio.sleep(LAST_S)
    return {"sent": sent, "heard": heard}


class Laggers:
    """Groups that read the backlog."""

    def __init__(self, name_servers: str) -> None:
        self.counts: list[int] = []
        """What each second brought, of all groups."""
        self._name_servers = name_servers
        self._total = 0

    async def all_at_once(self, group: str) -> None:
        """Read all queues as their owner."""
        consumer = PullConsumer(
            self._name_servers,
            group=group,
            subscriptions={TOPIC: "*"},
            start="earliest",
        )
        async with consumer:
            while True:
                self._total += len(await consumer.poll(BATCH, timeout_s=60))

    async def queue_by_queue(self, group: str) -> None:
        """Read one queue after another."""
        for queue_id in range(QUEUES):
            async with PullConsumer(self._name_servers, group=group, start="earliest") as consumer:
                await consumer.assign([MessageQueue(TOPIC, "broker-a", queue_id)])
                while polled := await consumer.poll(BATCH, timeout_s=QUEUE_ENDS_S):
                    self._total += len(polled)

    async def count(self) -> None:
        """Count by second."""
        while True:
            before = self._total
            await asyncio.sleep(1)
            self.counts.append(self._total - before)


async def lag(name_servers: str, groups: int, *, at_once: bool) -> dict[str, object]:
    """Read the backlog as so many groups until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    laggers = Laggers(name_servers)
    read = laggers.all_at_once if at_once else laggers.queue_by_queue
    tasks = [asyncio.create_task(read(f"lag-{os.getpid()}-{number}")) for number in range(groups)]
    tasks.append(asyncio.create_task(laggers.count()))
    print("ready", flush=True)
    await stop.wait()
    for task in tasks:
        task.cancel()
    for failure in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(failure, Exception):
            raise failure
    return {"counts": laggers.counts}


async def start(role: str, **what: object) -> asyncio.subprocess.Process:
    """Start a peer and wait until it is ready."""
    peer = await asyncio.create_subprocess_exec(
        sys.executable,
        __file__,
        "--peer",
        json.dumps({"role": role, **what}),
        stdout=asyncio.subprocess.PIPE,
    )
    assert peer.stdout is not None
    assert await peer.stdout.readline() == b"ready\n", f"{role} did not begin"
    return peer


async def said(peer: asyncio.subprocess.Process) -> dict:
    """What a peer says when it is done."""
    out, _ = await peer.communicate()
    assert peer.returncode == 0, f"a peer ended with status {peer.returncode}"
    return json.loads(out)


# The disk.


def device_of(folder: Path) -> str:
    """The numbers of the whole disk that a folder is on."""
    number = folder.stat().st_dev
    block = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
    if (block / "partition").exists():
        block = block.parent
    return (block / "dev").read_text().strip()


@contextmanager
def slowed(pids: Sequence[int], device: str, read_mb: float, reads: int) -> Iterator[None]:
    """Hold the reads of processes to limits; 0: none."""
    if not read_mb:
        yield
        return
    old = CGROUPS / "blkio"
    folder = (old if old.exists() else CGROUPS) / LIMITED
    folder.mkdir(exist_ok=True)
    bytes_max = round(read_mb * 1e6)
    if old.exists():
        (folder / "blkio.throttle.read_bps_device").write_text(f"{device} {bytes_max}")
        (folder / "blkio.throttle.read_iops_device").write_text(f"{device} {reads}")
    else:
        (CGROUPS / "cgroup.subtree_control").write_text("+io")
        (folder / "io.max").write_text(f"{device} rbps={bytes_max} riops={reads}")
    for each in pids:
        (folder / "cgroup.procs").write_text(str(each))
    try:
        yield
    finally:
        for each in pids:
            (folder.parent / "cgroup.procs").write_text(str(each))
        folder.rmdir()


def family(pid: int) -> list[int]:
    """A process and all below it."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(each for child in children for each in family(int(child)))]


def read_bytes(pid: int) -> int:
    """What a process has read from disks since its start."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["read_bytes"])


def drop(folder: Path) -> None:
    """Have the system forget the files of a store."""
    os.sync()
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


# The measurement.


async def fill(name_servers: str, size_bytes: int) -> int:
    """Store the backlog; the number of its messages."""
    count = 0
    async with ClusterClient(name_servers) as client:
        await client.create_topic(TOPIC, queue_count=QUEUES)
        await client.create_topic(LIVE, queue_count=4)
    batch = [Message(TOPIC, os.urandom(BODY_BYTES)) for _ in range(BATCH)]
    async with Producer(name_servers) as producer:
        while count * BODY_BYTES < size_bytes:
            await producer.send_batch(batch)
            count += BATCH
    return count


async def case(
    name_servers: str, pids: Sequence[int], groups: int, seconds: float, *, at_once: bool
) -> dict:
    """Measure live traffic beside so many groups; the broker's processes are known by their ids."""
    laggers = None
    if groups:
        laggers = await start("lag", name_servers=name_servers, groups=groups, at_once=at_once)
        await asyncio.sleep(2)
    live_peer = await start("live", name_servers=name_servers, seconds=seconds)
    before = sum(map(read_bytes, pids))
    told = await said(live_peer)
    disk_bytes = sum(map(read_bytes, pids)) - before
    counts = []
    if laggers is not None:
        laggers.send_signal(signal.SIGTERM)
        counts = (await said(laggers))["counts"]
    sent, heard = np.percentile(told["sent"], [50, 99]), np.percentile(told["heard"], [50, 99])
    return {
        "groups": groups,
        "way": "" if not groups else "all queues at once" if at_once else "queue by queue",
        "send p50": sent[0],
        "send p99": sent[1],
        "hear p50": heard[0],
        "hear p99": heard[1],
        "disk": disk_bytes / 1e6 / (seconds + LAST_S),
        "backlog/s": statistics.median(counts) if counts else 0,
        "load": os.getloadavg()[0],
    }


async def measure(folder: Path, arguments: argparse.Namespace) -> None:
    """All cases, each printed as it comes."""
    limits = (device_of(folder), arguments.read_mb, arguments.reads)
    cases = [(0, False)]
    for groups in map(int, arguments.groups.split(",")):
        cases += [(groups, False), (groups, True)]
    async with LocalCluster(folder) as cluster:
        pids = family(cluster.brokers[0].pid)
        count = await fill(cluster.name_servers, arguments.gib << 30)
        print(f"{count:,} messages of {BODY_BYTES} bytes in {QUEUES} queues\n", flush=True)
        print(
            "| groups | each reads | send p50 | p99 | hear p50 | p99 ms | backlog/s | disk MB/s |"
            " load |"
        )
        print("|---|---|---|---|---|---|---|---|---|", flush=True)
        for groups, at_once in cases:
            drop(folder)
            with slowed(pids, *limits):
                row = await case(
                    cluster.name_servers, pids, groups, arguments.seconds, at_once=at_once
                )
            print(
                "| {groups} | {way} | {send p50:.1f} | {send p99:.1f} | {hear p50:.1f} |"
                " {hear p99:.1f} | {backlog/s:,.0f} | {disk:.0f} | {load:.0f} |".format(**row),
                flush=True,
            )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", help="a new folder on the disk that is meant")
    parser.add_argument("--gib", type=int, default=4, help="size of the backlog (default 4)")
    parser.add_argument("--groups", default="1,4,16", help="groups that lag, by case")
    parser.add_argument("--seconds", type=float, default=15.0, help="of each case (default 15)")
    parser.add_argument("--read-mb", type=float, default=0, help="megabytes read a second; 0: any")
    parser.add_argument("--reads", type=int, default=200, help="reads a second, with --read-mb")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        what = json.loads(arguments.peer)
        if what["role"] == "lag":
            os.nice(10)  # As if elsewhere: the disk is measured, not how processors are shared.
        peer = {"live": live, "lag": lag}[what.pop("role")]
        print(json.dumps(asyncio.run(peer(**what))))
        return
    if not arguments.folder:
        parser.error("--folder is needed")
    folder = Path(arguments.folder)
    folder.mkdir(parents=True)
    try:
        asyncio.run(measure(folder, arguments))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
