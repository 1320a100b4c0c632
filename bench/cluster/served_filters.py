"""Filters as consumers meet them: pulls of a topic by tag, condition and uploaded code, beside all.

    .venv/bin/python -m bench.cluster.served_filters [--pairs 5] [--quick]

A cluster of processes with one FilterServer. One queue of flights is pulled from end to end, one
pull after another, each for 4096 messages or 2 MiB: all of it and by a tag that one message in a
hundred has, and by a condition, from the broker; by uploaded code from the FilterServer, which has
one jailed worker for each and pulls from the broker itself.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path

import wasmtime
from grpc import aio

from ariane.broker.v1.pull_service_pb2 import PullPosition, PullRecordsRequest
from ariane.broker.v1.pull_service_pb2_grpc import PullServiceStub
from ariane.common.v1 import subscription_pb2 as subscription_pb
from ariane.filter.v1.filter_service_pb2 import UploadFilterRequest
from ariane.filter.v1.filter_service_pb2_grpc import FilterServiceStub
from ariane_sdk import Message, Producer
from ariane_servicekit.running.processes import LocalCluster
from bench.measure import Row, paired, program
from bench.store.filters import CONDITION, ORIGINS, PYTHON, SQL_GOAL, UPLOADED_GOAL, WASM, row

TOPIC = "flights"
BATCH = 2000
TAG_GOAL = 3.0
"""How many times as fast as all messages those of a tag that 1 % have should be gone through."""

GOALS = {"condition": SQL_GOAL, "Python": UPLOADED_GOAL, "WebAssembly": UPLOADED_GOAL}
"""Thousands of messages a second."""

OPTIONS = (("grpc.max_receive_message_length", -1),)


async def send(name_servers: str, count: int) -> None:
    """Flights of 256 bytes each in one queue; one in a hundred is tagged as an arrival."""
    async with Producer(name_servers) as producer:
        for first in range(0, count, BATCH):
            await producer.send_batch(
                [
                    Message(
                        TOPIC,
                        bytes(256),
                        tag="arrived" if number % 100 == 0 else "departed",
                        keys=(f"key-{number:08}",),
                        properties={
                            "origin": ORIGINS[number % 3],
                            "dest": "BOS",
                            "carrier": "UA",
                            "dep_delay": str(number % 200 - 20),
                        },
                    )
                    for number in range(first, first + BATCH)
                ]
            )


async def upload(address: str, name: str, code: bytes) -> str:
    """What the filter is called."""
    async with aio.insecure_channel(address) as channel:
        request = UploadFilterRequest(filter=name, module=code)
        kept = (await FilterServiceStub(channel).UploadFilter(request)).filter
    return f"{kept.filter}@{kept.version}"


async def pull_all(address: str, kind: int, text: str, count: int) -> int:
    """Pull the topic's queues to their ends; how many bytes of records came."""
    found = 0
    expression = subscription_pb.FilterExpression(kind=kind, text=text)
    subscription = subscription_pb.Subscription(topic=TOPIC, filter=expression)
    async with aio.insecure_channel(address, options=OPTIONS) as channel:
        stub = PullServiceStub(channel)
        offsets = dict.fromkeys(range(4), 0)
        while sum(offsets.values()) < count:
            answer = await stub.PullRecords(
                PullRecordsRequest(
                    consumer_group="bench",
                    positions=[
                        PullPosition(topic=TOPIC, queue_id=queue_id, queue_offset=offset)
                        for queue_id, offset in offsets.items()
                    ],
                    subscriptions=[subscription],
                    record_count_max=4096,
                    size_bytes_max=2 << 20,
                )
            )
            for queue in answer.queues:
                assert not queue.HasField("error"), queue.error
                offsets[queue.queue_id] = queue.next_queue_offset
                found += len(queue.records)
    return found


def rows(*, pairs: int, quick: bool) -> list[Row]:
    """All rows."""
    count = 20_000 if quick else 100_000
    with (
        tempfile.TemporaryDirectory() as folder,
        asyncio.Runner() as runner,
        LocalCluster(Path(folder), filter_servers=1) as cluster,
    ):
        broker, server = cluster.brokers[0].address, cluster.filter_servers[0].address
        runner.run(send(cluster.name_servers, count))
        python = runner.run(upload(server, "late", PYTHON))
        wasm = runner.run(upload(server, "first", bytes(wasmtime.wat2wasm(WASM))))
        tag, sql = subscription_pb.FILTER_KIND_TAG, subscription_pb.FILTER_KIND_SQL92
        uploaded = subscription_pb.FILTER_KIND_UPLOADED

        def work(address: str, kind: int, text: str) -> Callable[[], object]:
            return lambda: runner.run(pull_all(address, kind, text, count))

        works = {
            "tag": ("a tag of 1 % of the messages", work(broker, tag, "arrived")),
            "condition": ("a condition over two properties", work(broker, sql, CONDITION)),
            "Python": ("uploaded Python, one worker", work(server, uploaded, python)),
            "WebAssembly": ("uploaded WebAssembly, one worker", work(server, uploaded, wasm)),
        }
        everything = work(broker, tag, "*")
        return [
            row(
                f"pulls by {what}",
                paired(pull, everything, pairs=pairs),
                "pulling all",
                count,
                goal=TAG_GOAL if name == "tag" else None,
                figure_goal=GOALS.get(name),
            )
            for name, (what, pull) in works.items()
        ]


if __name__ == "__main__":
    program("served_filters", __doc__, rows, pairs=5)
