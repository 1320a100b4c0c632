"""ArianeMQ with a backlog; live traffic and groups that lag are processes of their own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import struct
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final

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
from bench.backlog.disk import Limits, drop, family, keep, read_bytes, slowed
from bench.backlog.table import (
    BODY_BYTES,
    LAGGING_BEFORE_S,
    LIVE,
    LIVE_PER_S,
    QUEUES,
    TOPIC,
    Case,
    Measured,
    Reading,
    median_and_p99,
)

NAME: Final = "ArianeMQ"
BATCH: Final = 2000
QUEUE_ENDS_S: Final = 5
LAST_S: Final = 2
"""Seconds in which the last messages are heard."""
STAMP: Final = struct.Struct("<q")


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

    def __init__(self, name_servers: str, per_s: float) -> None:
        """``per_s``: messages that all groups together read a second at most; 0: any number."""
        self.counts: list[int] = []
        """What each second brought, of all groups."""
        self._name_servers = name_servers
        self._per_s = per_s
        self._begin_s = time.monotonic()
        self._total = 0

    async def _got(self, count: int) -> None:
        """Count messages, and wait until so many are due."""
        self._total += count
        if self._per_s:
            await asyncio.sleep(self._begin_s + self._total / self._per_s - time.monotonic())

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
                await self._got(len(await consumer.poll(BATCH, timeout_s=60)))

    async def queue_by_queue(self, group: str) -> None:
        """Read one queue after another."""
        for queue_id in range(QUEUES):
            async with PullConsumer(self._name_servers, group=group, start="earliest") as consumer:
                await consumer.assign([MessageQueue(TOPIC, "broker-a", queue_id)])
                while polled := await consumer.poll(BATCH, timeout_s=QUEUE_ENDS_S):
                    await self._got(len(polled))

    async def count(self) -> None:
        """Count by second."""
        while True:
            before = self._total
            await asyncio.sleep(1)
            self.counts.append(self._total - before)


async def lag(name_servers: str, groups: int, *, at_once: bool, per_s: float) -> dict[str, object]:
    """Read the backlog as so many groups until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    laggers = Laggers(name_servers, per_s)
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
        "-m",
        "bench.backlog",
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


async def fill(name_servers: str, size_bytes: int) -> None:
    """Store the backlog."""
    count = 0
    async with ClusterClient(name_servers) as client:
        await client.create_topic(TOPIC, queue_count=QUEUES)
        await client.create_topic(LIVE, queue_count=4)
    batch = [Message(TOPIC, os.urandom(BODY_BYTES)) for _ in range(BATCH)]
    async with Producer(name_servers) as producer:
        while count * BODY_BYTES < size_bytes:
            await producer.send_batch(batch)
            count += BATCH


async def measured(name_servers: str, pids: Sequence[int], case: Case, how: Reading) -> Measured:
    """Measure live traffic beside groups; the broker's processes are known by their ids."""
    laggers = None
    if case.groups:
        laggers = await start(
            "lag",
            name_servers=name_servers,
            groups=case.groups,
            at_once=case.at_once,
            per_s=how.per_s,
        )
        await asyncio.sleep(LAGGING_BEFORE_S)
    live_peer = await start("live", name_servers=name_servers, seconds=how.seconds)
    before = sum(map(read_bytes, pids))
    told = await said(live_peer)
    disk_bytes = sum(map(read_bytes, pids)) - before
    counts = []
    if laggers is not None:
        laggers.send_signal(signal.SIGTERM)
        counts = (await said(laggers))["counts"]
    return Measured(
        median_and_p99(told["sent"]),
        median_and_p99(told["heard"]),
        counts,
        disk_bytes / 1e6 / (how.seconds + LAST_S),
    )


async def measure(
    folder: Path, size_bytes: int, cases: Sequence[Case], limits: Limits, how: Reading
) -> AsyncIterator[tuple[Case, Measured]]:
    """All cases beside a backlog of so many bytes, each as it comes."""
    async with LocalCluster(folder) as cluster:
        pids = family(cluster.brokers[0].pid)
        await fill(cluster.name_servers, size_bytes)
        for case in cases:
            (keep if how.is_warm else drop)(folder)
            with slowed(pids, limits):
                row = await measured(cluster.name_servers, pids, case, how)
            yield case, row


def run_peer(what: dict[str, Any]) -> None:
    """Be one of the processes beside the broker, and print what was measured."""
    role = what.pop("role")
    if role == "lag":
        os.nice(10)  # As if elsewhere: the disk is measured, not how processors are shared.
    peer = {"live": live, "lag": lag}[role]
    print(json.dumps(asyncio.run(peer(**what))))
