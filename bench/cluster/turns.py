"""What a lone send waits while one client asks a broker for much: p50, p99 and the longest.

    .venv/bin/python -m bench.cluster.turns [--seconds 10] [--kinds query,scrape] [--keep]

A message is due every 5 ms and measured from then, at an otherwise idle broker and beside each of

    query      a query by key that passes over a million messages of that key, again and again
    8 queries  eight of them at once
    condition  pulls with a condition of 100 CONTAINS that no message fulfils
    scrape     Prometheus, every second, with 2,000 topics and 300 groups, each with 20 offsets
    deletion   of 4 GiB that are old enough, in segments of 256 MiB, as each day at 04:00

Whoever asks is a process of its own, and all share the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

import grpc

from ariane.broker.v1 import broker_service_pb2 as broker_pb
from ariane.broker.v1 import offset_service_pb2 as offset_pb
from ariane.broker.v1 import pull_service_pb2 as pull_pb
from ariane.broker.v1 import query_service_pb2 as query_pb
from ariane.broker.v1.broker_service_pb2_grpc import BrokerServiceStub
from ariane.broker.v1.offset_service_pb2_grpc import OffsetServiceStub
from ariane.broker.v1.pull_service_pb2_grpc import PullServiceStub
from ariane.broker.v1.query_service_pb2_grpc import QueryServiceStub
from ariane.common.v1 import subscription_pb2 as subscription_pb
from ariane_sdk import ClusterClient, Message, Producer, ProducerSettings
from ariane_servicekit.running.processes import LocalCluster
from ariane_testkit.free_ports import free_port
from bench.measure import Row, table_of, write_results

KEYED: Final = 1_000_000
TOPICS: Final = 2_000
GROUPS: Final = 300
TOPICS_OF_GROUP: Final = 20
BATCH: Final = 2_000
INTERVAL_S: Final = 0.005
CONDITION: Final = " OR ".join(f"colour CONTAINS 'x{number}'" for number in range(100))
OLD_BYTES: Final = 4 << 30
OLD_BODY_BYTES: Final = 64 << 10
SEGMENT_BYTES: Final = 256 << 20
RETENTION_S: Final = 3.6
DELETION: Final = "deletion"
KINDS: Final = ("nothing", "query", "8 queries", "condition", "scrape", DELETION)


def ask(kind: str, address: str, metrics: str) -> None:
    """Ask a broker for much, until this process is ended."""
    with grpc.insecure_channel(address) as channel:
        queries, pulls = QueryServiceStub(channel), PullServiceStub(channel)
        print("asking", flush=True)
        if kind == DELETION:
            gone = BrokerServiceStub(channel).CleanBroker(broker_pb.CleanBrokerRequest())
            print(f"{gone.segment_count} segments are deleted", file=sys.stderr, flush=True)
        while True:
            if kind == DELETION:
                time.sleep(1)
            elif kind == "scrape":
                urllib.request.urlopen(f"http://{metrics}/metrics").read()
                time.sleep(1)
            elif kind == "condition":
                wanted = subscription_pb.FilterExpression(
                    kind=subscription_pb.FILTER_KIND_SQL92, text=CONDITION
                )
                pulls.PullRecords(
                    pull_pb.PullRecordsRequest(
                        consumer_group="readers",
                        positions=[pull_pb.PullPosition(topic="keyed")],
                        subscriptions=[subscription_pb.Subscription(topic="keyed", filter=wanted)],
                    )
                )
            else:
                request = query_pb.QueryMessagesRequest(
                    topic="keyed", key="k", before_commit_log_offset=1
                )
                count = 8 if kind == "8 queries" else 1
                calls = [queries.QueryMessages.future(request) for _ in range(count)]
                for call in calls:
                    call.result()


async def fill(cluster: LocalCluster) -> None:
    """Write the messages of the key, the topics, and the offsets of the groups."""
    names = [f"topic-{number}" for number in range(TOPICS)]
    async with ClusterClient(cluster.name_servers) as client:
        for topic in ("keyed", "lone", *names):
            await client.create_topic(topic, queue_count=1)
    async with Producer(cluster.name_servers) as producer:
        properties = {"colour": "red"}
        keyed = [Message("keyed", b"m", keys=("k",), properties=properties)] * BATCH
        for _ in range(KEYED // BATCH):
            await producer.send_batch(keyed)
        for topic in names:
            await producer.send(Message(topic, b"m"))
    async with grpc.aio.insecure_channel(cluster.brokers[0].address) as channel:
        stub = OffsetServiceStub(channel)
        for number in range(GROUPS):
            chosen = [names[(number + place) % TOPICS] for place in range(TOPICS_OF_GROUP)]
            offsets = [offset_pb.QueueConsumerOffset(topic=each, queue_offset=0) for each in chosen]
            await stub.StoreConsumerOffsets(
                offset_pb.StoreConsumerOffsetsRequest(
                    consumer_group=f"group-{number}", offsets=offsets
                )
            )


async def fill_with_old(cluster: LocalCluster) -> None:
    """Write what is old enough to be deleted at once, and on the disk before anything is measured.

    It is deleted together with all else, so nothing is measured after that.
    """
    old = [Message("lone", os.urandom(OLD_BODY_BYTES))] * 64
    async with Producer(cluster.name_servers) as producer:
        for _ in range(OLD_BYTES // OLD_BODY_BYTES // len(old)):
            await producer.send_batch(old)
    await asyncio.to_thread(os.sync)
    await asyncio.sleep(RETENTION_S)


async def lone_sends(cluster: LocalCluster, seconds: float) -> list[float]:
    """Milliseconds from when each message was due to its acknowledgement, sorted."""
    took: list[float] = []
    settings = ProducerSettings(send_timeout_s=120)
    async with Producer(cluster.name_servers, settings=settings) as producer:

        async def send(due: float) -> None:
            await producer.send(Message("lone", b"x" * 100))
            took.append((time.perf_counter() - due) * 1000)

        await producer.send(Message("lone", b"first"))
        begin = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for number in range(round(seconds / INTERVAL_S)):
                due = begin + number * INTERVAL_S
                await asyncio.sleep(max(0, due - time.perf_counter()))
                group.create_task(send(due))
    return sorted(took)


async def measure(seconds: float, kinds: Collection[str]) -> list[Row]:
    """Measure beside nothing, and beside these kinds of questions, one after the other."""
    metrics = f"127.0.0.1:{free_port()}"
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        flags = (
            *("--metrics-listen", metrics),
            *("--segment-bytes", str(SEGMENT_BYTES)),
            *("--retention-hours", str(RETENTION_S / 3600)),
            *("--delete-at-hour", str((time.localtime().tm_hour + 12) % 24)),
        )
        async with LocalCluster(Path(folder), extra_broker_args=flags) as cluster:
            if set(kinds) - {"nothing", DELETION}:
                await fill(cluster)
            for kind in (each for each in KINDS if each == "nothing" or each in kinds):
                asked = None
                if kind == DELETION:
                    await fill_with_old(cluster)
                if kind != "nothing":
                    command = (sys.executable, "-m", "bench.cluster.turns", "--ask", kind)
                    places = (str(cluster.brokers[0].address), metrics)
                    asked = await asyncio.create_subprocess_exec(
                        *command, *places, stdout=subprocess.PIPE
                    )
                    assert asked.stdout is not None
                    await asked.stdout.readline()
                try:
                    found[kind] = await lone_sends(cluster, seconds)
                finally:
                    if asked is not None:
                        asked.kill()
                        await asked.wait()
    return [row_of(kind, times, found["nothing"]) for kind, times in found.items()]


def row_of(kind: str, times: Sequence[float], alone: Sequence[float]) -> Row:
    """The p99 of one kind, beside that without any question."""
    ours, theirs = p99_of(times), p99_of(alone)
    ratio = theirs / ours
    extra = {
        "p50 ms": statistics.median(times),
        "longest ms": times[-1],
        "load": os.getloadavg()[0],
    }
    work = f"lone send beside {kind}, p99"
    return Row(work, ours, "ms", "beside nothing", theirs, ratio, ratio, ratio, 1, extra=extra)


def p99_of(times: Sequence[float]) -> float:
    """The 99th percentile of sorted times."""
    return times[len(times) * 99 // 100]


def main() -> None:
    """Measure, print, and keep if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="of each (default 10)")
    parser.add_argument("--kinds", default=",".join(KINDS), help="which (default all)")
    parser.add_argument("--keep", action="store_true", help="keep the figures for the page")
    parser.add_argument("--ask", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.ask:
        ask(*arguments.ask)
    rows = asyncio.run(measure(arguments.seconds, arguments.kinds.split(",")))
    print(table_of(rows))
    if arguments.keep:
        print(f"\nkept in {write_results('turns', rows)}")


if __name__ == "__main__":
    main()
