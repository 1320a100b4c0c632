"""TLS on a port, alone or beside plain text: told apart by the first octet.

It is looked at and left where it is: a TLS handshake begins with 22, and no preface of HTTP/2 does.
Connections that are not yet the server's are bounded. Beyond the bound the oldest one makes room:
an honest client is done in a moment, and whoever holds a handshake back has had his.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Final

from ariane_wire.transport.link import Link
from ariane_wire.transport.ports import BACKLOG
from ariane_wire.transport.tls import Credentials, next_context

_log: Final = logging.getLogger("ariane_wire.server")

_HANDSHAKE: Final = b"\x16"
HALF_OPEN_MAX: Final = 1_000
"""Connections that have said nothing yet, or whose handshake is not over."""

_ACCEPT_AGAIN_S: Final = 0.5
"""The process has no more file descriptors: others may give some back."""


class TlsListener:
    """Listens on one socket."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: socket.socket,
        accept: Callable[[], Link],
        tls: Credentials,
        handshake_s: float,
        *,
        takes_plain_text: bool,
    ) -> None:
        self._loop = loop
        self._listener = listener
        self._accept = accept
        self._tls = tls
        self._handshake_s = handshake_s
        self._takes_plain_text = takes_plain_text
        self._half_open: dict[asyncio.Task[None], None] = {}
        listener.setblocking(False)  # noqa: FBT003 - the name says it.
        listener.listen(BACKLOG)
        self._task = loop.create_task(self._run())

    def close(self) -> None:
        """Listen no more."""
        self._task.cancel()
        for task in self._half_open:
            task.cancel()
        self._listener.close()

    async def _run(self) -> None:
        while True:
            try:
                connection, _ = await self._loop.sock_accept(self._listener)
            except OSError:
                await asyncio.sleep(_ACCEPT_AGAIN_S)
                continue
            if len(self._half_open) >= HALF_OPEN_MAX:
                oldest = next(iter(self._half_open))
                del self._half_open[oldest]
                oldest.cancel()
            task = self._loop.create_task(self._sort(connection))
            self._half_open[task] = None
            task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._half_open.pop(task, None)

    async def _sort(self, connection: socket.socket) -> None:
        """Give a connection to the server, over TLS if that is what its first octet says."""
        try:
            connection.setblocking(False)  # noqa: FBT003 - the name says it.
            first = await asyncio.wait_for(self._first_octet(connection), self._handshake_s)
            tls = next_context(self._tls) if first == _HANDSHAKE else None
            if tls is None and not self._takes_plain_text:
                connection.close()
                return
            await self._loop.connect_accepted_socket(
                self._accept,
                connection,
                ssl=tls,
                ssl_handshake_timeout=self._handshake_s if tls else None,
            )
        except (OSError, TimeoutError) as error:
            # Whoever knocked is gone, speaks neither, or is not trusted.
            _log.debug("a connection has not come to stand: %r", error)
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
