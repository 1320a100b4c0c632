"""How long pages of the console take in a browser, with 2,000 topics and 1,000,000 messages.

    .venv/bin/python -m bench.cluster.console [--tries 7] [--messages 1000000] [--topics 2000]

Needs Debian's `chromium`. Prints a table: of each page the best and the median time from the click
until everything is drawn, and the processor seconds of admin and brokers for one view. Ends with
status 1 if the best time of a page is above one second.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from urllib.parse import quote, urlencode

import pyarrow as pa
from grpc import aio
from playwright.async_api import async_playwright

from ariane.admin.v1 import definition_service_pb2 as definition_pb
from ariane.admin.v1 import group_service_pb2 as group_pb
from ariane.admin.v1.definition_service_pb2_grpc import DefinitionServiceStub
from ariane.admin.v1.group_service_pb2_grpc import GroupServiceStub
from ariane.broker.v1.group_service_pb2 import ConsumerGroup
from ariane.broker.v1.topic_service_pb2 import Topic
from ariane_sdk import ClusterClient, Message, Producer, ProducerSettings, PushConsumer
from ariane_sdk.errors import MessagesFailed
from ariane_servicekit.running.processes import LocalCluster, ServiceProcess
from ariane_testkit.free_ports import free_port
from ariane_testkit.small_store import SMALL_STORE

SECONDS_MAX = 1.0
TABLE_ROWS = 50_000
TOPICS_AT_ONCE = 250
DEAD_LETTERS = 2_000
_TICKS = os.sysconf("SC_CLK_TCK")


async def fill(cluster: LocalCluster, topics: int, messages: int) -> Mapping[str, str]:
    """Make topics, messages, a backlog, dead letters and what waits; the pages by name."""
    servers = cluster.name_servers
    async with aio.insecure_channel(cluster.admins[0].address) as channel:
        names = [f"many-{number:05}" for number in range(topics - 1)]
        for begin in range(0, len(names), TOPICS_AT_ONCE):
            some = [
                Topic(topic=name, read_queue_count=1, write_queue_count=1)
                for name in names[begin : begin + TOPICS_AT_ONCE]
            ]
            await DefinitionServiceStub(channel).ImportDefinitions(
                definition_pb.ImportDefinitionsRequest(
                    definitions=definition_pb.Definitions(topics=some)
                )
            )
        async with ClusterClient(servers) as client:
            await client.create_topic("orders", queue_count=8)
        settings = ProducerSettings(message_trace=True, send_timeout_s=60, call_timeout_s=30)
        async with Producer(servers, settings=settings) as producer:
            for begin in range(0, messages, TABLE_ROWS):
                rows = range(begin, min(messages, begin + TABLE_ROWS))
                table = pa.table(
                    {
                        "body": pa.array([b'{"order": %d}' % row for row in rows]),
                        "keys": pa.array([[f"k{row % 100_000}"] for row in rows]),
                        "tag": pa.array(["paid"] * len(rows)),
                    }
                )
                await producer.send_columns("orders", table)
            sent = await producer.send(Message("orders", b'{"order": "last"}', keys=["last"]))
            await producer.send_batch(
                [
                    Message("orders", b"later", delay=timedelta(hours=1 + number % 24))
                    for number in range(1000)
                ]
            )
        groups = GroupServiceStub(channel)
        group = ConsumerGroup(consumer_group="behind", consume_enabled=True, attempts_max=16)
        await groups.CreateGroup(group_pb.CreateGroupRequest(group=group))
        await groups.ResetGroupOffsets(
            group_pb.ResetGroupOffsetsRequest(
                consumer_group="behind", topic="orders", earliest=True
            )
        )
        await make_dead_letters(servers)
    hour_ago = (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M")
    return {
        "overview": "/",
        "topics": "/topics",
        "topics by name": "/topics?prefix=many-019",
        "a topic": "/topics/orders",
        "groups": "/groups",
        "a group": "/groups/behind",
        "clients": "/clients",
        "messages, newest": "/messages?topic=orders",
        "messages by time": "/messages?" + urlencode({"topic": "orders", "begin": hour_ago}),
        "messages by key": "/messages?topic=orders&key=k777",
        "messages by id": f"/messages?topic=orders&unique_id={sent.unique_id}",
        "a message": f"/messages/orders/{quote(sent.message_id, safe='')}",
        "traces": f"/traces?unique_id={sent.unique_id}",
        "dead letters": "/dead-letters?group=refuses",
        "dead letters, a rare key": "/dead-letters?group=refuses&key=none-has-it",
        "delayed": "/delayed",
        "transactions": "/transactions",
        "filters": "/filters",
        "cluster": "/cluster",
        "a broker": "/cluster/broker-a",
        "alerts": "/alerts",
        "audit": "/audit",
        "settings": "/settings",
    }


async def make_dead_letters(name_servers: str) -> None:
    """Have a group refuse some messages of the million."""
    count, done = 0, asyncio.Event()

    async def refuse(messages: Sequence[object]) -> None:
        nonlocal count
        count += len(messages)
        if count >= DEAD_LETTERS:
            done.set()
        raise MessagesFailed(messages, "no such order", rejected=True)  # type: ignore[arg-type]

    logging.getLogger("ariane_sdk").setLevel(logging.ERROR)  # It fails on purpose.
    consumer = PushConsumer(
        name_servers,
        group="refuses",
        subscriptions={"orders": "*"},
        listener=refuse,
        start="earliest",
    )
    async with consumer:
        await done.wait()


def processor_seconds(processes: Sequence[ServiceProcess]) -> float:
    """What processes have used since they began."""
    ticks = 0
    for process in processes:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICKS


async def measured(
    console: str, pages: Mapping[str, str], processes: Sequence[ServiceProcess], tries: int
) -> list[tuple[str, int, float, float, float]]:
    """Of each page: HTTP status, best and median seconds, processor seconds of a view."""
    rows = []
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = await browser.new_page(base_url=console)
        page.set_default_timeout(120_000)
        for name, path in pages.items():
            times = []
            begun = processor_seconds(processes)
            for _ in range(tries):
                answer = await page.goto(path)
                milliseconds = await page.evaluate(
                    "performance.getEntriesByType('navigation')[0].duration"
                )
                times.append(milliseconds / 1000)
            used = (processor_seconds(processes) - begun) / tries
            status = answer.status if answer is not None else 0
            rows.append((name, status, min(times), median(times), used))
        await browser.close()
    return rows


async def run(topics: int, messages: int, tries: int) -> int:
    """Fill a cluster, look at every page, print the table."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        async with LocalCluster(
            Path(folder),
            brokers=2,
            checkers=1,
            filter_servers=1,
            admin=True,
            extra_broker_args=SMALL_STORE,
            extra_admin_args=("--console-listen", f"127.0.0.1:{port}"),
        ) as cluster:
            begun = time.monotonic()
            pages = await fill(cluster, topics, messages)
            print(f"filled in {time.monotonic() - begun:.0f} s", file=sys.stderr)
            processes = [*cluster.admins, *cluster.brokers]
            rows = await measured(f"http://127.0.0.1:{port}", pages, processes, tries)
    load = os.getloadavg()[0]
    print(f"{topics:,} topics, {messages:,} messages, {tries} views; load {load:.1f}\n")
    print("| Page | Status | Best, ms | Median, ms | Processor, ms |\n|---|---|---|---|---|")
    for name, status, best, middle, used in rows:
        print(
            f"| {name} | {status} | {best * 1000:.0f} | {middle * 1000:.0f} | {used * 1000:.0f} |"
        )
    slow = [name for name, _, best, _, _ in rows if best > SECONDS_MAX]
    if slow:
        print(f"above {SECONDS_MAX:g} s: {', '.join(slow)}", file=sys.stderr)
    return bool(slow)


def main() -> int:
    """Read the arguments, and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--topics", type=int, default=2000)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--tries", type=int, default=7)
    given = parser.parse_args()
    return asyncio.run(run(given.topics, given.messages, given.tries))


if __name__ == "__main__":
    sys.exit(main())
