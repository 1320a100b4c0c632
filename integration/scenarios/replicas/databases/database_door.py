"""The way of brokers to their database, which a test may close, or let hang."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from sqlalchemy.engine import make_url

PIECE_BYTES = 1 << 16


class DatabaseDoor:
    """A port that passes on what is sent to a database."""

    def __init__(self, host: str, port: int) -> None:
        self._database = host, port
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._is_closed = False
        self._passing: set[asyncio.Task[None]] = set()
        self._serving: set[asyncio.Task[None]] = set()

    def hang(self) -> None:
        """Pass on nothing, and end no connection: as a frozen machine does."""
        self._is_open.clear()

    def close(self) -> None:
        """End all connections, and refuse new ones."""
        self._is_closed = True
        for task in self._passing:
            task.cancel()

    async def ended(self) -> None:
        """Wait until all connections are ended."""
        if self._serving:
            await asyncio.wait(self._serving)

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        if self._is_closed:
            writer.close()
            return
        serving = asyncio.current_task()
        assert serving is not None
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)
        theirs = await asyncio.open_connection(*self._database)
        ways = ((reader, theirs[1]), (theirs[0], writer))
        tasks = [asyncio.create_task(self._pass(*way)) for way in ways]
        self._passing.update(tasks)
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        self._passing.difference_update(tasks)
        writer.close()
        theirs[1].close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while piece := await reader.read(PIECE_BYTES):
                await self._is_open.wait()
                writer.write(piece)
                await writer.drain()


@asynccontextmanager
async def door_to(url: str) -> AsyncIterator[tuple[DatabaseDoor, str]]:
    """A door to a database; yields it and the URL that leads through it."""
    parsed = make_url(url)
    door = DatabaseDoor(parsed.host or "", parsed.port or 0)
    async with await asyncio.start_server(door.take, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        yield door, parsed.set(port=port).render_as_string(hide_password=False)
        door.close()
        await door.ended()
