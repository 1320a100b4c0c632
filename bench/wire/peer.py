"""One end of ``bench/wire`` as a process of its own: serves, or calls.

    python -m bench.wire.peer serve '{"runtime": "wire", "loop": "asyncio"}'
    python -m bench.wire.peer call '<a Work as JSON>'

The server says its address, and for each line that it reads what it has used so far. The caller
says what it has measured.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import uvloop

import ariane_wire

RUNTIMES: dict[str, Any] = {"grpcio": grpc.aio, "wire": ariane_wire}
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
SMALL = bytes(1_100)
LARGE = bytes(64 << 10)
PIECES_AHEAD = 8
"""How many large messages of a stream are under way."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a caller does."""

    runtime: str
    """Either "grpcio" or "wire"."""
    loop: str
    """Either "asyncio" or "uvloop"."""
    address: str
    """Of the server."""
    kind: str
    """One of "unary", "stream", "bulk" or "beside"."""
    in_flight: int
    """How many small calls at a time."""
    seconds: float
    """How long it is measured."""

    def to_json(self) -> str:
        """The work as an argument."""
        return json.dumps(asdict(self))


class Echo(grpc.GenericRpcHandler):
    """Answers with what it is asked."""

    def service(self, handler_call_details: Any) -> Any:
        if handler_call_details.method.endswith("/Once"):
            return grpc.unary_unary_rpc_method_handler(self.once)
        return grpc.stream_stream_rpc_method_handler(self.many)

    async def once(self, request: bytes, _: Any) -> bytes:
        return request

    async def many(self, requests: Any, _: Any) -> AsyncIterator[bytes]:
        async for request in requests:
            yield request


def usage() -> dict[str, float]:
    """Processor seconds and memory of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "cpu_s": used.ru_utime + used.ru_stime,
        "rss_octets": pages * resource.getpagesize(),
    }


async def serve(runtime: str) -> None:
    """Serve until the input ends."""
    server = RUNTIMES[runtime].server(handlers=[Echo()])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"127.0.0.1:{port}", flush=True)
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while await lines.readline():
        gc.collect()
        print(json.dumps(usage()), flush=True)
    await server.stop(None)


async def call(work: Work) -> dict[str, float]:
    """Warm up, then measure."""
    async with RUNTIMES[work.runtime].insecure_channel(work.address) as channel:
        kinds = {"unary": unary, "stream": stream, "bulk": bulk, "beside": beside}
        await kinds[work.kind](channel, work.in_flight, work.seconds / 4)
        before = usage()["cpu_s"]
        begin = time.perf_counter()
        taken = await kinds[work.kind](channel, work.in_flight, work.seconds)
        seconds = time.perf_counter() - begin
        cpu_s = usage()["cpu_s"] - before
    taken.sort()
    return {
        "count": len(taken),
        "seconds": seconds,
        "cpu_s": cpu_s,
        "p50_us": taken[len(taken) // 2] * 1e6,
        "p99_us": taken[int(len(taken) * 0.99)] * 1e6,
    }


async def unary(channel: Any, in_flight: int, seconds: float) -> list[float]:
    """Small calls; how long each took."""
    once = channel.unary_unary("/bench.Echo/Once")
    end = time.perf_counter() + seconds
    taken: list[float] = []

    async def one_by_one() -> None:
        begin = time.perf_counter()
        while begin < end:
            await once(SMALL)
            now = time.perf_counter()
            taken.append(now - begin)
            begin = now

    await asyncio.gather(*(one_by_one() for _ in range(in_flight)))
    return taken


async def stream(channel: Any, _: int, seconds: float) -> list[float]:
    """Small messages back and forth on one stream."""
    call = channel.stream_stream("/bench.Echo/Many")()
    taken: list[float] = []
    begin = time.perf_counter()
    end = begin + seconds
    while begin < end:
        await call.write(SMALL)
        await call.read()
        now = time.perf_counter()
        taken.append(now - begin)
        begin = now
    await call.done_writing()
    await call.code()
    return taken


async def bulk(channel: Any, _: int, seconds: float) -> list[float]:
    """Large messages back and forth, some under way; how long from one to the next."""
    call = channel.stream_stream("/bench.Echo/Many")()
    taken: list[float] = []
    for _ in range(PIECES_AHEAD):
        await call.write(LARGE)
    begin = time.perf_counter()
    end = begin + seconds
    while begin < end:
        await call.read()
        await call.write(LARGE)
        now = time.perf_counter()
        taken.append(now - begin)
        begin = now
    call.cancel()
    await call.code()
    return taken


async def beside(channel: Any, _: int, seconds: float) -> list[float]:
    """Small calls one at a time, while a stream of large messages fills the connection."""
    filling = asyncio.create_task(bulk(channel, 1, 2 * seconds + 1))
    taken = await unary(channel, 1, seconds)
    filling.cancel()
    await asyncio.wait((filling,))
    return taken


def main() -> None:
    """Be one end."""
    end, said = sys.argv[1], json.loads(sys.argv[2])
    gc.freeze()
    with asyncio.Runner(loop_factory=LOOPS[said["loop"]]) as runner:
        if end == "serve":
            runner.run(serve(said["runtime"]))
        else:
            print(json.dumps(runner.run(call(Work(**said)))), flush=True)


if __name__ == "__main__":
    main()
