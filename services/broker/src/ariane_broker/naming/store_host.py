"""The address that a broker writes into its records, and that message ids are made of."""

from __future__ import annotations

import socket
from ipaddress import IPv6Address, ip_address

from ariane_record.layout import Host
from ariane_servicekit import Address

_LOOPBACK = "127.0.0.1"
_NONE = "0.0.0.0"  # noqa: S104 - an empty host slot, nothing listens.


def store_host(address: Address) -> Host:
    """IP address and port of a broker with an address; a name may need a resolver.

    Of a name with addresses of both kinds, IPv4 is taken: older readers know only IPv4. A name
    without an address leaves the field empty; message ids then differ by port alone.
    """
    return literal_host(address) or (_resolved(address.host), address.port)


def literal_host(address: Address) -> Host | None:
    """The same for a numeric host, without a resolver; None for a name."""
    if address.is_wildcard:
        return _LOOPBACK, address.port
    try:
        return _stored(address.host), address.port
    except ValueError:
        return None


def _stored(spelling: str) -> str:
    """An address as in records: without zone, and as IPv4 if it is an IPv4-mapped IPv6 one."""
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
