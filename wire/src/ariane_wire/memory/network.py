"""A network that is played: hosts with names, their ports, and how long octets are under way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from socket import AF_INET, SOCK_STREAM
from typing import Any, Final

from ariane_wire.errors import BindRefused
from ariane_wire.memory.transport import MemoryTransport
from ariane_wire.transport.link import Link
from ariane_wire.transport.ports import Listening, Networks
from ariane_wire.transport.targets import split_address
from ariane_wire.transport.tls import Credentials

HOST: Final[ContextVar[str]] = ContextVar("ariane_wire_host", default="somewhere")
"""The host that connects: set it in the context in which a played process runs."""

_PORT_FIRST: Final = 49_152


class Host:
    """One host; its ports are what ``ariane_wire.server(ports=...)`` takes."""

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        """As others look it up."""
        self.address = address
        """A number, as ``peer()`` tells it."""
        self.connections: dict[MemoryTransport, None] = {}
        """The ends that are here, in order."""
        self.listening: dict[int, Callable[[str], Link]] = {}
        self._bound: set[int] = set()
        self._next_port = _PORT_FIRST

    def bind(
        self,
        address: str,
        tls: Credentials | None,
        *,
        takes_plain_text: bool,
        proxies: Networks = (),
    ) -> HostPort:
        """Bind ``host:port``; which host that names does not matter.

        Raises:
            BindRefused: It is in use, TLS, or no address.
        """
        if not takes_plain_text:
            raise BindRefused(f"cannot listen on {address}: there is no TLS in memory")
        del tls, proxies
        try:
            port = split_address(address)[1] or self.free_port()
        except ValueError as error:
            raise BindRefused(f"cannot listen on {address}: {error}") from None
        if port in self._bound:
            raise BindRefused(f"cannot listen on {address}: Address already in use")
        self._bound.add(port)
        return HostPort(self, port)

    def free_port(self) -> int:
        """A port that nobody has had."""
        self._next_port += 1
        return self._next_port

    def release(self, port: int) -> None:
        """Give a port back."""
        self._bound.discard(port)
        self.listening.pop(port, None)

    def end(self) -> None:
        """The process here is gone, and its sockets with it: peers see their connections reset.

        Its own ends learn nothing: there is nobody left.
        """
        self._bound.clear()
        self.listening.clear()
        for transport in list(self.connections):
            transport.vanish()
            transport.peer.reset_later()


class HostPort:
    """A bound port; see ``BoundPort``."""

    def __init__(self, host: Host, port: int) -> None:
        self.port = port
        self._host = host

    async def listen(
        self, loop: asyncio.AbstractEventLoop, accept: Callable[[str], Link], handshake_s: float
    ) -> list[Listening]:
        """Take connections."""
        del loop, handshake_s
        self._host.listening[self.port] = accept
        return [self]

    def close(self) -> None:
        """Give the port back."""
        self._host.release(self.port)


class Network:
    """Hosts and the connections between them.

    Subclasses say how well it works: ``delay_s``, ``pieces`` and ``is_reachable`` are asked for
    each connection and each write.
    """

    def __init__(self) -> None:
        self.hosts: dict[str, Host] = {}
        self._by_address: dict[str, Host] = {}

    def host(self, name: str) -> Host:
        """The host of a name; it is made when it is first asked for."""
        host = self.hosts.get(name)
        if host is None:
            number = len(self.hosts) + 1
            host = self.hosts[name] = Host(name, f"10.0.{number >> 8}.{number & 255}")
            self._by_address[host.address] = host
        return host

    # How well it works.

    def delay_s(self, sender: MemoryTransport, octets: int) -> float:
        """How long octets are under way, in seconds. Those of a connection never overtake."""
        del sender, octets
        return 0.0

    def pieces(self, sender: MemoryTransport, octets: bytes) -> Iterable[bytes]:
        """How octets that were written at once arrive: as pieces, none of them empty."""
        del sender
        return (octets,)

    def is_reachable(self, client: Host, server: Host) -> bool:
        """Whether a connection can be made now; attempts that cannot take until their timeout."""
        del client, server
        return True

    # What the loop asks for.

    def addresses(self, name: str, port: int) -> list[Any]:
        """The addresses of a name, as ``getaddrinfo`` gives them.

        Raises:
            OSError: It has none.
        """
        host = self.hosts.get(name) or self._by_address.get(name)
        if host is None:
            raise OSError(f"Name or service not known: {name}")
        return [(AF_INET, SOCK_STREAM, 6, "", (host.address, port))]

    async def connect(
        self,
        loop: asyncio.AbstractEventLoop,
        make: Callable[[], asyncio.BufferedProtocol],
        address: str,
        port: int,
    ) -> tuple[MemoryTransport, asyncio.BufferedProtocol]:
        """Connect the host of this context to a port of another.

        Raises:
            ConnectionRefusedError: Nobody listens there.
        """
        here, there = self.host(HOST.get()), self._by_address[address]
        if not self.is_reachable(here, there):
            await loop.create_future()
        near, far = (here.address, here.free_port()), (there.address, port)
        client = MemoryTransport(self, loop, here, {"peername": far, "sockname": near})
        server = MemoryTransport(self, loop, there, {"peername": near, "sockname": far})
        client.peer, server.peer = server, client
        await asyncio.sleep(self.delay_s(client, 0))
        accept = there.listening.get(port)
        if accept is None:
            raise ConnectionRefusedError(f"Connect call failed {far}")
        here.connections[client] = None
        there.connections[server] = None
        server.begin(accept(""))
        try:
            await asyncio.sleep(self.delay_s(server, 0))
        except asyncio.CancelledError:
            client.abort()
            raise
        if client.is_closing():
            raise ConnectionResetError("connection reset by peer")
        protocol = make()
        client.begin(protocol)
        return client, protocol

    @staticmethod
    def forget(transport: MemoryTransport) -> None:
        """An end of a connection is gone."""
        transport.host.connections.pop(transport, None)
