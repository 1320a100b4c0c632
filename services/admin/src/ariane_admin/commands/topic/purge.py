"""``ariane topic purge``: hide the messages that a topic has from all readers."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from ariane.admin.v1.topic_service_pb2 import PurgeTopicRequest
from ariane_admin.asking.changing.changes import (
    AdminChoice,
    change_options,
    changed_everywhere,
)
from ariane_admin.counted import counted
from ariane_admin.messages.start_position import MomentType
from ariane_admin.terminal.confirmation import confirm, dry_run_option, yes_option
from ariane_admin.terminal.output import Output


@click.command("purge")
@click.argument("name")
@click.option(
    "--before",
    type=MomentType(),
    help="Only messages stored before this time, such as -2h or 2026-01-31T10:00:00Z, not all.",
)
@click.option("--undo", is_flag=True, help="Show again what was hidden and is not deleted yet.")
@dry_run_option
@yes_option
@change_options
def purge(
    *,
    name: str,
    before: datetime | None,
    undo: bool,
    dry_run: bool,
    yes: bool,
    name_servers: str,
    admin: AdminChoice,
    output: Output,
) -> None:
    """Hide all messages that topic NAME has now, or older ones, from every reader.

    Within 10 s its queues begin behind them, and its groups go on there. Their bytes stay until the
    segments of the broker's log go that they are in; until then --undo shows them again, and each
    is still found by its id or key. Messages that are delayed or wait to be tried again are no part
    of the topic yet, and come. It needs the right to update the topic.

    \b
    Examples:
      ariane topic purge orders --dry-run
      ariane topic purge orders --before -2h --yes
      ariane topic purge orders --undo
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    if undo and before is not None:
        raise click.UsageError("--undo shows all that is there again: omit --before")
    if not dry_run and not undo:
        what = "all messages" if before is None else f"the messages before {before.isoformat()}"
        confirm(f"Hide {what} of topic {name} from its consumers?", yes=yes)
    request = PurgeTopicRequest(topic=name, undo=undo, validate_only=dry_run)
    if before is not None:
        request.before.FromDatetime(before)
    answer = changed_everywhere(name_servers, admin, lambda one: one.topics.PurgeTopic, request)
    hidden = answer.hidden
    count = sum(each.message_count for each in hidden)
    row: dict[str, Any] = {
        "topic": name,
        "messages": count,
        "brokers": len(hidden),
        "undo": undo,
        "dry_run": dry_run,
    }
    brokers = counted(len(hidden), "broker")
    would = "Would hide" if dry_run else "Hides, within 10 s,"
    text = f"{would} {counted(count, 'message')} of topic {name} on {brokers}."
    if undo:
        would = "Would show" if dry_run else "Shows, within 10 s,"
        text = f"{would} all messages of topic {name} again that are still on {brokers}."
    output.done(text, row)
