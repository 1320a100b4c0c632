"""What telemetry costs: messages a second with all of it on, beside none.

    .venv/bin/python -m bench.cluster.telemetry [--pairs 7] [--quick]

Two brokers side by side, 1 KiB a message. One tells nothing. The other has a page for Prometheus,
which is read every five seconds, and tells a collector of metrics and spans; producer and consumer
tell that collector of spans, and one batch in a hundred is sampled.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path
from threading import Event, Thread

from ariane_sdk import (
    ClusterClient,
    Message,
    Producer,
    ProducerSettings,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)
from ariane_servicekit.running.processes import LocalCluster
from ariane_testkit.free_ports import free_port
from ariane_testkit.otlp_receiver import otlp_receiver
from bench.measure import Row, pairs_of, program

TOPIC = "orders"
BATCH = 2000
SAMPLED = "0.01"
_groups = itertools.count()


async def sent(name_servers: str, endpoint: str, count: int) -> float:
    """Send messages in batches; how long it took."""
    settings = ProducerSettings(otlp_endpoint=endpoint)
    async with Producer(name_servers, settings=settings) as producer:
        await producer.send_batch([Message(TOPIC, bytes(1024))] * BATCH)
        begin = time.perf_counter()
        for _ in range(0, count, BATCH):
            await producer.send_batch([Message(TOPIC, bytes(1024))] * BATCH)
        return time.perf_counter() - begin


async def heard(name_servers: str, endpoint: str, count: int) -> float:
    """Have a listener hear messages, a thousand a call; how long it took."""
    done, times = asyncio.Event(), []
    left = count

    async def listen(messages: Sequence[ReceivedMessage]) -> None:
        nonlocal left
        if not times:
            times.append(time.perf_counter())
        left -= len(messages)
        if left <= 0:
            done.set()

    async with PushConsumer(
        name_servers,
        group=f"hear-{next(_groups)}",
        subscriptions={TOPIC: "*"},
        listener=listen,
        batch_size=1000,
        start="earliest",
        settings=PushSettings(otlp_endpoint=endpoint),
    ):
        await done.wait()
    return time.perf_counter() - times[0]


async def in_turn(
    on: str, off: str, endpoint: str, count: int, pairs: int
) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Both works with and without, one after the other; seconds of each."""
    for name_servers in (on, off):
        async with ClusterClient(name_servers) as client:
            await client.create_topic(TOPIC, queue_count=4)
    sends = [(await sent(on, endpoint, count), await sent(off, "", count)) for _ in range(pairs)]
    hears = [(await heard(on, endpoint, count), await heard(off, "", count)) for _ in range(pairs)]
    return sends, hears


def scrape(page: str, stop: Event) -> None:
    """Read the page of metrics every five seconds; Prometheus would more seldom."""
    while not stop.wait(5.0):
        with contextlib.suppress(OSError), closing(HTTPConnection(page, timeout=5)) as connection:
            connection.request("GET", "/metrics")
            connection.getresponse().read()


def rows(*, pairs: int, quick: bool) -> list[Row]:
    """What is measured."""
    count = 40_000 if quick else 100_000
    os.environ |= {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": SAMPLED}
    with ExitStack() as stack:
        endpoint = stack.enter_context(otlp_receiver()).endpoint
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        page = f"127.0.0.1:{free_port()}"
        flags = ("--metrics-listen", page, "--otlp-endpoint", endpoint, "--otlp-interval-s", "5")
        on = stack.enter_context(LocalCluster(folder / "on", brokers=1, extra_broker_args=flags))
        off = stack.enter_context(LocalCluster(folder / "off", brokers=1))
        stop = Event()
        scraping = Thread(target=scrape, args=(page, stop))
        scraping.start()
        stack.callback(scraping.join)
        stack.callback(stop.set)
        measured = asyncio.run(
            in_turn(on.name_servers, off.name_servers, endpoint, count, pairs + 1)
        )
    made = []
    for work, seconds in zip(("send batches", "hear batches"), measured, strict=True):
        result = pairs_of(seconds[1:])
        made.append(
            Row(
                work=f"{work}, 1 KiB, telemetry on",
                ours=count / result.seconds / 1e3,
                unit="k/s",
                against="telemetry off",
                theirs=count / result.limit_seconds / 1e3,
                ratio=result.ratio,
                ratio_min=result.ratio_min,
                ratio_max=result.ratio_max,
                pairs=result.pairs,
                goal=0.95,
            )
        )
    return made


if __name__ == "__main__":
    program("telemetry", __doc__, rows, pairs=7)
