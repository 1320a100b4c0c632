"""The price of one message at a time: processor time of client and broker.

    .venv/bin/python -m bench.cluster.calls [--pairs 9] [--count 2000]
        [--beside OTHER/.venv/bin/python]
    .venv/bin/python -m bench.cluster.calls --once uvloop

Each leg is a process with a client of ours, a name server, a broker and a server that echoes, on
asyncio's loop or uvloop's. Every work is done one at a time but the last: a message is sent; sent
by ``ariane_sdk.sync``; received and acknowledged; sent and found by a pull; sent in a transaction;
and 64 are in flight. The echo is a bare call with as many bytes.
``--beside`` names the Python of a worktree at another commit: legs of both alternate, and each row
has the ratio of the medians.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import grpc

import ariane_wire
from ariane_sdk import Message, Producer, PullConsumer, ReceiveConsumer, sync
from ariane_servicekit.running.processes import LocalCluster

BODY = bytes(range(256)) * 4
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
TOPIC = "calls"
SETTLE_S = 2.0


def spent_s(pid: int) -> float:
    """Processor time of a process, by the scheduler's own count."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9 + others_s(pid)


def others_s(pid: int) -> float:
    """Processor time of its other threads."""
    threads = [each for each in Path(f"/proc/{pid}/task").iterdir() if each.name != str(pid)]
    return sum(int((each / "schedstat").read_text().split()[0]) for each in threads) / 1e9


class Leg:
    """The measurements of one process."""

    def __init__(self, broker_pid: int, echo_pid: int, count: int) -> None:
        self._pids = {"broker": broker_pid, "echo": echo_pid}
        self._count = count
        self.rows: dict[str, dict[str, float]] = {}

    async def measure(self, name: str, work: Callable[[], Awaitable[object]]) -> None:
        """Do a work so many times, after a warm-up of a tenth."""
        for _ in range(self._count // 10):
            await work()
        with self.row(name):
            for _ in range(self._count):
                await work()

    def row(self, name: str, count: int = 0) -> _Row:
        """Measure a block that does a work so many times; 0: as often as each work is done."""
        server = self._pids["echo" if name == "echo" else "broker"]
        return _Row(self.rows, name, server, count or self._count)


class _Row:
    def __init__(
        self, rows: dict[str, dict[str, float]], name: str, server: int, count: int
    ) -> None:
        self._rows, self._name, self._server, self._count = rows, name, server, count

    def __enter__(self) -> None:
        self._begin = (spent_s(os.getpid()), spent_s(self._server), time.perf_counter())

    def __exit__(self, *_: object) -> None:
        end = (spent_s(os.getpid()), spent_s(self._server), time.perf_counter())
        client, server, wall = (
            (after - before) / self._count * 1e6
            for before, after in zip(self._begin, end, strict=True)
        )
        self._rows[self._name] = {"client_us": client, "server_us": server, "wall_us": wall}


async def leg(count: int) -> dict[str, dict[str, float]]:
    """Measure all works once."""
    with tempfile.TemporaryDirectory() as folder:
        echo = await asyncio.create_subprocess_exec(
            sys.executable, __file__, "--echo", stdout=asyncio.subprocess.PIPE
        )
        assert echo.stdout is not None
        try:
            port = int(await echo.stdout.readline())
            async with LocalCluster(Path(folder)) as cluster:
                measured = Leg(cluster.brokers[0].pid, echo.pid, count)
                await echoes(measured, port)
                await messages(measured, cluster.name_servers)
                return measured.rows
        finally:
            echo.kill()
            await echo.wait()


async def echoes(measured: Leg, port: int) -> None:
    """Bare calls."""
    async with ariane_wire.insecure_channel(f"127.0.0.1:{port}") as channel:
        echo = channel.unary_unary("/bench.Echo/Echo")
        await measured.measure("echo", lambda: echo(BODY, timeout=3.0))


async def messages(measured: Leg, name_servers: str) -> None:
    """Messages, one at a time, and 64 in flight."""
    async with Producer(name_servers, group="bench") as producer:
        await producer.send(Message(TOPIC, BODY))
        # What a broker that has just started does beside its work is over then.
        await asyncio.sleep(SETTLE_S)
        await in_flight(measured, producer)
        await measured.measure("send", lambda: producer.send(Message(TOPIC, BODY)))
        await measured.measure("transaction", partial(transact, producer))
        await receive(measured, name_servers, producer)
        await poll(measured, name_servers, producer)
    await asyncio.to_thread(send_blocking, measured, name_servers)


async def transact(producer: Producer) -> None:
    """One transaction that is committed."""
    async with producer.transaction(Message(TOPIC, BODY)):
        pass


async def in_flight(measured: Leg, producer: Producer) -> None:
    """64 senders. Each message costs so little that many are needed to see it."""

    async def send_some(times: int) -> None:
        for _ in range(times):
            await producer.send(Message(TOPIC, BODY))

    times = measured._count // 16  # noqa: SLF001 - a friend.
    await asyncio.gather(*(send_some(times) for _ in range(64)))
    with measured.row("send, 64 in flight", 64 * times):
        await asyncio.gather(*(send_some(times) for _ in range(64)))


async def receive(measured: Leg, name_servers: str, producer: Producer) -> None:
    """Messages that are there are received and acknowledged, one by one."""
    count = measured._count  # noqa: SLF001 - a friend.
    subscriptions = {"received": "*"}
    await producer.send(Message("received", BODY))
    async with ReceiveConsumer(
        name_servers, group="bench-receive", subscriptions=subscriptions
    ) as consumer:
        await consumer.receive_batch(1, timeout_s=1)
        await producer.send_batch([Message("received", BODY) for _ in range(count * 12 // 10)])

        async def one() -> None:
            [message] = await consumer.receive_batch(1, timeout_s=60)
            await consumer.ack(message)

        await measured.measure("receive and acknowledge", one)


async def poll(measured: Leg, name_servers: str, producer: Producer) -> None:
    """One message is sent, and found by a pull that waits for it."""
    subscriptions = {"polled": "*"}
    async with PullConsumer(
        name_servers, group="bench-poll", subscriptions=subscriptions, start="earliest"
    ) as consumer:
        await producer.send(Message("polled", BODY))
        await consumer.poll(1, timeout_s=60)

        async def one() -> None:
            await producer.send(Message("polled", BODY))
            await consumer.poll(1, timeout_s=60)

        await measured.measure("send and poll", one)


def send_blocking(measured: Leg, name_servers: str) -> None:
    """Sends by the blocking client."""
    count = measured._count  # noqa: SLF001 - a friend.
    with sync.Producer(name_servers) as producer:
        for _ in range(count // 10):
            producer.send(Message(TOPIC, BODY))
        with measured.row("send by ariane_sdk.sync"):
            for _ in range(count):
                producer.send(Message(TOPIC, BODY))


async def serve_echoes() -> None:
    """Answer each call with its request, until killed."""

    async def echo(request: bytes, _context: object) -> bytes:
        return request

    server = ariane_wire.server()
    handler = grpc.unary_unary_rpc_method_handler(echo)
    table = grpc.method_handlers_generic_handler("bench.Echo", {"Echo": handler})
    server.add_generic_rpc_handlers((table,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    await server.wait_for_termination()


def once(python: str, loop: str, count: int) -> dict[str, dict[str, float]]:
    """One leg, in a process of its own."""
    command = (python, __file__, "--once", loop, "--count", str(count))
    services = ("NAMESRV", "BROKER")
    loops = {f"ARIANE_{service}_EVENT_LOOP": loop for service in services}
    done = subprocess.run(
        command, stdout=subprocess.PIPE, check=True, env={**os.environ, **loops, "BENCH_LOOP": loop}
    )
    rows: dict[str, dict[str, float]] = json.loads(done.stdout)
    return rows


def on_loop(loop: str, work: Awaitable[object]) -> object:
    """Run on the loop that is named."""
    if loop == "uvloop":
        import uvloop  # noqa: PLC0415 - only where it is asked for.

        factory = uvloop.new_event_loop
    else:
        factory = asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(work)  # type: ignore[arg-type]  # It is a coroutine.


def main() -> None:
    """Measure in turns, and print a table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--pairs", type=int, default=9)
    arguments.add_argument("--count", type=int, default=2000)
    arguments.add_argument("--beside", default="")
    arguments.add_argument("--loops", default="asyncio,uvloop")
    arguments.add_argument("--once", default="")
    arguments.add_argument("--echo", action="store_true")
    given = arguments.parse_args()
    if given.echo:
        on_loop(os.environ.get("BENCH_LOOP", "asyncio"), serve_echoes())
        return
    if given.once:
        sys.stdout.write(json.dumps(on_loop(given.once, leg(given.count))) + "\n")
        return
    trees = {"here": sys.executable, **({"beside": given.beside} if given.beside else {})}
    for loop in given.loops.split(","):
        legs: dict[str, list[dict[str, dict[str, float]]]] = {tree: [] for tree in trees}
        for _ in range(given.pairs):
            for tree, python in trees.items():
                legs[tree].append(once(python, loop, given.count))
        sys.stdout.write(table(loop, legs) + "\n")
        sys.stdout.flush()


def table(loop: str, legs: dict[str, list[dict[str, dict[str, float]]]]) -> str:
    """Medians with their ranges, in microseconds."""
    lines = [f"{loop}, load {os.getloadavg()[0]:.1f}"]
    for name in legs["here"][0]:
        cells = []
        for tree, measured in legs.items():
            cpu = [each[name]["client_us"] + each[name]["server_us"] for each in measured]
            parts = [
                statistics.median(each[name][part] for each in measured)
                for part in ("client_us", "server_us", "wall_us")
            ]
            cells.append(
                f"{tree}: {statistics.median(cpu):.0f} us ({min(cpu):.0f} to {max(cpu):.0f});"
                f" client {parts[0]:.0f}, server {parts[1]:.0f}, wall {parts[2]:.0f}"
            )
        lines.append(f"  {name:26} " + " | ".join(cells))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
