"""Gives any octets to a server or a client, and holds that nothing breaks and nothing is left."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import grpc.aio
from memory_transport import MemoryTransport
from probe import Probe
from raw_frames import PREFACE, FrameBuffer

import ariane_wire

TURNS = 3
TURNS_MAX = 200
"""Of the loop, until all that was begun has ended."""


CLOSED = "the channel was closed"


class Broken(Exception):
    """An end did what no peer may make it do."""


class MemoryLoop(asyncio.SelectorEventLoop):
    """A loop on which every connection that is asked for is made in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.transports: list[MemoryTransport] = []
        """The connections, in order."""
        self.failures: list[dict[str, Any]] = []
        """What nobody has caught."""
        self.set_exception_handler(lambda _, failure: self.failures.append(failure))

    async def getaddrinfo(self, *_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 1))]

    async def create_connection(self, protocol_factory: Any, *_: Any, **__: Any) -> Any:
        protocol = protocol_factory()
        self.transports.append(MemoryTransport(self, protocol))
        return self.transports[-1], protocol

    def turn(self, count: int = TURNS) -> None:
        """Go round."""
        for _ in range(count):
            self.call_soon(self.stop)
            self.run_forever()


class Errors(logging.Handler):
    """Keeps what is logged as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@contextmanager
def watched() -> Iterator[MemoryLoop]:
    """A loop; when it is done with, nothing may have failed.

    Raises:
        Broken: Something has.
    """
    errors = Errors()
    logging.getLogger("ariane_wire").addHandler(errors)
    loop = MemoryLoop()
    asyncio.set_event_loop(loop)
    try:
        yield loop
        left = asyncio.all_tasks(loop)
        if loop.failures or errors.lines or left:
            raise Broken(f"{loop.failures} {errors.lines} {left}")
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.turn()
        asyncio.set_event_loop(None)
        loop.close()
        logging.getLogger("ariane_wire").removeHandler(errors)


def play_server(pieces: Iterable[bytes]) -> bytes:
    """Give octets to a server as one connection; what it has answered.

    Raises:
        Broken: A failure came through, the answer is not made of frames, or something is left.
    """
    probe = Probe()
    with watched() as loop:
        server = ariane_wire.server(handlers=[probe])
        server.attach(loop)
        transport = MemoryTransport(loop, server.accept())
        for piece in pieces:
            loop.call_soon(transport.give, piece)
            loop.turn()
        transport.abort()
        settle(loop, lambda: not probe.live and not server.statistics().connections)
        what_is_left = server.statistics()
        if what_is_left.streams or what_is_left.held_octets:
            raise Broken(f"left behind: {what_is_left}")
        loop.run_until_complete(server.stop(None))
    return check_frames(bytes(transport.written))


def play_client(pieces: Iterable[bytes]) -> list[Any]:
    """Give octets to a client with two calls in flight; how they ended.

    Raises:
        Broken: A call ended in no way that calls end, or never.
    """
    with watched() as loop:
        channel = ariane_wire.insecure_channel("127.0.0.1:1")
        calls = [loop.create_task(unary(channel)), loop.create_task(stream(channel))]
        loop.turn()
        [transport] = loop.transports
        for piece in pieces:
            loop.call_soon(transport.give, piece)
            loop.turn()
        transport.abort()
        loop.turn()
        closing = loop.create_task(channel.close())
        settle(loop, lambda: closing.done() and all(call.done() for call in calls))
        octets = bytes(transport.written)
        check_frames(octets.removeprefix(PREFACE))
        return [call.result() for call in calls]


async def unary(channel: Any) -> Any:
    try:
        return await channel.unary_unary("/hostile.Probe/Echo")(b"x" * 70_000)
    except grpc.aio.AioRpcError as failure:
        return failure.code()
    except asyncio.CancelledError:
        return CLOSED


async def stream(channel: Any) -> Any:
    call = channel.stream_stream("/hostile.Probe/Chat")()
    try:
        await call.write(b"hello")
        while await call.read() is not grpc.aio.EOF:
            pass
    except grpc.aio.AioRpcError as failure:
        return failure.code()
    except asyncio.CancelledError:
        return CLOSED
    return await call.code()


def settle(loop: MemoryLoop, is_settled: Any) -> None:
    """Go round until all has ended.

    Raises:
        Broken: It does not.
    """
    for _ in range(TURNS_MAX):
        if is_settled():
            return
        loop.turn()
    raise Broken("something never ends")


def check_frames(octets: bytes) -> bytes:
    """Return octets that are whole frames.

    Raises:
        Broken: They are not.
    """
    buffer = FrameBuffer()
    frames = list(buffer.feed(octets))
    if buffer.rest:
        raise Broken(f"{len(frames)} frames, and then {buffer.rest[:20]!r}")
    return octets


def pieces_of(octets: bytes, size: int) -> list[bytes]:
    """Octets as they may come; all at once where the size is 0."""
    step = size or max(len(octets), 1)
    return [octets[at : at + step] for at in range(0, len(octets), step)]


def play(data: bytes) -> None:
    """One input of a fuzzer: which end, how the octets are cut, and the octets.

    Raises:
        Broken: As the others.
    """
    if len(data) < 2:
        return
    choice, size = data[0], data[1]
    octets = data[2:]
    if choice & 1:
        play_client(pieces_of(octets, size))
    else:
        play_server(pieces_of(octets if choice & 2 else PREFACE + octets, size))
