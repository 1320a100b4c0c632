"""The address of a caller, in the forms of gRPC and of a record."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import unquote

from ariane_record.layout import Host

_UNKNOWN: Host = ("0.0.0.0", 0)  # noqa: S104 - an empty host slot, nothing listens.


@lru_cache(maxsize=4096)
def peer_host(peer: str) -> Host:
    """Address and port of a peer: ``ipv4:10.0.0.1:4711`` or ``ipv6:%5B::1%5D:4711``.

    For peers of other kinds (a Unix socket) it is zeros.
    """
    kind, _, place = peer.partition(":")
    host, _, port = unquote(place).rpartition(":")
    if kind not in {"ipv4", "ipv6"} or not port.isdigit():
        return _UNKNOWN
    return host.strip("[]").partition("%")[0], int(port)


def peer_text(peer: str) -> str:
    """Address and port of a peer, as text."""
    return host_text(peer_host(peer))


def host_text(address: Host) -> str:
    """An address and its port, as text."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
