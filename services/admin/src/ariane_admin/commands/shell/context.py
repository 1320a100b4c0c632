"""``ariane context``: clusters by name, so that no command line needs addresses."""

from __future__ import annotations

import re

import click

from ariane_admin.asking.connection import check_address
from ariane_admin.asking.contexts import (
    ADMIN,
    CHECKER,
    NAME_SERVERS,
    contexts_path,
    load_contexts,
    save_contexts,
)
from ariane_admin.terminal.output import Output, output_option
from ariane_wire import is_source

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_FILE = click.Path(exists=True, dir_okay=False, readable=True, resolve_path=True)
_COLUMNS = ("current", "context", "name_servers", "checker", "admin")


def _name(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    if not _NAME.fullmatch(value):
        raise click.BadParameter("letters, digits, '.', '_' and '-'; at most 63")
    return value


def _addresses(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    given = [address.strip() for address in value.split(",")]
    return ",".join(each if is_source(each) else check_address(each) for each in given)


def _one(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    return value if value is None else check_address(value)


@click.command()
@click.argument("name", callback=_name)
@click.option(
    "--name-servers",
    required=True,
    metavar="HOST:PORT,...",
    callback=_addresses,
    help="Addresses of the name servers, or sources of them: dns:HOST:PORT, file:PATH, a URL.",
)
@click.option(
    "--checker",
    metavar="HOST:PORT",
    callback=_one,
    help="Address of any transaction checker of the cluster.",
)
@click.option(
    "--admin",
    metavar="HOST:PORT",
    callback=_one,
    help="Address of the cluster's admin; changes go through it.",
)
@click.option("--tls-ca", type=_FILE, help="Authority of the cluster's processes, PEM.")
@click.option("--tls-certificate", type=_FILE, help="Certificate of the user, PEM.")
@click.option("--tls-key", type=_FILE, help="Private key of the user's certificate, PEM.")
@output_option
def add(
    *,
    name: str,
    name_servers: str,
    checker: str | None,
    admin: str | None,
    output: Output,
    **files: str | None,
) -> None:
    """Save or change the addresses of a cluster as context NAME.

    \b
    Examples:
      ariane context add prod --name-servers 10.0.0.1:9876,10.0.0.2:9876
      ariane context add prod --name-servers 10.0.0.1:9876 --admin 10.0.0.1:9881
      ariane context add prod --name-servers 10.0.0.1:9876 --tls-ca members.pem
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    given = {NAME_SERVERS: name_servers, CHECKER: checker, ADMIN: admin, **files}
    places = {place: address for place, address in given.items() if address is not None}
    contexts = load_contexts().with_context(name, places)
    save_contexts(contexts)
    output.done(
        f"Context {name} is saved in {contexts_path()}; the current context is {contexts.current}.",
        {"context": name, **places, "current": contexts.current},
    )


@click.command()
@click.argument("name")
@output_option
def use(*, name: str, output: Output) -> None:
    """Make context NAME the one that commands use from now on.

    \b
    Examples:
      ariane context use prod
      ariane --context test topic list        for one command
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    save_contexts(load_contexts().using(name))
    output.done(f"Context {name} is now the current one.", {"current": name})


@click.command("list")
@output_option
def list_contexts(*, output: Output) -> None:
    """List contexts by name.

    \b
    Examples:
      ariane context list
      ariane context list -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    contexts = load_contexts()
    rows = [
        {
            "current": name == contexts.current
            if output.for_programs
            else _mark(name == contexts.current),
            "context": name,
            "name_servers": places.get(NAME_SERVERS, ""),
            "checker": places.get(CHECKER, ""),
            "admin": places.get(ADMIN, ""),
        }
        for name, places in sorted(contexts.by_name.items())
    ]
    output.rows(_COLUMNS, rows)


@click.command()
@click.argument("name")
@output_option
def delete(*, name: str, output: Output) -> None:
    """Delete context NAME; the cluster itself is not touched.

    \b
    Examples:
      ariane context delete old
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    contexts = load_contexts().without(name)
    save_contexts(contexts)
    used = contexts.current or "none"
    output.done(f"Context {name} is forgotten; used now: {used}.", {"current": contexts.current})


def _mark(is_current: bool) -> str:
    return "*" if is_current else ""
