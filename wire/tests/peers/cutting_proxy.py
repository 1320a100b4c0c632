"""A proxy that lets whole frames through and cuts the connection after a given one."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from raw_frames import PREFACE, Frame, FrameBuffer, frame


class Way(enum.Enum):
    """Which direction is counted."""

    TO_SERVER = "to the server"
    TO_CLIENT = "to the client"


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a connection is cut: after so many frames of one direction.

    The preface counts as a frame. What the other direction carries meanwhile passes.
    """

    way: Way
    after: int
    octets_more: int = 0
    """Of the frame that follows: a cut within it."""


@dataclass(slots=True)
class CuttingProxy:
    """Carries one connection, and refuses all after it has been cut."""

    server: str
    """Where to."""
    cut: Cut | None = None
    """Where it ends; None to carry on."""
    passed: dict[Way, list[Frame | bytes]] = field(default_factory=lambda: {way: [] for way in Way})
    """What has passed, by direction."""
    was_cut: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it is cut."""
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the server has seen all that has passed, and its end."""

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry a client's connection."""
        if self.was_cut.is_set():
            writer.transport.abort()
            return
        host, port = self.server.rsplit(":", 1)
        up_reader, up_writer = await asyncio.open_connection(host, int(port))
        try:
            await self._carry_both(reader, writer, up_reader, up_writer)
        finally:
            for end in (writer, up_writer):
                end.close()
            await asyncio.gather(
                writer.wait_closed(), up_writer.wait_closed(), return_exceptions=True
            )

    async def _carry_both(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        up_reader: asyncio.StreamReader,
        up_writer: asyncio.StreamWriter,
    ) -> None:
        ways = (
            asyncio.create_task(self._pass(Way.TO_SERVER, reader, up_writer)),
            asyncio.create_task(self._pass(Way.TO_CLIENT, up_reader, writer)),
        )
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
        # What has passed still arrives: the ends are closed, not reset. The server has read all of
        # it when it ends the connection, too.
        writer.close()
        if up_writer.can_write_eof():
            up_writer.write_eof()
        with suppress(ConnectionError):  # A reset is an end, too.
            while await up_reader.read(1 << 16):
                pass
        self.settled.set()

    async def _pass(
        self, way: Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        mine = self.cut if self.cut is not None and self.cut.way is way else None
        if mine is not None and not mine.after and not mine.octets_more:
            self.was_cut.set()
            return
        async for piece, octets in pieces(way, reader):
            if mine is not None and len(self.passed[way]) == mine.after:
                writer.write(octets[: mine.octets_more])
                self.was_cut.set()
                return
            self.passed[way].append(piece)
            writer.write(octets)
            await writer.drain()
            if mine is not None and len(self.passed[way]) == mine.after and not mine.octets_more:
                self.was_cut.set()
                return


async def pieces(
    way: Way, reader: asyncio.StreamReader
) -> AsyncIterator[tuple[Frame | bytes, bytes]]:
    """The preface and the frames of one direction, and their octets."""
    if way is Way.TO_SERVER:
        preface = await reader.readexactly(len(PREFACE))
        yield preface, preface
    buffer = FrameBuffer()
    while octets := await reader.read(1 << 16):
        for each in buffer.feed(octets):
            yield each, frame(each.kind, each.flags, each.stream, each.payload)


@asynccontextmanager
async def proxying(proxy: CuttingProxy) -> AsyncIterator[str]:
    """Listen for the proxy's clients; the address."""
    carried: set[asyncio.Task[None]] = set()

    def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(proxy.carry(reader, writer))
        carried.add(task)
        task.add_done_callback(carried.discard)
        # Also that of one that ends before it begins.
        task.add_done_callback(lambda _: writer.close())

    listener = await asyncio.start_server(take, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    finally:
        listener.close()
        for task in carried:
            task.cancel()
        await asyncio.gather(*carried, return_exceptions=True)
        await listener.wait_closed()
