"""A real broker process, and clients that take nothing, say nothing, or take everything back."""

import asyncio
import itertools
import json
import re
import signal
import socket
import struct
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from grpc import aio

from ariane.broker.v1 import pull_service_pb2 as pull_pb
from ariane_servicekit.running.processes import ServiceProcess
from ariane_testkit.small_store import SMALL_STORE

MIB = 1 << 20

OWN_CONNECTION = [("grpc.use_local_subchannel_pool", 1)]

STOPPED_CONSUMER = """
import asyncio, os, signal, sys
from grpc import aio
from ariane.broker.v1 import pull_service_pb2 as pull_pb
from ariane.broker.v1 import query_service_pb2 as query_pb
from ariane.broker.v1.pull_service_pb2_grpc import PullServiceStub
from ariane.broker.v1.query_service_pb2_grpc import QueryServiceStub

async def main(address, kind, count):
    channel = aio.insecure_channel(address, options=[("grpc.max_receive_message_length", -1)])
    stub = PullServiceStub(channel)
    calls = []
    for _ in range(count):
        if kind == "pull":
            request = pull_pb.PullRecordsRequest(
                consumer_group="greedy",
                positions=[pull_pb.PullPosition(topic="orders")],
                record_count_max=65536, size_bytes_max=32 << 20,
            )
            calls.append(asyncio.ensure_future(stub.PullRecords(request)))
        elif kind == "query":
            request = query_pb.QueryMessagesRequest(topic="orders", key="k", message_count_max=64)
            queries = QueryServiceStub(channel)
            calls.append(asyncio.ensure_future(queries.QueryMessages(request)))
        else:
            request = pull_pb.PullRangeRequest(
                topic="orders", end_queue_offset=1 << 40, chunk_bytes=4 << 20)
            calls.append(stub.PullRange(request))
    await asyncio.sleep(0.05)
    print("asked", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
    await asyncio.wait(calls)

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


@pytest.fixture
async def start(tmp_path, probe_class):
    """Start a broker of its own; gives its process and what asks it."""
    started = []

    @asynccontextmanager
    async def run(*flags):
        process = ServiceProcess(
            "broker",
            "ariane_broker",
            ("--store-path", str(tmp_path / "store"), *SMALL_STORE, *flags),
            tmp_path / "broker.log",
        )
        started.append(process)
        await process.start()
        async with aio.insecure_channel(process.address) as channel:
            yield process, probe_class(channel, process.address)

    yield run
    for process in started:
        process.kill()
        await process.wait()


SMALL_PULL = pull_pb.PullRecordsRequest(
    consumer_group="modest",
    positions=[pull_pb.PullPosition(topic="orders")],
    size_bytes_max=MIB,
)


def own_memory(process):
    """Bytes of memory that are the process's own, mapped files left out."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+) kB", status)[1]) << 10


def events(process, name):
    lines = process.log_path.read_text().splitlines()
    return [json.loads(line) for line in lines if f'"event": "{name}"' in line]


@asynccontextmanager
async def stopped_consumer(address, kind, count):
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", STOPPED_CONSUMER, address, kind, str(count)),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(60):
            assert await child.stdout.readline() == b"asked\n"
        yield child
    finally:
        child.send_signal(signal.SIGKILL)
        await child.wait()


async def until(condition, seconds=60):
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - another process.
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    "kind",
    ["pull", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("range", "query"))],
)
async def test_a_consumer_that_takes_nothing_pins_no_more_than_the_budget(start, kind):
    async with start("--answer-bytes-max", str(32 * MIB)) as (process, broker):
        for _ in range(12):
            await broker.store("orders", [b"x" * MIB] * 4, keys=("k",) * 4)
        before = own_memory(process)
        async with stopped_consumer(process.address, kind, 60):
            most = rounds = 0
            while rounds < 20 or most < 16 * MIB:
                rounds += 1
                await broker.store("others", [b"a"])
                pulled = await broker.pulls.PullRecords(SMALL_PULL, timeout=60)
                assert pulled.queues[0].record_sizes
                most = max(most, own_memory(process) - before)
            # 60 answers are 48 MiB and more each; gRPC has a second copy of what it sends.
            assert most < 192 * MIB
        # Its connection is gone, and all room is free again: a pull has more than the least.
        await until_granted(broker)


async def until_granted(broker):
    large = pull_pb.PullRecordsRequest()
    large.CopyFrom(SMALL_PULL)
    large.size_bytes_max = 3 * MIB
    async with asyncio.timeout(60):
        while len((await broker.pulls.PullRecords(large)).queues[0].record_sizes) < 8:  # noqa: ASYNC110 - the same.
            await asyncio.sleep(0.02)


async def test_clients_that_vanish_leave_no_traces(start):
    async with start() as (process, broker):
        for _ in range(12):
            await broker.store("orders", [b"x" * MIB] * 4)
        async with stopped_consumer(process.address, "range", 40):
            pass
        await until_granted(broker)
    process.terminate()
    await process.wait()
    lines = process.log_path.read_text().splitlines()
    assert [line for line in lines if not line.startswith("{")] == []
    assert [line for line in lines if "exception" in json.loads(line)] == []


def raw_connection(address):
    """An HTTP/2 connection of which only the preface is said."""
    host, port = address.rsplit(":", 1)
    connection = socket.create_connection((host, int(port)))
    connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b""))
    return connection


def frame(kind, flags, stream_id, payload):
    return (
        struct.pack(">I", len(payload))[1:]
        + bytes([kind, flags])
        + struct.pack(">I", stream_id)
        + payload
    )


def headers(path):
    def text(value):
        return bytes([len(value)]) + value

    return (
        b"\x83\x86\x04"
        + text(path)
        + b"\x01"
        + text(b"localhost")
        + b"\x0f\x10"
        + text(b"application/grpc")
        + b"\x00"
        + text(b"te")
        + text(b"trailers")
    )


async def test_streams_that_are_reset_at_once_are_told(start):
    async with start() as (process, broker):
        block = headers(b"/ariane.broker.v1.ClientService/Attach")
        with raw_connection(process.address) as connection:
            connection.settimeout(0)  # As the loop wants it.
            port = connection.getsockname()[1]
            loop = asyncio.get_running_loop()

            async def drain():
                while await loop.sock_recv(connection, 65536):
                    pass

            async def flood():
                for first in itertools.count(1, 1000):
                    burst = b"".join(
                        frame(1, 4, stream, block) + frame(3, 0, stream, struct.pack(">I", 8))
                        for stream in range(first, first + 1000, 2)
                    )
                    await loop.sock_sendall(connection, burst)
                    await broker.store("orders", [b"a"])

            async with asyncio.timeout(60):
                draining = asyncio.create_task(drain())
                with pytest.raises(ConnectionError):
                    await flood()
                # Its end is read, too: in order, or as the reset of what it had not read.
                await asyncio.gather(draining, return_exceptions=True)
        await broker.store("orders", [b"b"])
        await until(lambda: events(process, "calls_cancelled_in_bulk"))
        (told,) = events(process, "calls_cancelled_in_bulk")
        assert told["peer"] == f"ipv4:127.0.0.1:{port}"
        assert told["cancelled_count"] == 1000


async def test_one_connection_does_not_lock_all_others_out(start, refused):
    async with start("--concurrent-calls-max", "100", "--held-pulls-max", "50") as (
        process,
        broker,
    ):
        await broker.store("orders", [b"a"])
        async with aio.insecure_channel(process.address, options=OWN_CONNECTION) as channel:
            greedy = type(broker)(channel, process.address)
            streams = [greedy.clients.Attach() for _ in range(60)]
            readings = [asyncio.ensure_future(stream.read()) for stream in streams]
            ended, _ = await asyncio.wait(readings, return_when=asyncio.FIRST_COMPLETED)
            failure = await refused(ended.pop())
            assert (failure.reason, failure.code) == ("SERVICE_BUSY", "RESOURCE_EXHAUSTED")
            failure = await refused(greedy.store("orders", [b"b"]))
            assert (failure.reason, failure.metadata) == ("SERVICE_BUSY", {"limit": "25"})
            await broker.store("orders", [b"c"])
            for stream in streams:
                stream.cancel()
            await asyncio.gather(*readings, return_exceptions=True)


@pytest.mark.slow
async def test_streams_that_say_nothing_end_within_seconds(start, refused):
    async with start() as (_, broker):
        silent = [
            *(broker.clients.Attach() for _ in range(50)),
            *(broker.pulls.StreamPulls() for _ in range(50)),
        ]
        begin = time.monotonic()
        for call in silent:
            failure = await refused(call.read())
            assert (failure.reason, failure.code) == ("DEADLINE_PASSED", "DEADLINE_EXCEEDED")
        assert 9 < time.monotonic() - begin < 60
        await broker.store("orders", [b"a"])
