"""The least that a replica can cost on this machine: the same bytes, with nothing done to them.

    .venv/bin/python -m bench.replicas.copying [--gigabytes 1] [--rounds 3]

One process reads a file that is in memory and sends it, another receives it and writes it into a
file that has room for it. Once over a plain socket, and once over the stream of gRPC that replicas
follow, with their settings and a word back for each piece. Processor seconds for each GB, of both
sides, to be held against those of primary and replica that ``replication.py`` prints.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from statistics import median
from typing import Any, Final

import grpc
from grpc import aio

PIECE_BYTES: Final = 1 << 20
FILE_BYTES: Final = 256 << 20
_METHOD: Final = "/copying/Follow"
_CLIENT_OPTIONS: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.http2.max_frame_size", 1 << 20),
)


def cpu_s() -> float:
    """Processor seconds of this process."""
    return time.process_time()


class Source:
    """A file that is in memory, read round and round."""

    def __init__(self, path: Path, size_bytes: int) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)
        self._left = size_bytes
        self._place = 0

    def piece(self) -> bytes:
        """The next bytes; none at the end."""
        content = os.pread(self._descriptor, min(PIECE_BYTES, self._left), self._place % FILE_BYTES)
        self._left -= len(content)
        self._place += len(content)
        return content


class Target:
    """A file with room, written round and round."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        os.posix_fallocate(self._descriptor, 0, FILE_BYTES + PIECE_BYTES)
        self._place = 0

    def write(self, content: bytes | memoryview) -> None:
        """Write the next bytes."""
        os.pwrite(self._descriptor, content, self._place % FILE_BYTES)
        self._place += len(content)


def send_plainly(path: Path, size_bytes: int, told: Any) -> None:
    """The sending process, over a socket."""
    listening = socket.create_server(("127.0.0.1", 0))
    told.put(listening.getsockname()[1])
    connection, _ = listening.accept()
    source, begin_s = Source(path, size_bytes), cpu_s()
    while content := source.piece():
        connection.sendall(content)
    connection.close()
    told.put(cpu_s() - begin_s)


def receive_plainly(port: int, target: Target) -> None:
    """The receiving process, over a socket."""
    connection = socket.create_connection(("127.0.0.1", port))
    room = memoryview(bytearray(PIECE_BYTES))
    while count := connection.recv_into(room):
        target.write(room[:count])


def send_over_grpc(path: Path, size_bytes: int, told: Any) -> None:
    """The sending process, over gRPC."""
    asyncio.run(_serve(path, size_bytes, told))


async def _serve(path: Path, size_bytes: int, told: Any) -> None:
    done = asyncio.Event()

    async def follow(words: AsyncIterator[bytes], context: Any) -> None:
        await anext(aiter(words))
        hearing = asyncio.create_task(_hear(words))
        source, begin_s = Source(path, size_bytes), cpu_s()
        while content := source.piece():
            await context.write(content)
        await context.write(b"")
        await hearing
        told.put(cpu_s() - begin_s)
        done.set()

    class Handler(grpc.GenericRpcHandler):
        def service(self, _: Any) -> Any:
            return grpc.stream_stream_rpc_method_handler(follow)

    server = aio.server()
    server.add_generic_rpc_handlers((Handler(),))
    told.put(server.add_insecure_port("127.0.0.1:0"))
    await server.start()
    await done.wait()
    await server.stop(1)


async def _hear(words: AsyncIterator[bytes]) -> None:
    async for _ in words:
        pass


def receive_over_grpc(port: int, target: Target) -> None:
    """The receiving process, over gRPC."""
    asyncio.run(_follow(port, target))


async def _follow(port: int, target: Target) -> None:
    async with aio.insecure_channel(f"127.0.0.1:{port}", options=_CLIENT_OPTIONS) as channel:
        call: Any = channel.stream_stream(_METHOD)()
        await call.write(b"begin")
        while content := await call.read():
            target.write(content)
            await call.write(b"so far")
        await call.done_writing()
        await call.code()  # A channel that is closed earlier cancels the sender before it tells.


def measure(
    send: Callable[[Path, int, Any], None],
    receive: Callable[[int, Target], None],
    folder: Path,
    size_bytes: int,
) -> tuple[float, float]:
    """Processor seconds for each GB, of sender and receiver."""
    source = folder / "source"
    told: Any = multiprocessing.get_context("spawn").Queue()
    sender = multiprocessing.get_context("spawn").Process(
        target=send, args=(source, size_bytes, told)
    )
    sender.start()
    port, target = told.get(), Target(folder / "target")
    begin_s = cpu_s()
    receive(port, target)
    received = cpu_s() - begin_s
    sent = told.get()
    sender.join()
    return sent / size_bytes * 1e9, received / size_bytes * 1e9


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    ways = {
        "a plain socket": (send_plainly, receive_plainly),
        "a stream of gRPC": (send_over_grpc, receive_over_grpc),
    }
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "source").write_bytes(os.urandom(PIECE_BYTES) * (FILE_BYTES // PIECE_BYTES))
        print(f"{'CPU s/GB':20}{'sender':>8}{'receiver':>10}{'both':>8}")
        for name, (send, receive) in ways.items():
            costs = [
                measure(send, receive, Path(folder), int(arguments.gigabytes * 1e9))
                for _ in range(arguments.rounds)
            ]
            sent, received = (median(column) for column in zip(*costs, strict=True))
            print(f"{name:20}{sent:8.2f}{received:10.2f}{sent + received:8.2f}")


if __name__ == "__main__":
    main()
