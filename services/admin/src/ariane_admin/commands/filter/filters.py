"""``ariane filter``: uploaded filters, at all FilterServers of a cluster."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from ariane.admin.v1 import filter_service_pb2 as admin_pb
from ariane.filter.v1 import filter_pb2
from ariane.filter.v1.filter_service_pb2 import GetFilterRequest
from ariane_admin.asking.changing.changes import (
    AdminChoice,
    administration,
    change_options,
    error_of,
)
from ariane_admin.asking.changing.module_file import module_in
from ariane_admin.asking.cluster_doors import CALL_SECONDS_MAX, ClusterDoors
from ariane_admin.asking.connection import run_async
from ariane_admin.asking.filter_servers import (
    LOAD_SECONDS_MAX,
    FilterServer,
    ask_all,
    filter_servers,
    kept_filter,
    kept_filters,
)
from ariane_admin.asking.options import question_options
from ariane_admin.errors import CommandFailed
from ariane_admin.terminal.confirmation import confirm, dry_run_option, yes_option
from ariane_admin.terminal.error_statuses import exit_status_of, reasoned
from ariane_admin.terminal.output import Output, Row
from ariane_admin.times import moment_text
from ariane_sdk import Uploaded

_COLUMNS: Final = ("filter", "language", "bytes", "state", "groups", "servers", "uploaded")
_DIGITS: Final = 12

_version_argument: Final = click.argument("filter_version", metavar="NAME@VERSION")


@click.command("upload")
@click.argument("name")
@click.argument("module", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@change_options
def upload(
    *,
    name: str,
    module: Path,
    name_servers: str,
    admin: AdminChoice,
    output: Output,
) -> None:
    """Upload MODULE (Python source or WebAssembly) as a version of filter NAME.

    The module goes to the FilterServers of all brokers, which test it before they accept it. Its
    version is its SHA-256. Uploading it again is harmless, and reaches FilterServers that did not
    answer before.

    \b
    Example:
      ariane filter upload late late.py
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    code = module_in(module)

    request = admin_pb.UploadFilterRequest(filter=name, module=code)

    async def ask() -> admin_pb.UploadFilterResponse:
        async with administration(name_servers, admin) as changes:
            method = changes.filters.UploadFilter
            return await changes.ask(method, request, seconds_max=2 * LOAD_SECONDS_MAX)

    answer = run_async(ask())
    kept, known = answer.filter, answer.duplicate
    done = _done(answer.outcomes)
    called = f"{kept.filter}@{kept.version[:_DIGITS]}"
    sentence = "was already uploaded" if known else "is uploaded"
    output.done(
        f'{called} {sentence}: at {_servers(done)}.\nConsumers name it by Uploaded("{called}").',
        {
            "filter": called,
            "version": kept.version,
            "duplicate": known,
            **_by_address(answer.outcomes),
        },
    )
    _fail_if_some_failed(answer.outcomes)


@click.command("list")
@click.argument("name", default="")
@question_options
def list_filters(*, name: str, name_servers: str, output: Output) -> None:
    """List all uploaded filters, or the versions of NAME.

    \b
    Examples:
      ariane filter list
      ariane filter list late -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines

    async def ask() -> list[Row]:
        async with ClusterDoors(name_servers) as doors:
            servers = await filter_servers(doors)
            answers = await ask_all(servers, lambda server: kept_filters(doors, server, name))
            found: dict[tuple[str, str], dict[FilterServer, filter_pb2.Filter]]
            found = defaultdict(dict)
            for server, kept in answers.required().items():
                for each in kept:
                    found[each.filter, each.version][server] = each
            return [_row(kept, len(servers)) for _, kept in sorted(found.items())]

    output.rows(_COLUMNS, run_async(ask()))


@click.command("show")
@_version_argument
@click.option("--module", "with_module", is_flag=True, help="Print only the module itself.")
@question_options
def show(*, filter_version: str, with_module: bool, name_servers: str, output: Output) -> None:
    """Show one version of a filter: its state and the groups that use it.

    \b
    Examples:
      ariane filter show late@3f2a9c1b5d6e
      ariane filter show late@3f2a9c1b5d6e --module
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    name, version = _parts(filter_version)

    async def ask() -> tuple[Row, bytes]:
        async with ClusterDoors(name_servers) as doors:
            servers = await filter_servers(doors)
            request = GetFilterRequest(filter=name, version=version)
            kept = (
                await ask_all(servers, lambda server: kept_filter(doors, server, request))
            ).required()
            if not with_module:
                return _row(kept, len(servers)), b""
            request.include_module = True
            stub = doors.filters(next(iter(kept)).address)
            return {}, (await stub.GetFilter(request, timeout=CALL_SECONDS_MAX)).module

    row, module = run_async(ask())
    if with_module:
        click.echo(module, nl=False)
    else:
        output.record(row)


@click.command("quarantine")
@_version_argument
@click.option("--cause", default="", help="Reason shown to the groups that are refused.")
@change_options
def quarantine(
    *,
    filter_version: str,
    cause: str,
    name_servers: str,
    admin: AdminChoice,
    output: Output,
) -> None:
    """Stop a version of a filter everywhere; its groups get an error and lose no messages.

    \b
    Example:
      ariane filter quarantine late@3f2a9c1b5d6e --cause "drops flights of codeshares"
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    name, version = _parts(filter_version)
    request = admin_pb.UpdateFilterQuarantineRequest(filter=name, version=version, cause=cause)
    outcomes = run_async(_quarantined(name_servers, admin, request))
    _tell_done(output, filter_version, "is quarantined", outcomes)


@click.command("release")
@_version_argument
@change_options
def release(*, filter_version: str, name_servers: str, admin: AdminChoice, output: Output) -> None:
    """Let a quarantined version of a filter run again, and reset its strikes.

    \b
    Example:
      ariane filter release late@3f2a9c1b5d6e
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    name, version = _parts(filter_version)
    request = admin_pb.UpdateFilterQuarantineRequest(filter=name, version=version, release=True)
    outcomes = run_async(_quarantined(name_servers, admin, request))
    _tell_done(output, filter_version, "may run again", outcomes)


@click.command("delete")
@_version_argument
@dry_run_option
@yes_option
@change_options
def delete(
    *,
    filter_version: str,
    dry_run: bool,
    yes: bool,
    name_servers: str,
    admin: AdminChoice,
    output: Output,
) -> None:
    """Delete a version of a filter from all FilterServers.

    This is refused while a group consumes through it. Groups that name the version get an error
    until it is uploaded again.

    \b
    Example:
      ariane filter delete late@3f2a9c1b5d6e
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    name, version = _parts(filter_version)
    if dry_run:
        row = run_async(_kept_row(name_servers, name, version))
        groups = row["groups"]
        used = f"; refused while it is used by {', '.join(groups)}" if groups else ""
        output.done(
            f"{filter_version} would be deleted at {row['servers']} FilterServers{used}.",
            {**row, "dry_run": True},
        )
        return
    confirm(f"Delete filter {filter_version} at all FilterServers?", yes=yes)
    request = admin_pb.DeleteFilterRequest(filter=name, version=version)

    async def ask() -> Sequence[admin_pb.FilterServerOutcome]:
        async with administration(name_servers, admin) as changes:
            return (await changes.ask(changes.filters.DeleteFilter, request)).outcomes

    _tell_done(output, filter_version, "is deleted", run_async(ask()))


async def _kept_row(name_servers: str, name: str, version: str) -> Mapping[str, Any]:
    """One version as all FilterServers keep it."""
    request = GetFilterRequest(filter=name, version=version)
    async with ClusterDoors(name_servers) as doors:
        servers = await filter_servers(doors)
        kept = await ask_all(servers, lambda server: kept_filter(doors, server, request))
        return _row(kept.required(), len(servers))


async def _quarantined(
    name_servers: str,
    admin: AdminChoice,
    request: admin_pb.UpdateFilterQuarantineRequest,
) -> Sequence[admin_pb.FilterServerOutcome]:
    async with administration(name_servers, admin) as changes:
        return (await changes.ask(changes.filters.UpdateFilterQuarantine, request)).outcomes


def _tell_done(
    output: Output,
    filter_version: str,
    what: str,
    outcomes: Sequence[admin_pb.FilterServerOutcome],
) -> None:
    output.done(
        f"{filter_version} {what}: at {_servers(_done(outcomes))}.",
        {"filter": filter_version, **_by_address(outcomes)},
    )
    _fail_if_some_failed(outcomes)


def _done(
    outcomes: Sequence[admin_pb.FilterServerOutcome],
) -> list[admin_pb.FilterServerOutcome]:
    return [each for each in outcomes if not each.HasField("error")]


def _by_address(outcomes: Sequence[admin_pb.FilterServerOutcome]) -> Mapping[str, object]:
    return {
        "servers": [each.address for each in _done(outcomes)],
        "failed": [each.address for each in outcomes if each.HasField("error")],
    }


def _fail_if_some_failed(outcomes: Sequence[admin_pb.FilterServerOutcome]) -> None:
    """End with a status that says so, when a FilterServer did not do it."""
    failed = [each for each in outcomes if each.HasField("error")]
    if failed:
        error = error_of(failed[0].error)
        raise CommandFailed(
            f"not done at {len(failed)} FilterServers, such as {failed[0].address}:"
            f" {reasoned(error)}; it is safe to repeat the command",
            exit_status_of(error),
        )


def _parts(filter_version: str) -> tuple[str, str]:
    name, _, version = Uploaded(filter_version).filter_version.partition("@")
    return name, version


def _servers(given: Sequence[admin_pb.FilterServerOutcome]) -> str:
    brokers = {server.broker_name for server in given}
    plural = "" if len(given) == 1 else "s"
    return f"{len(given)} FilterServer{plural} of {', '.join(sorted(brokers))}"


def _row(kept: Mapping[FilterServer, filter_pb2.Filter], server_count: int) -> Row:
    """One version, as all FilterServers together tell of it."""
    each = next(iter(kept.values()))
    stopped = [one for one in kept.values() if one.quarantine_cause]
    groups = {group for one in kept.values() for group in one.consumer_groups}
    state = "active"
    if stopped:
        state = "quarantined" if len(stopped) == len(kept) else "quarantined at some"
    return {
        "filter": f"{each.filter}@{each.version[:_DIGITS]}",
        "version": each.version,
        "language": filter_pb2.FilterLanguage.Name(each.language)
        .removeprefix("FILTER_LANGUAGE_")
        .lower(),
        "bytes": each.module_size_bytes,
        "state": state,
        "quarantine_cause": stopped[0].quarantine_cause if stopped else "",
        "groups": sorted(groups),
        "servers": f"{len(kept)} of {server_count}",
        "missing_at": "" if len(kept) == server_count else "upload it again to reach all",
        "uploaded": moment_text(each, "create_time"),
    }
