"""``ariane group reset | clone``: where groups go on, set anew or copied."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import click

from ariane.admin.v1.group_service_pb2 import (
    CloneGroupOffsetsRequest,
    GroupQueueOffset,
    ResetGroupOffsetsRequest,
)
from ariane_admin.asking.changing.changes import (
    AdminChoice,
    change_options,
    changed_everywhere,
)
from ariane_admin.errors import CommandFailed
from ariane_admin.messages.queue_places import queue_offsets
from ariane_admin.messages.start_position import StartPosition, StartPositionType
from ariane_admin.terminal.client_warnings import say_warning
from ariane_admin.terminal.confirmation import confirm, yes_option
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.output import Output, Row

_OFFSET_COLUMNS = ("broker", "queue_id", "consumer_offset")


@click.command("reset")
@click.argument("name")
@click.argument("topic")
@click.option(
    "--to",
    "position",
    type=StartPositionType(),
    help="Target position; a time is 2026-01-31T10:00:00Z, or -2h for two hours ago.",
)
@click.option(
    "--queue",
    "queues",
    multiple=True,
    metavar="BROKER:ID=OFFSET",
    callback=queue_offsets,
    help="Target offset of one queue, instead of --to; may be repeated.",
)
@click.option(
    "--skip",
    is_flag=True,
    help="With a time, also move queues forward over messages that are not consumed.",
)
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@yes_option
@change_options
def reset(
    *,
    name: str,
    topic: str,
    position: StartPosition | None,
    queues: Mapping[tuple[str, int], int],
    skip: bool,
    dry_run: bool,
    yes: bool,
    name_servers: str,
    admin: AdminChoice,
    output: Output,
) -> None:
    """Move the offsets of group NAME in TOPIC, also while members consume.

    The result shows the offset of each queue before and after. A negative move is the number of
    messages that are delivered again, a positive one the number that are skipped. To a time, queues
    only go back: one that would skip messages stays and is left out of the result, unless --skip is
    given.

    \b
    Examples:
      ariane group reset billing orders --to earliest
      ariane group reset billing orders --to -2h --dry-run
      ariane group reset billing orders --to 2026-01-31T10:00:00Z --skip
      ariane group reset billing orders --queue broker-a:0=4711 --yes
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    if (position is None) == (not queues):
        raise click.UsageError("give either --to or --queue")
    if skip and queues:
        raise click.UsageError("--skip goes with --to")
    if not dry_run:
        confirm(f"Move the offsets of group {name} in {topic}?", yes=yes)

    request = _reset_request(name, topic, position, queues)
    request.validate_only = dry_run
    request.only_back = isinstance(position, datetime) and not skip
    answer = changed_everywhere(
        name_servers, admin, lambda one: one.groups.ResetGroupOffsets, request
    )
    rows = list(map(_moved_row, answer.offsets))
    if not rows and request.only_back:
        say_warning(
            f"nothing moves: in all queues of {topic}, group {name} stands at or before that time;"
            " --skip moves it forward"
        )
    output.rows(("broker", "queue_id", "offset_before", "consumer_offset", "moved"), rows)


@click.command("clone")
@click.argument("name")
@click.argument("target")
@click.argument("topic")
@yes_option
@change_options
def clone(
    *,
    name: str,
    target: str,
    topic: str,
    yes: bool,
    name_servers: str,
    admin: AdminChoice,
    output: Output,
) -> None:
    """Copy the offsets of group NAME in TOPIC to group TARGET.

    \b
    Example:
      ariane group clone billing billing-trial orders --yes
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    if name == target:
        raise CommandFailed(
            f"source and target are the same group {name}: give another target", ExitStatus.USAGE
        )
    confirm(f"Overwrite the offsets of group {target} in {topic} with those of {name}?", yes=yes)

    request = CloneGroupOffsetsRequest(
        consumer_group=name, target_consumer_group=target, topic=topic
    )
    answer = changed_everywhere(
        name_servers, admin, lambda one: one.groups.CloneGroupOffsets, request
    )
    output.rows(_OFFSET_COLUMNS, list(map(_offset_row, answer.offsets)))


def _reset_request(
    name: str, topic: str, position: StartPosition | None, queues: Mapping[tuple[str, int], int]
) -> ResetGroupOffsetsRequest:
    request = ResetGroupOffsetsRequest(consumer_group=name, topic=topic)
    if position is None:
        request.queue_offsets.offsets.extend(
            GroupQueueOffset(broker_name=broker_name, queue_id=queue_id, queue_offset=queue_offset)
            for (broker_name, queue_id), queue_offset in queues.items()
        )
    elif isinstance(position, datetime):
        request.time.FromDatetime(position)
    else:
        request.earliest = position == "earliest"
    return request


def _offset_row(offset: GroupQueueOffset) -> Row:
    return {
        "broker": offset.broker_name,
        "queue_id": offset.queue_id,
        "consumer_offset": offset.queue_offset,
        "members_told": offset.member_count,
    }


def _moved_row(offset: GroupQueueOffset) -> Row:
    """An offset that was set anew, beside the one that stood there."""
    stood = offset.previous_queue_offset if offset.HasField("previous_queue_offset") else None
    moved = None if stood is None else offset.queue_offset - stood
    return {**_offset_row(offset), "offset_before": stood, "moved": moved}
