"""Plain text and TLS on one port, told apart by the first octet.

It is looked at and left where it is: a TLS handshake begins with 22, and no preface of HTTP/2 does.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Final

from ariane_wire.transport.link import Link
from ariane_wire.transport.ports import BACKLOG

_HANDSHAKE: Final = b"\x16"
UNSORTED_MAX: Final = 1_000
"""Connections that have said nothing yet; further ones are closed at once."""

_ACCEPT_AGAIN_S: Final = 0.5
"""The process has no more file descriptors: others may give some back."""


class MixedListener:
    """Listens on one socket for both."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: socket.socket,
        accept: Callable[[], Link],
        tls: ssl.SSLContext,
        handshake_s: float,
    ) -> None:
        self._loop = loop
        self._listener = listener
        self._accept = accept
        self._tls = tls
        self._handshake_s = handshake_s
        self._sorting: dict[asyncio.Task[None], None] = {}
        listener.setblocking(False)  # noqa: FBT003 - the name says it.
        listener.listen(BACKLOG)
        self._task = loop.create_task(self._run())

    def close(self) -> None:
        """Listen no more."""
        self._task.cancel()
        for task in self._sorting:
            task.cancel()
        self._listener.close()

    async def _run(self) -> None:
        while True:
            try:
                connection, _ = await self._loop.sock_accept(self._listener)
            except OSError:
                await asyncio.sleep(_ACCEPT_AGAIN_S)
                continue
            if len(self._sorting) >= UNSORTED_MAX:
                connection.close()
                continue
            task = self._loop.create_task(self._sort(connection))
            self._sorting[task] = None
            task.add_done_callback(self._sorting.pop)

    async def _sort(self, connection: socket.socket) -> None:
        """Give a connection to the server, over TLS if that is what its first octet says."""
        try:
            connection.setblocking(False)  # noqa: FBT003 - the name says it.
            first = await asyncio.wait_for(self._first_octet(connection), self._handshake_s)
            tls = self._tls if first == _HANDSHAKE else None
            await self._loop.connect_accepted_socket(
                self._accept,
                connection,
                ssl=tls,
                ssl_handshake_timeout=self._handshake_s if tls else None,
            )
        except (OSError, TimeoutError):
            # Whoever knocked is gone, or speaks neither.
            connection.close()
        except asyncio.CancelledError:
            connection.close()
            raise

    async def _first_octet(self, connection: socket.socket) -> bytes:
        readable: asyncio.Future[None] = self._loop.create_future()

        def ready() -> None:
            if not readable.done():
                readable.set_result(None)

        self._loop.add_reader(connection, ready)
        try:
            await readable
        finally:
            self._loop.remove_reader(connection)
        return connection.recv(1, socket.MSG_PEEK)
