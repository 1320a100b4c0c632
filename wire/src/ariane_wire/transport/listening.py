"""Ports that a server listens on."""

from __future__ import annotations

import os
import socket
import stat
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from ariane_wire.errors import BindRefused
from ariane_wire.transport.targets import split_address

BACKLOG: Final = 1024


@dataclass(frozen=True, slots=True)
class Bound:
    """Sockets that are bound and do not listen yet.

    Attributes:
        port: Of all of them; 0 for unix sockets.
    """

    sockets: tuple[socket.socket, ...]
    port: int
    path: str = ""


def bind(address: str) -> Bound:
    """Bind ``host:port``, ``[address]:port`` or ``unix:path``; port 0 means any that is free.

    Raises:
        BindRefused: It is in use, or not of this machine, or no address.
    """
    try:
        if address.startswith(("unix:", "unix-abstract:")):
            return _bind_unix(address)
        host, port = split_address(address)
        return _bind_ports(host, port or 0)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise BindRefused(f"cannot listen on {address}: {reason}") from None


def _bind_unix(address: str) -> Bound:
    scheme, _, rest = address.partition(":")
    path = unquote(rest.removeprefix("//") if scheme == "unix" else rest)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if scheme == "unix-abstract":
            listener.bind("\0" + path)
            return Bound((listener,), 0)
        _remove_stale(path)
        listener.bind(path)
    except OSError:
        listener.close()
        raise
    return Bound((listener,), 0, path)


def _remove_stale(path: str) -> None:
    """Remove a socket that nobody listens on any more, and nothing else."""
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):  # noqa: PTH116 - one call, on the way to a socket.
            return
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)  # noqa: PTH108 - the same.


def _bind_ports(host: str, port: int) -> Bound:
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, target in dict.fromkeys(infos):
            try:
                listener = socket.socket(family, kind, protocol)
            except OSError:
                if len(infos) == 1:
                    raise
                continue  # A family that the machine does not have.
            sockets.append(listener)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                # "[::]" takes both families, as with grpcio.
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, host != "::")
            listener.bind((target[0], port, *target[2:]))
            port = listener.getsockname()[1]
    except OSError:
        for listener in sockets:
            listener.close()
        raise
    return Bound(tuple(sockets), port)
