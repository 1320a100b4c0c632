"""The changes of consumer groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ariane.admin.v1 import group_service_pb2 as group_pb
from ariane.broker.v1.group_service_pb2 import ConsumerGroupChange
from ariane_admin.console.api import Asker
from ariane_admin.console.blocks import Block, Cell, Notice, Table, number, to
from ariane_admin.console.changing.change import Change, Given, WronglyFilled, not_on
from ariane_admin.console.pages.messages import time_in
from ariane_admin.counted import counted


def _reset_request(given: Given) -> group_pb.ResetGroupOffsetsRequest:
    request = group_pb.ResetGroupOffsetsRequest(consumer_group=given["group"], topic=given["topic"])
    match given["to"]:
        case "time":
            time = time_in(given.get("time", ""))
            if time is None:
                raise WronglyFilled("Say the time.")
            request.time.CopyFrom(time)
        case "earliest" | "latest" as end:
            request.earliest = end == "earliest"
        case _:
            raise WronglyFilled("Say where its offsets are to be.")
    return request


async def _reset_preview(ask: Asker, given: Given) -> Sequence[Block]:
    request = _reset_request(given)
    request.validate_only = True
    answer = await ask(ask.api.groups.ResetGroupOffsets, request)
    rows, skipped, again = [], 0, 0
    for each in answer.offsets:
        was = each.previous_queue_offset if each.HasField("previous_queue_offset") else None
        moved = 0 if was is None else each.queue_offset - was
        skipped += max(0, moved)
        again += max(0, -moved)
        rows.append(
            (
                Cell(each.broker_name),
                number(each.queue_id),
                Cell("") if was is None else number(was),
                number(each.queue_offset),
                Cell("" if was is None else f"{moved:+,}", kind="number"),
            )
        )
    columns = ("Broker", "Queue", "Now", "Then", "Moved")
    return (
        Notice(
            f"{counted(skipped, 'message')} would be skipped, and {again:,} would come once more."
            f"{not_on(answer.outcomes)}"
        ),
        Table("What would change", columns, rows, "No queue would be moved."),
    )


async def _reset_group(ask: Asker, given: Given) -> str:
    answer = await ask(ask.api.groups.ResetGroupOffsets, _reset_request(given))
    return f"Offsets of {counted(len(answer.offsets), 'queue')} are set."


async def _clone_group(ask: Asker, given: Given) -> str:
    request = group_pb.CloneGroupOffsetsRequest(
        consumer_group=given["group"],
        target_consumer_group=given["target"],
        topic=given["topic"],
    )
    answer = await ask(ask.api.groups.CloneGroupOffsets, request)
    return f"Offsets of {counted(len(answer.offsets), 'queue')} are copied to {given['target']}."


async def _pause_group(ask: Asker, given: Given) -> str:
    change = ConsumerGroupChange(consumer_group=given["group"], consume_enabled=False)
    answer = await ask(ask.api.groups.UpdateGroup, group_pb.UpdateGroupRequest(group=change))
    return f"Group {given['group']} is paused.{not_on(answer.outcomes)}"


async def _resume_group(ask: Asker, given: Given) -> str:
    change = ConsumerGroupChange(consumer_group=given["group"], consume_enabled=True)
    answer = await ask(ask.api.groups.UpdateGroup, group_pb.UpdateGroupRequest(group=change))
    return f"Group {given['group']} may consume again.{not_on(answer.outcomes)}"


async def _delete_group(ask: Asker, given: Given) -> str:
    request = group_pb.DeleteGroupRequest(
        consumer_group=given["group"], keep_dead_letters=bool(given.get("keep"))
    )
    answer = await ask(ask.api.groups.DeleteGroup, request)
    return f"Group {given['group']} is gone.{not_on(answer.outcomes)}"


def _group_page(given: Given) -> str:
    return to("groups", given["group"])


GROUP_CHANGES: Final[Mapping[str, Change]] = {
    "/groups/reset": Change(
        "Set the offsets of group {group} in topic {topic} to {to} {time}? Messages are skipped,"
        " or come once more.",
        _reset_group,
        _group_page,
        danger=True,
        preview=_reset_preview,
    ),
    "/groups/clone": Change(
        "Copy the offsets of group {group} in topic {topic} to group {target}?",
        _clone_group,
        _group_page,
    ),
    "/groups/pause": Change(
        "Pause group {group}? Its members get no messages until it is resumed.",
        _pause_group,
        _group_page,
        danger=True,
    ),
    "/groups/resume": Change(
        "Resume group {group}? Its members get messages again.", _resume_group, _group_page
    ),
    "/groups/delete": Change(
        "Delete group {group} with its offsets, its retry topic and its dead letters?",
        _delete_group,
        lambda _: "/groups",
        danger=True,
    ),
}
"""Changes of groups, by the path of their forms."""
