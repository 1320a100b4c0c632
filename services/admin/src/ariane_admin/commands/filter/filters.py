"""``ariane filter``: uploaded filters, at all FilterServers of a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from ariane.admin.v1 import filter_service_pb2 as admin_pb
from ariane.filter.v1 import filter_pb2
from ariane_admin.asking.changing.changes import (
    AdminChoice,
    change_options,
    changed,
    error_of,
)
from ariane_admin.asking.changing.module_file import module_in
from ariane_admin.asking.filter_servers import LOAD_SECONDS_MAX
from ariane_admin.asking.options import question_options
from ariane_admin.asking.questions import answered
from ariane_admin.counted import counted
from ariane_admin.errors import CommandFailed
from ariane_admin.terminal.client_warnings import say_warning
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
    answer = changed(
        name_servers,
        admin,
        lambda one: one.filters.UploadFilter,
        request,
        seconds_max=2 * LOAD_SECONDS_MAX,
    )
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
    request = admin_pb.ListFiltersRequest(filter=name)
    _, answer = answered(name_servers, lambda one: one.filters.ListFilters, request)
    silent_count = _warn_of_silent(answer.silent_servers)
    output.rows(
        _COLUMNS, [_row(each, each.filter_server_count + silent_count) for each in answer.filters]
    )


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
    row, module = _kept(name_servers, filter_version)
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
    answer = changed(name_servers, admin, lambda one: one.filters.UpdateFilterQuarantine, request)
    _write(output, filter_version, "is quarantined", answer.outcomes)


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
    answer = changed(name_servers, admin, lambda one: one.filters.UpdateFilterQuarantine, request)
    _write(output, filter_version, "may run again", answer.outcomes)


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
        row, _ = _kept(name_servers, filter_version)
        groups = row["groups"]
        used = f"; refused while it is used by {', '.join(groups)}" if groups else ""
        output.done(
            f"{filter_version} would be deleted at {row['servers']} FilterServers{used}.",
            {**row, "dry_run": True},
        )
        return
    confirm(f"Delete filter {filter_version} at all FilterServers?", yes=yes)
    request = admin_pb.DeleteFilterRequest(filter=name, version=version)
    answer = changed(name_servers, admin, lambda one: one.filters.DeleteFilter, request)
    _write(output, filter_version, "is deleted", answer.outcomes)


def _kept(name_servers: str, filter_version: str) -> tuple[Mapping[str, Any], bytes]:
    """One version as all FilterServers keep it, and its module."""
    name, version = _parts(filter_version)
    request = admin_pb.GetFilterRequest(filter=name, version=version)
    _, answer = answered(name_servers, lambda one: one.filters.GetFilter, request)
    missing_count = _warn_of_silent(answer.silent_servers)
    return _row(answer.filter, len(answer.filter.filters) + missing_count), answer.module


def _warn_of_silent(servers: Sequence[admin_pb.FilterServerOutcome]) -> int:
    """Warn of FilterServers that did not answer or lack a version; return their number."""
    for each in servers:
        say_warning(reasoned(error_of(each.error)))
    return len(servers)


def _write(
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
            f"not done at {counted(len(failed), 'FilterServer')}, such as {failed[0].address}:"
            f" {reasoned(error)}; it is safe to repeat the command",
            exit_status_of(error),
        )


def _parts(filter_version: str) -> tuple[str, str]:
    name, _, version = Uploaded(filter_version).filter_version.partition("@")
    return name, version


def _servers(given: Sequence[admin_pb.FilterServerOutcome]) -> str:
    brokers = {server.broker_name for server in given}
    return f"{counted(len(given), 'FilterServer')} of {', '.join(sorted(brokers))}"


def _row(found: admin_pb.ClusterFilter, server_count: int) -> Row:
    """One version, as all FilterServers together have it."""
    kept = list(found.filters.values())
    each = kept[0]
    stopped = [one for one in kept if one.quarantine_cause]
    groups = {group for one in kept for group in one.consumer_groups}
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
