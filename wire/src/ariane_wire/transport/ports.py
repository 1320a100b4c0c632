"""Where a server listens: the ports of this machine, or those of a network that is played."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence
    from ipaddress import IPv4Network, IPv6Network

    from ariane_wire.transport.link import Link
    from ariane_wire.transport.tls import Credentials

BACKLOG: Final = 1024

Networks: TypeAlias = "Sequence[IPv4Network | IPv6Network]"


class Listening(Protocol):
    """What takes connections for a server."""

    def close(self) -> None:
        """Take no more."""


class BoundPort(Protocol):
    """A port that is the server's, and does not listen yet."""

    @property
    def port(self) -> int:
        """Its number; 0 for unix sockets."""
        ...

    async def listen(
        self, loop: asyncio.AbstractEventLoop, accept: Callable[[str], Link], handshake_s: float
    ) -> list[Listening]:
        """Take connections.

        Args:
            loop: Of the server.
            accept: Gives the protocol of a new connection, from the client's address in the form of
                grpcio; empty for that of the transport.
            handshake_s: How long a client may take for TLS.
        """
        ...

    def close(self) -> None:
        """Give a port back that does not listen."""


class Ports(Protocol):
    """Where ports are bound."""

    def bind(
        self,
        address: str,
        tls: Credentials | None,
        *,
        takes_plain_text: bool,
        proxies: Networks = (),
    ) -> BoundPort:
        """Bind ``host:port``, ``[address]:port`` or ``unix:path``; port 0 means any that is free.

        Args:
            address: Where.
            tls: None for plain text.
            takes_plain_text: Whether both are taken, distinguished by the first octet.
            proxies: Networks whose connections begin with the header of a proxy.

        Raises:
            BindRefused: It is in use, or not of this machine, or no address.
        """
        ...
