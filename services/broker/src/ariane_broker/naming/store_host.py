"""The address that a broker writes into its records, and that message ids are made of."""

from __future__ import annotations

import socket
from ipaddress import IPv6Address, ip_address

from ariane_record.layout import Host
from ariane_servicekit import Address

_LOOPBACK = "127.0.0.1"
_NONE = "0.0.0.0"  # noqa: S104 - an empty host slot, nothing listens.


def store_host(address: Address) -> Host:
    """IP address and port of a broker that is reached at an address. May ask a resolver.

    Where a name stands for addresses of both kinds, IPv4 is taken: older readers know nothing else.
    A name that stands for none leaves the address empty; message ids then differ by port alone.
    """
    return literal_host(address) or (_resolved(address.host), address.port)


def literal_host(address: Address) -> Host | None:
    """The same for a host that is spelt as numbers, without asking anybody; None for a name."""
    if address.is_wildcard:
        return _LOOPBACK, address.port
    try:
        return _stored(address.host), address.port
    except ValueError:
        return None


def _stored(spelling: str) -> str:
    """An address as records have it: no zone, and IPv4 where an IPv6 address stands for that."""
    ip = ip_address(spelling.partition("%")[0])
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(ip)


def _resolved(name: str) -> str:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            found = socket.getaddrinfo(name, None, family, socket.SOCK_STREAM)
        except OSError:
            continue
        return _stored(str(found[0][4][0]))
    return _NONE
