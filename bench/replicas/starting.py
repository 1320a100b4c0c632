"""How long a broker takes to start after a clean stop, and a replica to take over, by log length.

    .venv/bin/python -m bench.replicas.starting [--millions 1 5] [--keep]

Each length is written anew, once to a broker alone and once to a primary with a replica; 20 million
records take some ten minutes and 12 GB of disk. Beside the seconds stands how much of the log was
read to restore the states that follow from it: what was written since their last save. A start is
compared with one on an empty store, a takeover with the lease that every takeover waits for.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from os import getloadavg
from pathlib import Path
from typing import Final

from ariane_sdk import Message, Producer, ProducerSettings
from ariane_sdk.errors import SendError
from ariane_servicekit.running.processes import LocalCluster, ServiceProcess
from bench.measure import Row, table_of, write_results
from bench.replicas.replication import LEASE_S, wait_in_sync, wait_level

BODY: Final = b"x" * 64
BATCH: Final = 2_000
IN_FLIGHT: Final = 8


async def fill(cluster: LocalCluster, count: int) -> None:
    """Send so many small messages."""
    messages = [Message("bench", BODY)] * BATCH
    left = count // BATCH
    settings = ProducerSettings(send_timeout_s=60)
    async with Producer(cluster.name_servers, settings=settings) as producer:

        async def send() -> None:
            nonlocal left
            while left > 0:
                left -= 1
                await producer.send_batch(messages)

        await asyncio.gather(*(send() for _ in range(IN_FLIGHT)))


def read_bytes(process: ServiceProcess) -> int:
    """Bytes of the log that its last start read to restore states."""
    lines = process.log_path.read_text().splitlines()
    (*_, last) = (json.loads(line) for line in lines if "log_states_restored" in line)
    return last["max_commit_log_offset"] - min(last["begin_commit_log_offsets"].values())


async def start_after_stop(count: int) -> tuple[float, float, int]:
    """Seconds of a start on an empty store and on one with so many records; and bytes read."""
    with tempfile.TemporaryDirectory() as folder:
        async with LocalCluster(Path(folder)) as cluster:
            [broker] = cluster.brokers
            times = []
            for records in (0, count):
                await fill(cluster, records)
                await broker.stop()
                begin_s = time.monotonic()
                await broker.start()
                times.append(time.monotonic() - begin_s)
            return times[0], times[1], read_bytes(broker)


async def takeover(count: int) -> tuple[float, int]:
    """Seconds from a kill of a primary to the first acknowledged send; and bytes read."""
    flags = ("--primary-lease-s", str(LEASE_S))
    with tempfile.TemporaryDirectory() as folder:
        async with LocalCluster(Path(folder), replicas=1, extra_broker_args=flags) as cluster:
            brokers = [*cluster.brokers, *cluster.replicas]
            primary = await wait_in_sync(brokers, 2)
            await fill(cluster, count)
            await wait_in_sync(brokers, 2)
            await wait_level([primary])
            settings = ProducerSettings(send_timeout_s=120)
            async with Producer(cluster.name_servers, settings=settings) as producer:
                await producer.send(Message("bench", BODY))
                primary.kill()
                begin_s = time.monotonic()
                while True:
                    with suppress(SendError):
                        await producer.send(Message("bench", BODY))
                        break
                took = time.monotonic() - begin_s
            await primary.wait()
            return took, read_bytes(next(each for each in brokers if each is not primary))


def row_of(work: str, took: float, against: str, limit: float, read: int) -> Row:
    """One line of the table."""
    ratio = limit / took
    extra = {"MB of the log read": read / 1e6, "load": getloadavg()[0]}
    return Row(work, took, "s", against, limit, ratio, ratio, ratio, 1, extra=extra)


async def measure(millions: Sequence[float]) -> list[Row]:
    """Measure every length once."""
    rows = []
    for million in millions:
        count = round(million * 1_000_000)
        empty, took, read = await start_after_stop(count)
        records = f"{million:g} million records"
        rows.append(row_of(f"clean start, {records}", took, "empty store", empty, read))
        took, read = await takeover(count)
        rows.append(row_of(f"takeover, {records}", took, "a lease", LEASE_S, read))
    return rows


def main() -> None:
    """Measure, print, and keep if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--millions", type=float, nargs="+", default=[1, 5], help="of records")
    parser.add_argument("--keep", action="store_true", help="keep the figures for the page")
    arguments = parser.parse_args()
    rows = asyncio.run(measure(arguments.millions))
    print(table_of(rows))
    if arguments.keep:
        print(f"\nkept in {write_results('starting', rows)}")


if __name__ == "__main__":
    main()
