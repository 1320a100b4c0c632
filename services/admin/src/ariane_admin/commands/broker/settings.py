"""``ariane broker set``: settings of a broker while it runs."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ariane_admin.asking.changing.changes import AdminChoice, administration, change_options
from ariane_admin.asking.changing.setting_changes import (
    Assignment,
    AssignmentType,
    SettingChanges,
    change_settings,
)
from ariane_admin.asking.cluster_doors import ClusterDoors
from ariane_admin.asking.connection import run_async
from ariane_admin.terminal.output import Output


@click.command("set")
@click.argument("name")
@click.argument("assignments", nargs=-1, required=True, type=AssignmentType())
@change_options
def set_settings(
    *,
    name: str,
    assignments: Sequence[Assignment],
    name_servers: str,
    admin: AdminChoice,
    output: Output,
) -> None:
    """Change settings of the running broker NAME; the change lasts until it restarts.

    If the broker has replicas, only the primary is changed. ariane broker show NAME --settings
    marks the settings that can be changed this way; each has a range. Put other settings, and
    changes that must last, into the broker's configuration file, environment or flags.

    \b
    Example:
      ariane broker set broker-a concurrent_calls_max=8192
    """  # noqa: D301 - \b is click's mark for text that keeps its lines

    async def work() -> SettingChanges:
        async with ClusterDoors(name_servers) as doors:
            [found] = await doors.primaries([name])
        async with administration(name_servers, admin) as changes:
            return await change_settings(changes, "broker", [found.address], assignments)

    run_async(work()).write(output)
