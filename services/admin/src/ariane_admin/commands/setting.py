"""``ariane setting``: the settings of all processes of a kind, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from ariane.admin.v1.setting_service_pb2 import (
    ClusterSetting,
    ListSettingsRequest,
    ListSettingsResponse,
)
from ariane_admin.asking.changing.changes import AdminChoice, administration, change_options
from ariane_admin.asking.changing.setting_changes import (
    Assignment,
    AssignmentType,
    SettingChanges,
    change_settings,
)
from ariane_admin.asking.connection import checker_option, name_servers_option, run_async
from ariane_admin.asking.questions import questions
from ariane_admin.terminal.client_warnings import say_warning
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.output import Output, Row, output_option

_BY_NAME_SERVERS: Final = ("broker", "filter", "namesrv")
_CHECKER: Final = "txn-checker"


@click.command("list")
@click.argument("service", type=click.Choice([*_BY_NAME_SERVERS, _CHECKER]))
@click.option("--at", "address", default="", metavar="HOST:PORT", help="Only this process.")
@click.option("--differing", is_flag=True, help="Only settings that are not at their default.")
@name_servers_option
@checker_option
@output_option
def list_settings(
    *,
    service: str,
    address: str,
    differing: bool,
    name_servers: str,
    checker: str,
    output: Output,
) -> ExitStatus:
    """List the settings of all processes of SERVICE with their values.

    "Changeable" marks settings that ariane setting set can change while the process runs. A value
    that differs between processes is shown per address. A warning names each process that does not
    answer; the others are shown, and the exit status is 3.

    \b
    Examples:
      ariane setting list namesrv
      ariane setting list broker --differing -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines

    async def ask() -> ListSettingsResponse:
        checkers = [checker] if service == _CHECKER else []
        request = ListSettingsRequest(service=service, address=address, differing_only=differing)
        async with questions(name_servers, checkers) as asked:
            return await asked.settings.ListSettings(request)

    answer = run_async(ask())
    for each in answer.silent_processes:
        say_warning(f"a process does not answer, and is not shown: {each.error.message}")
    output.rows(("name", "value", "default", "changeable"), map(_row, answer.settings))
    return ExitStatus.UNREACHABLE if answer.silent_processes else ExitStatus.DONE


@click.command("set")
@click.argument("service", type=click.Choice([*_BY_NAME_SERVERS, _CHECKER, "admin"]))
@click.argument("assignments", nargs=-1, required=True, type=AssignmentType())
@click.option(
    "--at",
    "addresses",
    multiple=True,
    metavar="HOST:PORT",
    help="Only this process; may be repeated. All processes of the service by default.",
)
@change_options
def set_settings(
    *,
    service: str,
    assignments: Sequence[Assignment],
    addresses: Sequence[str],
    name_servers: str,
    admin: AdminChoice,
    output: Output,
) -> None:
    """Change settings of all running processes of SERVICE, until they restart.

    ariane setting list SERVICE marks the settings that can be changed this way; each has a range.
    Put other settings, and changes that must last, into the configuration file, environment or
    flags of the process. Transaction checkers and admin can be changed through admin only.

    \b
    Example:
      ariane setting set namesrv concurrent_calls_max=8192
    """  # noqa: D301 - \b is click's mark for text that keeps its lines

    async def work() -> SettingChanges:
        async with administration(name_servers, admin) as changes:
            return await change_settings(changes, service, addresses, assignments)

    run_async(work()).write(output)


def _row(found: ClusterSetting) -> Row:
    values = dict(sorted(found.values.items()))
    each = set(values.values())
    by_address = "; ".join(f"{address}: {value}" for address, value in values.items())
    return {
        "name": found.setting.name,
        "value": each.pop() if len(each) == 1 else by_address,
        "default": found.setting.default_value,
        "type": found.setting.type,
        "changeable": found.setting.dynamic,
        "description": found.setting.description,
        "values": values,
    }
