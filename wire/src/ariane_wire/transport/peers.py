"""Addresses of peers, in the form of grpcio, and the hosts that they count for.

::

    ipv4:192.0.2.7:40211                       192.0.2.7
    ipv6:%5B::ffff:192.0.2.7%5D:40211          192.0.2.7            the same host
    ipv6:%5B2001:db8:0:7:a::1%5D:40211         2001:db8:0:7::/64    a host takes any of 2**64

"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

if TYPE_CHECKING:
    import asyncio

_NETWORK_MASK: Final = ~((1 << 64) - 1)
_HOSTS_REMEMBERED: Final = 4096


def peer_of(transport: asyncio.BaseTransport | None, number: int) -> str:
    """The address of the peer of a transport, as ``Identity.peer``.

    Args:
        transport: None if it is gone.
        number: Of the connection, unique in its server.
    """
    name = transport.get_extra_info("peername") if transport is not None else None
    own = transport.get_extra_info("sockname") if transport is not None else None
    if isinstance(name, tuple):
        return peer_text(name[0], name[1])
    path = own if isinstance(own, str) else ""
    return f"unix:{path}#{number}"


def peer_text(address: str, port: int) -> str:
    """An address in the form of grpcio."""
    if ":" in address:
        return f"ipv6:{quote(f'[{address}]', safe=':')}:{port}"
    return f"ipv4:{address}:{port}"


@lru_cache(_HOSTS_REMEMBERED)
def host_of(peer: str) -> str:
    """The host that a peer counts for: an IPv4 address, or a network of IPv6, ``/64``.

    Args:
        peer: As ``Identity.peer``, brackets also as they are. One without an address counts for
            the kind of its socket, such as ``unix``.
    """
    place = peer.rpartition(":")[0]
    if place.startswith("ipv4:"):
        return place[5:]
    if not place.startswith("ipv6:"):
        return place
    written = place[5:].replace("%5B", "[").replace("%5D", "]").strip("[]")
    try:
        address = IPv6Address(written.partition("%")[0])
    except ValueError:
        return place
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return f"{IPv6Address(int(address) & _NETWORK_MASK)}/64"
