"""Addresses of peers, in the form of grpcio."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    import asyncio


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
