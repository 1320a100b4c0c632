"""``ariane group forget``: a topic that a group has nothing to do with any more."""

from __future__ import annotations

import shlex

import click

from ariane.admin.v1.group_service_pb2 import DeleteGroupOffsetsRequest
from ariane_admin.asking.changing.changes import (
    AdminChoice,
    change_options,
    changed_everywhere,
)
from ariane_admin.asking.connection import run_async
from ariane_admin.asking.questions import expect_topic, questions
from ariane_admin.terminal.client_warnings import say_warning
from ariane_admin.terminal.confirmation import confirm, dry_run_option, yes_option
from ariane_admin.terminal.output import Output


@click.command("forget")
@click.argument("name")
@click.argument("topic")
@dry_run_option
@yes_option
@change_options
def forget(
    *,
    name: str,
    topic: str,
    dry_run: bool,
    yes: bool,
    name_servers: str,
    admin: AdminChoice,
    output: Output,
) -> None:
    """Delete the offsets of group NAME in TOPIC, as if it had never consumed it.

    For a topic that the group no longer subscribes to: its backlog there is gone from every list.
    If the group subscribes again, it begins where its own start position says. Refused while a live
    member subscribes to the topic. The result shows the offsets as they were.

    \b
    Examples:
      ariane group forget billing orders --dry-run
      ariane group forget billing orders --yes
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    if not dry_run:
        confirm(f"Delete the offsets of group {name} in {topic}?", yes=yes)
    request = DeleteGroupOffsetsRequest(consumer_group=name, topic=topic, validate_only=dry_run)
    answer = changed_everywhere(
        name_servers, admin, lambda one: one.groups.DeleteGroupOffsets, request
    )
    rows = [
        {
            "broker": each.broker_name,
            "queue_id": each.queue_id,
            "consumer_offset": each.queue_offset,
        }
        for each in answer.offsets
    ]
    if not rows:
        run_async(_expected(name_servers, topic))
        say_warning(
            f"group {name} has no offset in topic {topic}; ariane group show {shlex.quote(name)}"
            " has all"
        )
    output.rows(("broker", "queue_id", "consumer_offset"), rows)


async def _expected(name_servers: str, topic: str) -> None:
    async with questions(name_servers) as asked:
        await expect_topic(asked, topic)
