"""The header of the PROXY protocol, version 2: whose connection a proxy passes on.

::

    octets    12          1              1         2        length
           signature  version, command  family   length   addresses, then what is not read here

A proxy sends it before anything else. Text of version 1 is not taken.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from struct import Struct
from typing import Final, NamedTuple

SIGNATURE: Final = b"\r\n\r\n\0\r\nQUIT\n"

HEAD_OCTETS: Final = 16
"""What comes before the addresses."""

REST_OCTETS_MAX: Final = 2048
"""Addresses and what follows them; proxies send some hundreds of octets."""

_LOCAL, _PROXY = 0x20, 0x21
_UNSPECIFIED, _TCP4, _TCP6, _UNIX = 0x00, 0x11, 0x21, 0x31

_head: Final = Struct(">12sBBH")
_tcp4: Final = Struct(">4s4sHH")
_tcp6: Final = Struct(">16s16sHH")
_unix: Final = Struct(">108s108s")

_ADDRESSES: Final = {_UNSPECIFIED: Struct(""), _TCP4: _tcp4, _TCP6: _tcp6, _UNIX: _unix}


class ProxyHeaderWrong(ValueError):
    """What came is no header that is taken."""


class ProxyHead(NamedTuple):
    """The first octets of a header."""

    is_own: bool
    """Whether the connection is the proxy's own: it asks whether we live."""
    family: int
    """Of the addresses."""
    rest_octets: int
    """How many octets follow."""


def proxy_head(octets: bytes) -> ProxyHead:
    """Read the first octets, of which there are ``HEAD_OCTETS``.

    Raises:
        ProxyHeaderWrong: They begin no header that is taken.
    """
    if len(octets) != HEAD_OCTETS:
        raise ProxyHeaderWrong(f"{len(octets)} octets are no head")
    signature, command, family, rest_octets = _head.unpack(octets)
    if signature != SIGNATURE:
        raise ProxyHeaderWrong("it does not begin with the signature")
    if command not in {_LOCAL, _PROXY}:
        raise ProxyHeaderWrong(f"version and command are {command:#04x}")
    if rest_octets > REST_OCTETS_MAX:
        raise ProxyHeaderWrong(f"{rest_octets} octets follow, at most {REST_OCTETS_MAX}")
    is_own = command == _LOCAL
    if not is_own:
        if family not in _ADDRESSES:
            raise ProxyHeaderWrong(f"the family is {family:#04x}")
        if rest_octets < _ADDRESSES[family].size:
            raise ProxyHeaderWrong(f"{rest_octets} octets have no room for the addresses")
    return ProxyHead(is_own, family, rest_octets)


def proxied_client(head: ProxyHead, rest: bytes) -> tuple[str, int] | None:
    """The address and port of the client; None if they are those of the connection itself.

    Args:
        head: What came first.
        rest: What followed, ``head.rest_octets`` of it.

    Raises:
        ProxyHeaderWrong: There is less of it.
    """
    if len(rest) != head.rest_octets:
        raise ProxyHeaderWrong(f"{len(rest)} octets followed, not {head.rest_octets}")
    if head.is_own or head.family not in {_TCP4, _TCP6}:
        return None
    if head.family == _TCP4:
        source, _, port, _ = _tcp4.unpack_from(rest)
        return str(IPv4Address(source)), port
    source, _, port, _ = _tcp6.unpack_from(rest)
    address = IPv6Address(source)
    return str(address.ipv4_mapped or address), port
