"""``ariane group pause`` and ``resume``: whether a group may consume."""

from __future__ import annotations

import shlex

import click

from ariane.admin.v1.group_service_pb2 import UpdateGroupRequest
from ariane.broker.v1.group_service_pb2 import ConsumerGroupChange
from ariane_admin.asking.changing.changes import (
    AdminChoice,
    change_options,
    changed_everywhere,
)
from ariane_admin.terminal.confirmation import confirm, yes_option
from ariane_admin.terminal.output import Output


@click.command("pause")
@click.argument("name")
@yes_option
@change_options
def pause(*, name: str, yes: bool, name_servers: str, admin: AdminChoice, output: Output) -> None:
    """Stop delivery to group NAME until it is resumed.

    Members stay connected and keep their queues while the backlog grows. Brokers remember the pause
    when they restart.

    \b
    Example:
      ariane group pause billing --yes
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    confirm(f"Stop delivery to group {name}?", yes=yes)
    _set_consuming(name_servers, admin, name, enabled=False)
    output.done(
        f"Group {name} is paused; resume it with ariane group resume {shlex.quote(name)}.",
        {"group": name, "consume_enabled": False},
    )


@click.command("resume")
@click.argument("name")
@change_options
def resume(*, name: str, name_servers: str, admin: AdminChoice, output: Output) -> None:
    """Resume delivery to group NAME after a pause.

    \b
    Example:
      ariane group resume billing
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    _set_consuming(name_servers, admin, name, enabled=True)
    output.done(f"Delivery to group {name} is resumed.", {"group": name, "consume_enabled": True})


def _set_consuming(name_servers: str, admin: AdminChoice, name: str, *, enabled: bool) -> None:
    """Change it on all brokers that know the group.

    Raises:
        GroupNotFound: None does.
        CallError: One did not do it.
    """
    change = ConsumerGroupChange(consumer_group=name, consume_enabled=enabled)
    request = UpdateGroupRequest(group=change)
    changed_everywhere(name_servers, admin, lambda one: one.groups.UpdateGroup, request)
