"""What the machine can do, as a driver: ``limit_driver.py copy|loopback|grpc|flush FOLDER``.

The same bytes in the same blocks as a load has: copied in memory; through a socket on loopback to
another process, which answers eight bytes a block; or as requests of bare gRPC calls to another
process, which answers eight bytes a call and looks at nothing; or appended to a file and flushed,
all that would be in flight at once.
"""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from itertools import repeat
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from driver_loop import nothing, run_workers, serve

METHOD = "/bench.Limit/Take"
ANSWER = b"taken   "
_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


async def take_blocks(reader: StreamReader, writer: StreamWriter) -> None:
    """Read blocks, each behind its length, and answer each."""
    try:
        while True:
            length = int.from_bytes(await reader.readexactly(8), "little")
            await reader.readexactly(length)
            writer.write(ANSWER)
    except asyncio.IncompleteReadError:
        writer.close()


async def serve_loopback() -> None:
    """The other end of a socket."""
    server = await asyncio.start_server(take_blocks, "127.0.0.1", 0, limit=4 << 20)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def serve_grpc() -> None:
    """The other end of bare calls."""

    async def take(_request: bytes, _context: grpc.aio.ServicerContext) -> bytes:
        return ANSWER

    server = grpc.aio.server(options=_OPTIONS)
    handler = grpc.unary_unary_rpc_method_handler(take)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("bench.Limit", {"Take": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


@asynccontextmanager
async def other_end(kind: str) -> AsyncIterator[int]:
    """Run the other end as a process; yields its port."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, f"serve-{kind}", stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        yield int(await process.stdout.readline())
    finally:
        process.kill()
        await process.wait()


def blocks_of(load: Mapping[str, Any]) -> tuple[Iterator[bytes], int]:
    """The blocks of a load, each the same bytes, and how many messages one stands for."""
    batch = 1 if load["shape"] == "singles" else load["batch"]
    block = np.random.default_rng(7).bytes(batch * load["body_bytes"])
    return repeat(block, load["count"] // batch), batch


async def run_limit(load: Mapping[str, Any], send: Callable[[bytes], Any], flights: int) -> Any:
    """Send all blocks; counted in messages, as everybody is."""
    blocks, batch = blocks_of(load)
    answer = await run_workers(blocks, flights, send)
    return {**answer, "count": answer["count"] * batch}


async def copy() -> None:
    """Copy in memory, into pages that are there."""
    target = np.ones(64 << 20, np.uint8)
    place = 0

    async def send(block: bytes) -> int:
        nonlocal place
        if place + len(block) > len(target):
            place = 0
        target[place : place + len(block)] = np.frombuffer(block, np.uint8)
        place += len(block)
        return 0

    async def produce(load: Mapping[str, Any]) -> dict[str, Any]:
        return await run_limit(load, send, 1)

    await serve({"prepare_produce": nothing, "produce": produce})


async def loopback(port: int) -> None:
    """Send through a socket."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def send(block: bytes) -> int:
        writer.write(len(block).to_bytes(8, "little"))
        writer.write(block)
        await writer.drain()
        await reader.readexactly(len(ANSWER))
        return 0

    async def produce(load: Mapping[str, Any]) -> dict[str, Any]:
        return await run_limit(load, send, 1)

    await serve({"prepare_produce": nothing, "produce": produce})


async def bare_grpc(port: int) -> None:
    """Send as requests of calls, as many at a time as the load says."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=_OPTIONS) as channel:
        call = channel.unary_unary(METHOD)

        async def send(block: bytes) -> int:
            await call(block)
            return 0

        async def produce(load: Mapping[str, Any]) -> dict[str, Any]:
            return await run_limit(load, send, load["in_flight"])

        await serve({"prepare_produce": nothing, "produce": produce})


async def flush(folder: str) -> None:
    """Append what is in flight to a file whose room is taken, and flush it: nobody is faster."""
    path = Path(folder) / "flushed"

    async def produce(load: Mapping[str, Any]) -> dict[str, Any]:
        together = {**load, "shape": "batches", "batch": load["in_flight"]}
        size_bytes = load["count"] * load["body_bytes"]
        with path.open("wb", buffering=0) as file:
            os.posix_fallocate(file.fileno(), 0, size_bytes)
            os.fsync(file.fileno())

            async def send(block: bytes) -> int:
                file.write(block)
                os.fdatasync(file.fileno())
                return 0

            return await run_limit(together, send, 1)

    await serve({"prepare_produce": nothing, "produce": produce})


async def main(kind: str, folder: str) -> None:
    """Serve as one end or the other."""
    if kind == "serve-loopback":
        await serve_loopback()
    elif kind == "serve-grpc":
        await serve_grpc()
    elif kind == "copy":
        await copy()
    elif kind == "flush":
        await flush(folder)
    else:
        async with other_end(kind) as port:
            await {"loopback": loopback, "grpc": bare_grpc}[kind](port)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[-1]))
