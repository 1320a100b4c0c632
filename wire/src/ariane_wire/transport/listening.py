"""Ports of this machine that a server listens on."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import unquote

from ariane_wire.errors import BindRefused
from ariane_wire.transport.first_octets import TlsListener
from ariane_wire.transport.link import Link
from ariane_wire.transport.ports import BACKLOG, Listening, Networks
from ariane_wire.transport.targets import split_address
from ariane_wire.transport.tls import Credentials


@dataclass(frozen=True, slots=True)
class Bound:
    """Sockets that are bound and do not listen yet; see ``BoundPort``."""

    sockets: tuple[socket.socket, ...]
    port: int
    tls: Credentials | None
    takes_plain_text: bool
    proxies: Networks = ()

    async def listen(
        self, loop: asyncio.AbstractEventLoop, accept: Callable[[str], Link], handshake_s: float
    ) -> list[Listening]:
        """Take connections."""
        return [await self._listen(loop, accept, handshake_s, each) for each in self.sockets]

    async def _listen(
        self,
        loop: asyncio.AbstractEventLoop,
        accept: Callable[[str], Link],
        handshake_s: float,
        listener: socket.socket,
    ) -> Listening:
        if self.tls is not None or self.proxies:
            return TlsListener(
                loop,
                listener,
                accept,
                self.tls,
                handshake_s,
                takes_plain_text=self.takes_plain_text,
                proxies=self.proxies,
            )
        listen: Any = loop.create_server
        if listener.family == socket.AF_UNIX:
            listen = loop.create_unix_server
        made: Listening = await listen(partial(accept, ""), sock=listener, backlog=BACKLOG)
        return made

    def close(self) -> None:
        """Give the port back."""
        for listener in self.sockets:
            listener.close()


class MachinePorts:
    """The ports of this machine; see ``Ports``."""

    @staticmethod
    def bind(
        address: str,
        tls: Credentials | None,
        *,
        takes_plain_text: bool,
        proxies: Networks = (),
    ) -> Bound:
        """Bind an address.

        Raises:
            BindRefused: It is in use, or not of this machine, or no address.
        """
        try:
            if address.startswith(("unix:", "unix-abstract:")):
                return Bound((_bind_unix(address),), 0, tls, takes_plain_text)
            host, wanted = split_address(address)
            sockets, port = _bind_ports(host, wanted or 0)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise BindRefused(f"cannot listen on {address}: {reason}") from None
        return Bound(sockets, port, tls, takes_plain_text, proxies)


def _bind_unix(address: str) -> socket.socket:
    scheme, _, rest = address.partition(":")
    path = unquote(rest.removeprefix("//") if scheme == "unix" else rest)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if scheme == "unix-abstract":
            listener.bind("\0" + path)
        else:
            _remove_stale(path)
            listener.bind(path)
    except OSError:
        listener.close()
        raise
    return listener


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


def _bind_ports(host: str, port: int) -> tuple[tuple[socket.socket, ...], int]:
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
    return tuple(sockets), port
