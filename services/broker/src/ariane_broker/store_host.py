"""The address that a broker writes into its records: room for IPv4 and a port."""

from __future__ import annotations

import socket
from ipaddress import IPv6Address, ip_address

from ariane_record.layout import Host
from ariane_servicekit import Address

_LOOPBACK = "127.0.0.1"
_NONE = "0.0.0.0"  # noqa: S104 - an empty host slot, nothing listens.


def store_host(address: Address) -> Host:
    """IPv4 address and port of a broker that is reached at an address. May ask a resolver.

    A host that has no IPv4 address leaves the slot empty; message ids then differ by port alone.
    """
    return literal_host(address) or (_resolved(address.host), address.port)


def literal_host(address: Address) -> Host | None:
    """The same for a host that is spelt as numbers, without asking anybody; None for a name."""
    if address.is_wildcard:
        return _LOOPBACK, address.port
    try:
        ip = ip_address(address.host)
    except ValueError:
        return None
    if isinstance(ip, IPv6Address):
        mapped = ip.ipv4_mapped
        loopback = _LOOPBACK if ip.is_loopback else _NONE
        return loopback if mapped is None else str(mapped), address.port
    return str(ip), address.port


def _resolved(name: str) -> str:
    try:
        found = socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)
    except OSError:
        return _NONE
    return str(found[0][4][0])
