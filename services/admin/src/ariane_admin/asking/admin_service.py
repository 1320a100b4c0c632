"""The connection to the admin service, for commands that call it."""

from __future__ import annotations

import getpass
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from ariane_admin.asking.cluster_doors import all_pages, answer_from, answer_of
from ariane_admin.asking.connection import ADMIN_VARIABLE, DEFAULT_ADMIN, address_of, run_async
from ariane_admin.terminal.output import first_of
from ariane_sdk import ClusterClient

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from grpc.aio import Channel

USER_KEY: Final = "x-ariane-claimed-user"
"""Metadata key: the caller's own claim of its name, which the audit trail records."""

ADMIN_SECONDS_MAX: Final = 30.0
"""How long one call may take: admin calls many processes."""

_Answer = TypeVar("_Answer")
_Command = TypeVar("_Command", bound=Callable[..., Any])
_Entry = TypeVar("_Entry")


def admin_option(command: _Command) -> _Command:
    """Give a command the option ``--admin`` and the argument `admin`."""
    option = click.option(
        "--admin",
        default=DEFAULT_ADMIN,
        envvar=ADMIN_VARIABLE,
        show_default=True,
        show_envvar=True,
        metavar="HOST:PORT",
        callback=lambda context, parameter, value: address_of(context, parameter, value, "admin"),
        help="Address of admin.",
    )
    return option(command)


@asynccontextmanager
async def admin_channel(address: str) -> AsyncIterator[Channel]:
    """A channel to admin, for the length of a block; it accepts answers of every size."""
    async with ClusterClient(address) as client:
        yield client.channel(address)


def answer_of_admin(
    admin: str, method: Callable[[Channel], Callable[..., Awaitable[_Answer]]], request: Message
) -> _Answer:
    """Ask admin one question.

    Args:
        admin: Admin's "host:port".
        method: The method of a stub, on a channel to admin.
        request: Its request.

    Raises:
        CallError: Admin refused or did not answer.
    """

    async def ask() -> _Answer:
        async with admin_channel(admin) as channel:
            return await answer_from(
                f"admin {admin}", method(channel), request, seconds_max=ADMIN_SECONDS_MAX
            )

    return run_async(ask())


def changed_by_admin(
    admin: str, method: Callable[[Channel], Callable[..., Awaitable[_Answer]]], request: Message
) -> _Answer:
    """Have admin make one change, in the name of the local user; arguments as of a question.

    Raises:
        CallError: Admin refused or did not answer.
    """

    async def ask() -> _Answer:
        async with admin_channel(admin) as channel:
            return await changed_through(admin, method(channel), request)

    return run_async(ask())


async def changed_through(
    admin: str, method: Callable[..., Awaitable[_Answer]], request: Message
) -> _Answer:
    """One of several changes over a channel to admin, in the name of the local user.

    Raises:
        CallError: Admin refused or did not answer.
    """
    call = method(request, timeout=ADMIN_SECONDS_MAX, metadata=own_name())
    return await answer_of(call, f"admin {admin}")


def entries_of_admin(
    admin: str,
    method: Callable[[Channel], Callable[..., Awaitable[Any]]],
    request: Any,
    entries: Callable[[Any], Sequence[_Entry]],
    *,
    count: int | None = None,
) -> Sequence[_Entry]:
    """A list of admin; a warning tells that it has more entries than were asked for.

    Args:
        admin: Admin's "host:port".
        method: The method of a stub, on a channel to admin.
        request: The request; its page fields are set here.
        entries: Takes the entries out of an answer.
        count: The most entries; None: all.

    Raises:
        CallError: Admin refused or did not answer.
    """

    async def ask() -> list[_Entry]:
        async with admin_channel(admin) as channel:
            return await all_pages(
                f"admin {admin}",
                method(channel),
                request,
                entries,
                count_max=None if count is None else count + 1,
                seconds_max=ADMIN_SECONDS_MAX,
            )

    found = run_async(ask())
    return found if count is None else first_of(found, count)


def own_name() -> tuple[tuple[str, str]]:
    """Metadata of a change: the local user and host."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "somebody"
    name = f"{user}@{socket.gethostname()}"
    return ((USER_KEY, name.encode("ascii", "replace").decode()),)
