"""Connecting to a name: resolve it anew, and race its addresses (RFC 8305, "happy eyeballs")."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import ip_address
from typing import Any, TypeVar

from ariane_wire.transport.link import Link
from ariane_wire.transport.targets import Target
from ariane_wire.transport.tls import Credentials, next_context

Won = TypeVar("Won")
Info = tuple[int, int, int, str, Any]


async def dial(
    loop: asyncio.AbstractEventLoop,
    target: Target,
    make: Callable[[], Link],
    *,
    tls: Credentials | None,
    tls_name: str = "",
    attempt_delay_s: float,
) -> Link:
    """Connect to a target.

    Args:
        loop: That runs.
        target: Where.
        make: Makes the protocol.
        tls: None for plain text.
        tls_name: The name that the server's certificate must have; empty for the target's host.
        attempt_delay_s: Between the beginnings of attempts at further addresses.

    Raises:
        OSError: No address takes the connection, the name has none, or the TLS handshake failed.
    """
    context = None if tls is None else next_context(tls)
    name = None if context is None else tls_name or target.host or target.authority
    if target.path:
        _, link = await loop.create_unix_connection(
            make, target.path, ssl=context, server_hostname=name
        )
        return link
    infos = await _resolve(loop, target)

    async def attempt(info: Info) -> Link:
        _, link = await loop.create_connection(
            make,
            *info[4][:2],
            family=info[0],
            proto=info[2],
            flags=socket.AI_NUMERICHOST,
            ssl=context,
            server_hostname=name,
        )
        return link

    return await race(interleaved(infos), attempt, attempt_delay_s, _drop)


async def _resolve(loop: asyncio.AbstractEventLoop, target: Target) -> Sequence[Info]:
    """Look a name up in a thread, for that may take long; an address of digits needs none.

    Raises:
        OSError: The name has no address.
    """
    try:
        version = ip_address(target.host).version
    except ValueError:
        return await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    family = socket.AF_INET if version == 4 else socket.AF_INET6
    return [(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (target.host, target.port))]


def _drop(link: Link) -> None:
    if link.transport is not None:
        link.transport.abort()


def interleaved(infos: Sequence[Info]) -> list[Info]:
    """Addresses in the order of attempts: families by turns, the resolver's first one first."""
    by_family: dict[int, list[Info]] = {}
    for info in infos:
        family = by_family.setdefault(info[0], [])
        if info not in family:
            family.append(info)
    rows = list(by_family.values())
    longest = max(map(len, rows), default=0)
    return [row[at] for at in range(longest) for row in rows if at < len(row)]


async def race(  # noqa: C901 - one story.
    contestants: Sequence[Info],
    attempt: Callable[[Info], Awaitable[Won]],
    delay_s: float,
    drop: Callable[[Won], None],
) -> Won:
    """Return the first attempt that succeeds.

    Each next attempt starts when the one before has failed, or after a delay. Others are dropped.

    Raises:
        OSError: All have failed; the first error is raised.
    """
    if len(contestants) == 1:
        return await attempt(contestants[0])
    # In the order of their beginnings, which decides between those that are done at once.
    running: list[asyncio.Future[Won]] = []
    errors: list[OSError] = []
    rest = list(contestants)
    try:
        while rest or running:
            if rest:
                running.append(asyncio.ensure_future(attempt(rest.pop(0))))
            await asyncio.wait(
                running,
                timeout=delay_s if rest else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            done = [each for each in running if each.done()]
            running = [each for each in running if not each.done()]
            won = [each for each in done if each.exception() is None]
            for late in won[1:]:
                drop(late.result())
            if won:
                return won[0].result()
            for lost in done:
                error = lost.exception()
                if not isinstance(error, OSError):
                    lost.result()
                else:
                    errors.append(error)
    finally:
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        for each in running:
            if not each.cancelled() and each.exception() is None:
                drop(each.result())
    raise errors[0] if errors else OSError("the name has no address")
