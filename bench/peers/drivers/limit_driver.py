"""What the machine can do: ``limit_driver.py copy|loopback|grpc|echo|stream|flush FOLDER``.

The same bytes in the same blocks as a load has: copied in memory; through a socket on loopback to
another process, which answers eight bytes a block; or as requests of bare gRPC calls, or of one
bare gRPC stream, to another process, which answers each by eight bytes and looks at nothing, or by
the same bytes (echo); or appended to a file and flushed, all that would be in flight at once. What
is consumed comes from the other process, as fast as it can: through the socket, or as one gRPC
stream for each group.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from asyncio import StreamReader, StreamWriter
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from driver_loop import Step, nothing, run_workers, serve

METHOD = "/bench.Limit/"
ANSWER = b"taken   "
GIVE = 1 << 63
"""Instead of a length, to the other end of a socket: give blocks, so many and so large."""
_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # Else a server cancels what comes while 1,000 calls wait.
    ("grpc.server.max_pending_requests", 1 << 16),
    ("grpc.server.max_pending_requests_hard_limit", 1 << 16),
]


async def take_blocks(reader: StreamReader, writer: StreamWriter) -> None:
    """Read blocks, each behind its length, and answer each; or give as many as are asked for."""
    try:
        while True:
            length = int.from_bytes(await reader.readexactly(8), "little")
            if length == GIVE:
                for block in asked_blocks(await reader.readexactly(16)):
                    writer.write(block)
                    await writer.drain()
                continue
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
    """The other end of bare calls and streams."""

    async def take(_request: bytes, _context: grpc.aio.ServicerContext) -> bytes:
        return ANSWER

    async def echo(request: bytes, _context: grpc.aio.ServicerContext) -> bytes:
        return request

    async def take_each(
        requests: AsyncIterator[bytes], _context: grpc.aio.ServicerContext
    ) -> AsyncIterator[bytes]:
        async for _ in requests:
            yield ANSWER

    async def give(asked: bytes, context: grpc.aio.ServicerContext) -> None:
        for block in asked_blocks(asked):
            await context.write(block)

    server = grpc.aio.server(options=_OPTIONS)
    handlers = {
        "Take": grpc.unary_unary_rpc_method_handler(take),
        "Echo": grpc.unary_unary_rpc_method_handler(echo),
        "TakeEach": grpc.stream_stream_rpc_method_handler(take_each),
        "Give": grpc.unary_stream_rpc_method_handler(give),
    }
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("bench.Limit", handlers),)
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
    batch = 1 if load["shape"] in {"singles", "transactions"} else load["batch"]
    block = np.random.default_rng(7).bytes(batch * load["body_bytes"])
    return repeat(block, load["count"] // batch), batch


async def run_limit(load: Mapping[str, Any], send: Callable[[bytes], Any], flights: int) -> Any:
    """Send all blocks; counted in messages, as everybody is."""
    blocks, batch = blocks_of(load)
    answer = await run_workers(blocks, flights, send)
    return {**answer, "count": answer["count"] * batch}


def asking_for(load: Mapping[str, Any]) -> bytes:
    """How many blocks of which size are consumed, for whoever gives them."""
    size_bytes = load["batch"] * load["body_bytes"]
    return b"".join(n.to_bytes(8, "little") for n in (load["count"] // load["batch"], size_bytes))


def asked_blocks(asked: bytes) -> Iterator[bytes]:
    """The blocks that were asked for, each the same bytes."""
    count, size_bytes = (int.from_bytes(asked[at : at + 8], "little") for at in (0, 8))
    return repeat(np.random.default_rng(7).bytes(size_bytes), count)


async def consumed(load: Mapping[str, Any], take: Callable[[], Any]) -> dict[str, Any]:
    """Take all that each group is to get; nobody looks at it, so there is no digest."""
    begin = time.perf_counter()
    await asyncio.gather(*(take() for _ in range(load["groups"])))
    seconds = time.perf_counter() - begin
    return {"count": load["count"] * load["groups"], "seconds": seconds}


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

    async def consume(load: Mapping[str, Any]) -> dict[str, Any]:
        blocks, _ = blocks_of(load)

        async def take() -> None:
            for block in blocks:
                await send(block)

        return await consumed(load, take)

    await serve_limit(produce, consume)


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

    async def consume(load: Mapping[str, Any]) -> dict[str, Any]:
        async def take() -> None:
            writer.write(GIVE.to_bytes(8, "little") + asking_for(load))
            for _ in range(load["count"] // load["batch"]):
                await reader.readexactly(load["batch"] * load["body_bytes"])

        return await consumed(load, take)

    await serve_limit(produce, consume)


async def bare_grpc(port: int, *, method: str = "Take", stream: bool = False) -> None:
    """Send as requests of calls, or of one stream, as many at a time as the load says."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=_OPTIONS) as channel:
        call = channel.unary_unary(f"{METHOD}{method}")
        give = channel.unary_stream(f"{METHOD}Give")

        async def send(block: bytes) -> int:
            await call(block)
            return 0

        async def produce(load: Mapping[str, Any]) -> dict[str, Any]:
            if not stream:
                return await run_limit(load, send, load["in_flight"])
            async with answered_stream(channel) as send_on_stream:
                return await run_limit(load, send_on_stream, load["in_flight"])

        async def consume(load: Mapping[str, Any]) -> dict[str, Any]:
            async def take() -> None:
                async for _ in give(asking_for(load)):
                    pass

            return await consumed(load, take)

        await serve_limit(produce, consume)


@asynccontextmanager
async def answered_stream(
    channel: grpc.aio.Channel,
) -> AsyncIterator[Callable[[bytes], Awaitable[int]]]:
    """A stream whose requests are answered in their order; yields what sends one and waits."""
    call = channel.stream_stream(f"{METHOD}TakeEach")()
    waiting: deque[asyncio.Future[int]] = deque()

    async def read_answers() -> None:
        while await call.read() is not grpc.aio.EOF:
            waiting.popleft().set_result(0)

    async def send(block: bytes) -> int:
        outcome = asyncio.get_running_loop().create_future()
        waiting.append(outcome)
        async with writing:
            await call.write(block)
        return await outcome

    writing = asyncio.Lock()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(read_answers())
        yield send
        await call.done_writing()


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


async def serve_limit(produce: Step, consume: Step) -> None:
    """Answer what is asked; nothing needs to be made before."""
    await serve(
        {
            "prepare_produce": nothing,
            "produce": produce,
            "prepare_consume": nothing,
            "consume": consume,
        }
    )


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
        client, end = {
            "loopback": (loopback, "loopback"),
            "grpc": (bare_grpc, "grpc"),
            "echo": (partial(bare_grpc, method="Echo"), "grpc"),
            "stream": (partial(bare_grpc, stream=True), "grpc"),
        }[kind]
        async with other_end(end) as port:
            await client(port)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[-1]))
