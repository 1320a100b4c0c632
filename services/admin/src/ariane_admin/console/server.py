"""The HTTP server of the console, inside admin's process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import h11
import uvicorn
from starlette.types import ASGIApp
from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from ariane_servicekit import Address, StartRefused
from ariane_servicekit.security.caller import address_of_peer
from ariane_wire import Credentials
from ariane_wire.server.host_places import SHARE_MIN, HostPlaces
from ariane_wire.server.identity import identity
from ariane_wire.transport.first_octets import TlsListener
from ariane_wire.transport.peers import host_of
from ariane_wire.transport.ports import Networks

STOP_S: Final = 3

CONNECTIONS_MAX: Final = 500
"""Connections of browsers, of which one host has three quarters at most. So many more are answered
by 503; those beyond that are closed, as those of one host beyond its share are."""

ALPN: Final = "http/1.1"

REQUEST_S_MAX: Final = 10.0
"""Seconds that a handshake may take, and the head of a request."""

PEER: Final = "ariane_peer"
"""In the state of a request: who is at the other end, an ``Identity``."""


class _State(ServerState):
    """What the connections of a server share."""

    def __init__(self) -> None:
        super().__init__()
        of_host = max(SHARE_MIN, CONNECTIONS_MAX * 3 // 4)
        self.places = HostPlaces(2 * CONNECTIONS_MAX, of_host)


class _Connection(H11Protocol):
    """A connection that tells its requests whose it is, and that does not wait for ever."""

    server_state: _State

    proxied_peer = ""
    """The client that a proxy has named; empty for the connection's own."""

    host = ""
    """The host whose place it has; empty without one."""

    _head: asyncio.TimerHandle | None = None
    """Ends the wait for the head of a request; None while none is waited for."""

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        peer = identity(transport, 0, self.proxied_peer)
        self.app_state = {**self.app_state, PEER: peer}
        host = host_of(peer.peer)
        if self.server_state.places.enter(host):
            self.host = host
        else:
            transport.close()
        if self.proxied_peer:
            self.client = (address_of_peer(self.proxied_peer), 0)
        self._wait_for_head()

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._head is None:
            self._wait_for_head()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        if self.host:
            self.server_state.places.leave(self.host)
            self.host = ""
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        """Close the connection unless the head of a request is there in time, however it comes."""
        self._head = self.loop.call_later(REQUEST_S_MAX, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None


class _Server(uvicorn.Server):
    def __init__(
        self,
        config: uvicorn.Config,
        bound: socket.socket,
        tls: Credentials | None,
        proxies: Networks,
    ) -> None:
        super().__init__(config)
        self.server_state = _State()
        self._proxies = proxies
        self._bound = bound
        self._tls = tls

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self._tls is None and not self._proxies:
            await super().startup([self._bound])
            return
        await super().startup([])
        loop = asyncio.get_running_loop()

        def accept(peer: str) -> asyncio.Protocol:
            made = _Connection(self.config, self.server_state, self.lifespan.state, loop)
            made.proxied_peer = peer
            return made

        # As the port of the service: handshakes are bounded, and certificates may be replaced.
        listener: Any = TlsListener(
            loop,
            self._bound,
            accept,
            self._tls,
            REQUEST_S_MAX,
            takes_plain_text=self._tls is None,
            protocol=ALPN,
            proxies=self._proxies,
        )
        self.servers.append(listener)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the service."""
        yield


class ConsoleServer:
    """A server that binds its port first, serves later, and stops in order."""

    def __init__(self, listen: Address, proxies: Networks = ()) -> None:
        """Listen at an address; ``proxies`` say whose connections they pass on."""
        self._listen = listen
        self._proxies = proxies
        self._socket: socket.socket | None = None
        self._server: _Server | None = None
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

    async def start(self, app: ASGIApp, tls: Credentials | None = None) -> None:
        """Serve pages from now on.

        Args:
            app: The pages.
            tls: Gives the context of the next connection; None for plain text.
        """
        assert self._socket is not None  # noqa: S101 - the port was taken before
        config = uvicorn.Config(
            app,
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="off",
            http=_Connection,
            limit_concurrency=CONNECTIONS_MAX,
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=STOP_S,
        )
        self._server = _Server(config, self._socket, tls, self._proxies)
        self._serving = asyncio.create_task(self._server.serve(), name="console")

    async def stop(self) -> None:
        """Finish requests in work, then close the port. Repeating is harmless."""
        serving, self._serving = self._serving, None
        if serving is not None and self._server is not None:
            self._server.should_exit = True
            await asyncio.wait((serving,))
        if self._socket is not None:
            self._socket.close()
