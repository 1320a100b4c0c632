"""The upload token of FilterServers, in the options of commands and the metadata of calls.

It is read from a file, since every user of the machine can read arguments. Calls carry it in the
metadata ``authorization``. Admin forwards that to the FilterServers, which check it, and does not
store it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from grpc import aio

from ariane_admin.errors import CommandFailed
from ariane_admin.terminal.exits import ExitStatus

AUTHORIZATION_KEY: Final = "authorization"
"""Metadata key, as in HTTP."""

TOKEN_FILE_VARIABLE: Final = "ARIANE_FILTER_TOKEN_FILE"  # noqa: S105 - names a file's place

Metadata = tuple[tuple[str, str], ...]
_Command = TypeVar("_Command", bound=Callable[..., Any])


def token_option(command: _Command) -> _Command:
    """Give a command the option ``--token-file`` and the argument `token`, metadata of calls."""
    option = click.option(
        "--token-file",
        "token",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        envvar=TOKEN_FILE_VARIABLE,
        show_envvar=True,
        callback=_said,
        help="File whose single line is the upload token, if the FilterServers require one.",
    )
    return option(command)


def token_of(context: aio.ServicerContext[Any, Any]) -> Metadata:
    """The token of a caller of admin, as metadata for the FilterServers."""
    return tuple(
        (key, value)
        for key, value in context.invocation_metadata() or ()
        if key == AUTHORIZATION_KEY and isinstance(value, str)
    )


def _said(_: click.Context, __: click.Parameter, path: Path | None) -> Metadata:
    if path is None:
        return ()
    try:
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(
            f"{path} cannot be read as a token: {error}", ExitStatus.USAGE
        ) from error
    if not token or not token.isprintable() or len(token.split()) != 1:
        raise CommandFailed(f"{path} must contain one word, the token", ExitStatus.USAGE)
    return ((AUTHORIZATION_KEY, f"Bearer {token}"),)
