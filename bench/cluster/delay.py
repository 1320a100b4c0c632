"""Delay: how late messages with a delivery time come, at a steady rate and all in one second.

    .venv/bin/python -m bench.cluster.delay [--quick]

Lateness is the store timestamp of the delivered message, less the time that it was sent for, both
by the broker's clock in milliseconds: it is never negative. Beside it stands a call to the same
broker during the same seconds, one at a time: what everybody else feels of the deliveries. Drift is
the median lateness of the last quarter less that of the first.

Broker and producer are processes of their own and share the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from ariane_sdk import ClusterClient, Message, Producer, QueueReader
from ariane_servicekit.running.processes import LocalCluster
from bench.measure import Row, table_of, write_results

STEADY_RATE = 5_000
BURST_COUNT = 100_000
BATCH_COUNT = 500
TOPIC_QUEUES = 4


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def message_for(topic: str, due_ms: int) -> Message:
    """A message that says itself when it is due."""
    body = b"%d" % due_ms + b"." * 100
    return Message(topic, body, deliver_at=datetime.fromtimestamp(due_ms / 1000, UTC))


async def send_steadily(producer: Producer, topic: str, seconds: float) -> int:
    """Park messages at a steady rate, due 2 to 8 seconds later; how many."""
    random, sent = Random(7), 0
    begin = time.monotonic()
    while sent < seconds * STEADY_RATE:
        due = [now_ms() + random.randrange(2000, 8000) for _ in range(BATCH_COUNT)]
        await producer.send_batch([message_for(topic, due_ms) for due_ms in due])
        sent += BATCH_COUNT
        await asyncio.sleep(max(0, begin + sent / STEADY_RATE - time.monotonic()))
    return sent


async def send_burst(producer: Producer, topic: str, count: int) -> int:
    """Park messages that all come due in one second, after they are all parked; how many."""
    random = Random(7)
    begin_ms = now_ms() + 5000 + count // 10
    for _ in range(0, count, 5000):
        due = [begin_ms + random.randrange(1000) for _ in range(5000)]
        await producer.send_batch([message_for(topic, due_ms) for due_ms in due])
    if now_ms() > begin_ms:
        raise SystemExit("this machine parks too slowly for the burst")
    await asyncio.sleep((begin_ms - now_ms()) / 1000)
    return count


async def lateness(name_servers: str, topic: str, count: int) -> list[int]:
    """Milliseconds that each message came too late, in the order of coming, once all are there."""
    late: list[tuple[int, int]] = []
    async with QueueReader(name_servers) as reader, asyncio.timeout(120):
        while sum(end for _, end in (await reader.bounds(topic)).values()) < count:  # noqa: ASYNC110 - nobody tells.
            await asyncio.sleep(0.05)
        for queue, (begin, end) in (await reader.bounds(topic)).items():
            async for columns in reader.read_range(queue, begin, end):
                stored = columns.store_timestamp_ms.tolist()
                due = (int(body.split(b".", 1)[0]) for body in columns.bodies())
                late += [(at, at - due_ms) for at, due_ms in zip(stored, due, strict=True)]
    late.sort()
    return [milliseconds for _, milliseconds in late]


def rows_of(name: str, late_ms: Sequence[int], calls_ms: Sequence[float]) -> list[Row]:
    """What was measured, percentile by percentile."""
    quarter = len(late_ms) // 4
    drift = statistics.median(late_ms[-quarter:]) - statistics.median(late_ms[:quarter])
    late, calls = sorted(late_ms), sorted(calls_ms)
    found = []
    for percentile, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
        ours = float(late[min(len(late) - 1, int(share * len(late)))])
        call = calls[min(len(calls) - 1, int(share * len(calls)))]
        ratio = call / ours if ours else 1.0
        extra = {"ms drift": drift, "messages": float(len(late))} if percentile == "p50" else {}
        found.append(
            Row(
                work=f"lateness, {name}: {percentile}",
                ours=ours,
                unit="ms",
                against="a call beside it",
                theirs=call,
                ratio=ratio,
                ratio_min=ratio,
                ratio_max=ratio,
                pairs=1,
                extra=extra,
            )
        )
    return found


async def measured(quick: bool) -> list[Row]:
    """Run both loads on one broker."""
    seconds, count = (5, 20_000) if quick else (30, BURST_COUNT)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        async with LocalCluster(Path(folder)) as cluster:
            names = cluster.name_servers
            for topic, name in (
                ("steady", f"{STEADY_RATE:,} a second"),
                ("burst", f"{count:,} in one second"),
            ):
                calls_ms: list[float] = []
                async with ClusterClient(names) as client, Producer(names) as producer:
                    await client.create_topic(topic, queue_count=TOPIC_QUEUES)
                    if topic == "steady":
                        calling = asyncio.create_task(probe(names, topic, calls_ms))
                        sent = await send_steadily(producer, topic, seconds)
                    else:
                        sent = await send_burst(producer, topic, count)
                        calling = asyncio.create_task(probe(names, topic, calls_ms))
                        await asyncio.sleep(3)
                    calling.cancel()
                    with suppress(asyncio.CancelledError):
                        await calling
                rows += rows_of(name, await lateness(names, topic, sent), calls_ms)
    return rows


async def probe(name_servers: str, topic: str, taken_ms: list[float]) -> None:
    """Ask the broker for the bounds of a topic, again and again, until it is cancelled."""
    async with QueueReader(name_servers) as reader:
        await reader.bounds(topic)
        while True:
            begin = time.perf_counter()
            await reader.bounds(topic)
            taken_ms.append((time.perf_counter() - begin) * 1000)
            await asyncio.sleep(0.002)


def rows(*, quick: bool) -> list[Row]:
    """All figures."""
    return asyncio.run(measured(quick))


def main() -> None:
    """Run, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="shorter, nothing kept")
    quick = parser.parse_args().quick
    found = rows(quick=quick)
    print(table_of(found))
    if not quick:
        print(f"kept in {write_results('delay', found)}")


if __name__ == "__main__":
    main()
