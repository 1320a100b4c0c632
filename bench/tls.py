"""What TLS costs: the same work at two clusters of this machine, in plain text and over TLS.

    .venv/bin/python bench/tls.py [--pairs 5] [--quick]

Both clusters are up at the same time, and take turns. Over TLS all connections are encrypted, those
to the name server with them, and the producer shows a certificate.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from measure import Row, table_of, write_results

from ariane_sdk import Message, Producer, Tls
from ariane_servicekit.running.processes import LocalCluster

BODY = b"x" * 1024
TOGETHER = 256


async def batches(producer: Producer, count: int) -> float:
    """Messages a second in batches of a thousand."""
    begin = time.perf_counter()
    for _ in range(max(1, count // 1000)):
        await producer.send_batch([Message("tls", BODY)] * 1000)
    return max(1, count // 1000) * 1000 / (time.perf_counter() - begin)


async def single_sends(producer: Producer, count: int) -> float:
    """Messages a second, each sent and awaited by one of many tasks."""

    async def send() -> None:
        for _ in range(count // TOGETHER):
            await producer.send(Message("tls", BODY))

    begin = time.perf_counter()
    await asyncio.gather(*(send() for _ in range(TOGETHER)))
    return count // TOGETHER * TOGETHER / (time.perf_counter() - begin)


async def lone_sends(producer: Producer, count: int) -> float:
    """Sends a second at the median of one after the other."""
    took = []
    for _ in range(count // 50):
        begin = time.perf_counter()
        await producer.send(Message("tls", BODY))
        took.append(time.perf_counter() - begin)
    return 1 / statistics.median(took)


WORKS: dict[str, tuple[Callable[[Producer, int], Awaitable[float]], str]] = {
    "batches of 1,000 messages of 1 KiB": (batches, "messages/s"),
    f"single sends of 1 KiB, {TOGETHER} at a time": (single_sends, "messages/s"),
    "lone sends of 1 KiB, median": (lone_sends, "sends/s"),
}


async def measure(*, pairs: int, count: int) -> list[Row]:
    """Run each work so many times, by turns in plain text and over TLS."""
    with tempfile.TemporaryDirectory() as folder:
        async with (
            LocalCluster(Path(folder) / "plain") as plain,
            LocalCluster(Path(folder) / "tls", tls=True) as encrypted,
        ):
            assert encrypted.certificates is not None
            tls = Tls(**encrypted.certificates.user("bench"))
            async with (
                Producer(plain.name_servers, tls=False) as without,
                Producer(encrypted.name_servers, tls=tls) as over_tls,
            ):
                rows = []
                for name, (work, unit) in WORKS.items():
                    for producer in (without, over_tls):
                        await work(producer, count // 10)
                    both = [
                        (await work(without, count), await work(over_tls, count))
                        for _ in range(pairs)
                    ]
                    rows.append(row_of(name, unit, both))
                return rows


def row_of(name: str, unit: str, both: list[tuple[float, float]]) -> Row:
    """One work, over its pairs."""
    ratios = [theirs / plain for plain, theirs in both]
    return Row(
        work=f"over TLS: {name}",
        ours=statistics.median(theirs for _, theirs in both),
        unit=unit,
        against="the same in plain text",
        theirs=statistics.median(plain for plain, _ in both),
        ratio=statistics.median(ratios),
        ratio_min=min(ratios),
        ratio_max=max(ratios),
        pairs=len(both),
    )


def rows(*, pairs: int, quick: bool) -> list[Row]:
    """All rows of this benchmark."""
    return asyncio.run(measure(pairs=pairs, count=20_000 if quick else 100_000))


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5, help="pairs of each work (default 5)")
    parser.add_argument("--quick", action="store_true", help="short works, nothing kept")
    arguments = parser.parse_args()
    measured = rows(pairs=arguments.pairs, quick=arguments.quick)
    print(table_of(measured))
    if not arguments.quick:
        print(f"\nkept in {write_results('tls', measured)}")


if __name__ == "__main__":
    main()
