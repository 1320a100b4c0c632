"""TLS on a port, alone or beside plain text, by the first octet; and proxies before it.

It is looked at and left where it is: a TLS handshake begins with 22, and no preface of HTTP/2 does.
Connections that are not yet the server's are bounded, those in a handshake of TLS more so, for each
holds some 300 KB. At the bound hosts with many make room for hosts with few (``fair_places``), and
some others wait: an honest client is done in a moment, also where thousands come at once. Nobody
stays in the backlog of the system for those before him: of too many that wait, some are closed.

Whoever connects from a network of proxies has to say first whose connection it passes on (the PROXY
protocol, version 2); from anywhere else nobody can.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import Callable
from functools import partial
from ipaddress import IPv6Address, ip_address
from typing import Any, Final, cast

from ariane_wire.protocol.proxy_header import (
    HEAD_OCTETS,
    ProxyHeaderWrong,
    proxied_client,
    proxy_head,
)
from ariane_wire.transport.fair_places import FairPlaces
from ariane_wire.transport.peers import host_of, peer_text
from ariane_wire.transport.ports import BACKLOG, Networks
from ariane_wire.transport.tls import ALPN, Credentials, next_context

_log: Final = logging.getLogger("ariane_wire.server")

_HANDSHAKE: Final = b"\x16"
HALF_OPEN_MAX: Final = 1_000
"""Connections that have sent nothing yet, or whose handshake is not over."""

WAITING_MAX: Final = 256
"""Connections beside those that wait until they count among them."""

HANDSHAKES_MAX: Final = 256
"""Handshakes of TLS at a time."""

_LEFT: Final = frozenset({7, 8})
"""The states of a connection that its peer has reset, or ended its side of, in Linux's
``tcp_states.h``: CLOSE and CLOSE_WAIT."""

_ACCEPT_AGAIN_S: Final = 0.5
"""The process has no more file descriptors: others may give some back."""


class TlsListener:
    """Listens on one socket."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: socket.socket,
        accept: Callable[[str], asyncio.BaseProtocol],
        tls: Credentials | None,
        handshake_s: float,
        *,
        takes_plain_text: bool,
        protocol: str = ALPN,
        proxies: Networks = (),
    ) -> None:
        """Begin to listen.

        Args:
            loop: Of the server.
            listener: Bound.
            accept: Gives the protocol of a new connection, from the client that a proxy names in
                the form of grpcio; from an empty text, the connection is its client's own.
            tls: None for plain text only.
            handshake_s: How long a client may take until it speaks, and for TLS.
            takes_plain_text: Whether both are taken.
            protocol: Agreed on over TLS.
            proxies: Networks whose connections begin with the header of a proxy.
        """
        self._proxies = proxies
        self._loop = loop
        self._protocol = protocol
        self._listener = listener
        self._accept = accept
        self._tls = tls
        self._handshake_s = handshake_s
        self._takes_plain_text = takes_plain_text
        self._half_open = FairPlaces(loop, HALF_OPEN_MAX, WAITING_MAX)
        self._handshakes = FairPlaces(loop, HANDSHAKES_MAX)
        listener.setblocking(False)  # noqa: FBT003 - the name says it.
        listener.listen(BACKLOG)
        self._task = loop.create_task(self._run())

    def close(self) -> None:
        """Listen no more."""
        self._task.cancel()
        self._half_open.close()
        self._handshakes.close()
        self._listener.close()

    async def wait_closed(self) -> None:
        """Wait until nobody is let in any more."""
        await asyncio.wait((self._task,))

    async def _run(self) -> None:
        while True:
            try:
                connection, name = await self._loop.sock_accept(self._listener)
            except OSError:
                await asyncio.sleep(_ACCEPT_AGAIN_S)
                continue
            is_proxied = _is_in(self._proxies, name)
            peer = peer_text(*name[:2]) if isinstance(name, tuple) else "unix:"
            task = self._loop.create_task(self._sort(connection, peer, is_proxied=is_proxied))
            if self._half_open.is_full:
                try:
                    # It may be ended at once, and closes its connection only if it has begun.
                    await asyncio.sleep(0)
                except asyncio.CancelledError:
                    task.cancel()
                    connection.close()
                    raise
            # A proxy is not a host with many: each of its connections counts for itself until it
            # says whose it is. One that waits for its place is looked at meanwhile.
            self._half_open.ask(task, peer if is_proxied else host_of(peer))

    async def _sort(self, connection: socket.socket, peer: str, *, is_proxied: bool) -> None:
        """Give a connection to the server, over TLS if that is what its first octet says."""
        try:
            connection.setblocking(False)  # noqa: FBT003 - the name says it.
            task = cast("asyncio.Task[None]", asyncio.current_task())
            opening = self._opening(connection, peer, task, is_proxied=is_proxied)
            client, first = await asyncio.wait_for(opening, self._handshake_s)
            tls = None
            if first == _HANDSHAKE and self._tls is not None:
                tls = next_context(self._tls, self._protocol)
            if tls is None and not self._takes_plain_text:
                connection.close()
                return
            if tls is not None:
                place = self._handshakes.take(task, host_of(client or peer))
                await asyncio.wait_for(place, self._handshake_s)
                if _has_left(connection):
                    connection.close()
                    return
            await self._loop.connect_accepted_socket(
                partial(self._accept, client),
                connection,
                ssl=tls,
                ssl_handshake_timeout=self._handshake_s if tls else None,
            )
        except (OSError, TimeoutError, ProxyHeaderWrong) as error:
            # Whoever knocked is gone, speaks neither, or is not trusted.
            _log.debug("a connection has not come to stand: %r", error)
            connection.close()
            _forget_frames(error)
        except asyncio.CancelledError as error:
            connection.close()
            _forget_frames(error)
            raise

    async def _opening(
        self,
        connection: socket.socket,
        peer: str,
        task: asyncio.Task[None],
        *,
        is_proxied: bool,
    ) -> tuple[str, bytes]:
        """Whose connection it is, empty for its own, and its first octet.

        Args:
            connection: The connection.
            peer: Where it comes from.
            task: That has its place.
            is_proxied: Whether that is a proxy.

        Raises:
            ProxyHeaderWrong: It comes from a proxy, and does not say whose it is.
        """
        client = ""
        if is_proxied:
            head = proxy_head(await self._octets(connection, HEAD_OCTETS))
            named = proxied_client(head, await self._octets(connection, head.rest_octets))
            client = "" if named is None else peer_text(*named)
            self._half_open.move(task, host_of(client or peer))
        return client, await self._first_octet(connection)

    async def _octets(self, connection: socket.socket, count: int) -> bytes:
        """Just so many octets; what follows stays where it is. Fewer if no more come."""
        octets = b""
        while len(octets) < count:
            more = await self._loop.sock_recv(connection, count - len(octets))
            if not more:
                break
            octets += more
        return octets

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


def _has_left(connection: socket.socket) -> bool:
    """Whether the client has ended its side already, where the system tells it.

    A handshake with it would only fail, and thousands may be left behind by an attack.
    """
    if sys.platform != "linux" or connection.family == socket.AF_UNIX:
        return False
    state: int = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
    return state in _LEFT


def _is_in(networks: Networks, name: Any) -> bool:
    """Whether the address of a peer is in one of some networks; unix sockets have none."""
    if not networks or not isinstance(name, tuple):
        return False
    address = ip_address(name[0].partition("%")[0])
    plain = address.ipv4_mapped or address if isinstance(address, IPv6Address) else address
    return any(plain in network for network in networks)


def _forget_frames(error: BaseException | None) -> None:
    """Let go of what the frames of an error hold: the buffers of a connection, some 300 KB.

    The future of a handshake holds its error, whose frames hold the future: such a circle would
    wait for a full collection of garbage, and a thousand of them come in a second.
    """
    while error is not None:
        error.__traceback__ = None
        error = error.__context__
