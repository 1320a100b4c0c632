"""The HTTP server of the console, inside admin's process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from ariane_servicekit import Address, StartRefused

STOP_S: Final = 3


class _Quiet(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the service."""
        yield


class ConsoleServer:
    """A server that binds its port first, serves later, and stops in order."""

    def __init__(self, listen: Address) -> None:
        self._listen = listen
        self._socket: socket.socket | None = None
        self._server: _Quiet | None = None
        self._serving: asyncio.Task[None] | None = None

    def bind(self) -> Address:
        """Bind the port, and return the address.

        Raises:
            StartRefused: The port is in use, or the host is not of this machine.
        """
        host = self._listen.host
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._socket = socket.create_server((host, self._listen.port), family=family)
        except OSError as error:
            cause = error.strerror or error
            raise StartRefused(f"the console cannot listen on {self._listen}: {cause}") from None
        return self._listen.with_port(self._socket.getsockname()[1])

    async def start(self, app: ASGIApp) -> None:
        """Serve pages from now on."""
        assert self._socket is not None  # noqa: S101 - the port was taken before
        config = uvicorn.Config(
            app,
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="off",
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=STOP_S,
        )
        self._server = _Quiet(config)
        self._serving = asyncio.create_task(
            self._server.serve(sockets=[self._socket]), name="console"
        )

    async def stop(self) -> None:
        """Finish requests in work, then close the port. Repeating is harmless."""
        serving, self._serving = self._serving, None
        if serving is not None and self._server is not None:
            self._server.should_exit = True
            await asyncio.wait((serving,))
        if self._socket is not None:
            self._socket.close()
