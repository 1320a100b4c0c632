"""The addresses of a cluster: options of the commands that call it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from ariane_admin.asking.contexts import ContextInUse
from ariane_admin.terminal.interruption import as_usual

DEFAULT_NAME_SERVERS = "127.0.0.1:9876"
"""The name server of ``ariane dev``."""

NAME_SERVERS_VARIABLE = "ARIANE_NAME_SERVERS"

DEFAULT_CHECKER = "127.0.0.1:9880"
"""The transaction checker of ``ariane dev``."""

CHECKER_VARIABLE = "ARIANE_TXN_CHECKER"

DEFAULT_ADMIN = "127.0.0.1:9881"
"""The admin of ``ariane dev``."""

ADMIN_VARIABLE = "ARIANE_ADMIN"

_PORT_MAX = 0xFFFF
_PORT_DIGITS_MAX = 5

_Command = TypeVar("_Command", bound=Callable[..., Any])
_Result = TypeVar("_Result")


def name_servers_option(command: _Command) -> _Command:
    """Give a command the option ``--name-servers`` and the argument `name_servers`."""
    option = click.option(
        "--name-servers",
        default=DEFAULT_NAME_SERVERS,
        envvar=NAME_SERVERS_VARIABLE,
        show_default=True,
        show_envvar=True,
        metavar="HOST:PORT,...",
        help="Addresses of the name servers, or sources of them: dns:HOST:PORT, file:PATH, a URL.",
    )
    return option(command)


def checker_option(command: _Command) -> _Command:
    """Give a command the option ``--checker`` and the argument `checker`."""
    option = click.option(
        "--checker",
        default=DEFAULT_CHECKER,
        envvar=CHECKER_VARIABLE,
        show_default=True,
        show_envvar=True,
        metavar="HOST:PORT",
        callback=_checker,
        help="Address of any transaction checker; all that share a database give the same answers.",
    )
    return option(command)


def check_address(value: str) -> str:
    """Return an address if it is valid.

    Raises:
        click.BadParameter: It is not valid.
    """
    host, _, port = value.rpartition(":")
    is_host = bool(host) and "/" not in host and not any(map(str.isspace, host))
    is_number = port.isascii() and port.isdigit() and len(port) <= _PORT_DIGITS_MAX
    is_port = is_number and 0 < int(port) <= _PORT_MAX
    if not (is_host and is_port):
        raise click.BadParameter(f'{value!r}: expected "host:port"')
    return value


def _checker(context: click.Context, parameter: click.Parameter, value: str) -> str:
    return address_of(context, parameter, value, "transaction checker")


def address_of(context: click.Context, parameter: click.Parameter, value: str, what: str) -> str:
    """The address of a process of the cluster, from an option.

    Args:
        context: The command's context.
        parameter: The option, ``--checker`` or ``--admin``.
        value: Its value.
        what: The kind of process, in words.

    Raises:
        click.BadParameter: It is not an address; or the option is not given and the context in use
            has no such address: the process of this machine belongs to another cluster.
    """
    used = context.find_root().obj
    by_default = context.get_parameter_source(str(parameter.name)) is ParameterSource.DEFAULT
    if by_default and isinstance(used, ContextInUse):
        raise click.BadParameter(
            f"context {used.name} has no {what}; give it here, or save it with"
            f" ariane context add {used.name} --{parameter.name}"
        )
    if value == "none":
        raise click.BadParameter(
            f"none is only for commands that change something; give the address of {what}"
        )
    return check_address(value)


def run_async(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run the work of a command; Ctrl-C and SIGTERM let it clean up first.

    Raises:
        KeyboardInterrupt: After either signal.
    """
    as_usual()
    try:
        return asyncio.run(_until_terminated(work))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


async def _until_terminated(work: Coroutine[Any, Any, _Result]) -> _Result:
    task = asyncio.current_task()
    # Only the main thread may set signal handlers, and tests run commands in other threads.
    with suppress(RuntimeError, ValueError):
        if task is not None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await work
