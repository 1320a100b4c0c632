"""A door to a service of loopback: whoever comes to an address of ours is let through to it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Final

_PIECE_BYTES: Final = 1 << 16


class Door:
    """Passes TCP connections on, as they are."""

    def __init__(self, host: str, to_host: str, to_port: int) -> None:
        """Be shut.

        Args:
            host: Where it is.
            to_host: Where it leads.
            to_port: The same.
        """
        self._host = host
        self._to = (to_host, to_port)
        self._server: asyncio.Server | None = None
        self._passing: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> int:
        """Open it; its port."""
        self._server = await asyncio.start_server(self._come, self._host, 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._passing:
            task.cancel()
        await asyncio.gather(*self._passing, return_exceptions=True)

    def _come(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._let_through(reader, writer))
        self._passing.add(task)
        task.add_done_callback(self._passing.discard)

    async def _let_through(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with suppress(OSError):
            there_reader, there_writer = await asyncio.open_connection(*self._to)
            ways = [
                asyncio.ensure_future(_pass(reader, there_writer)),
                asyncio.ensure_future(_pass(there_reader, writer)),
            ]
            try:
                # One end that is closed closes the other.
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
                writer.close()
                there_writer.close()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(_PIECE_BYTES):
            writer.write(piece)
            await writer.drain()
