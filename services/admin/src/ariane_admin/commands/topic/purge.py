"""``ariane topic purge``: hide the messages that a topic has from all readers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import click

from ariane.admin.v1 import topic_service_pb2 as topic_pb
from ariane.common.v1.process_service_pb2 import GetProcessStateRequest
from ariane_admin.asking.changing.changes import (
    AdminChoice,
    administration,
    change_options,
    required,
)
from ariane_admin.asking.cluster_doors import CALL_SECONDS_MAX, PATIENCE_S, ClusterDoors, answer_of
from ariane_admin.asking.connection import run_async
from ariane_admin.asking.own_tls import own_tls
from ariane_admin.asking.questions import questions
from ariane_admin.asking.topic_attributes import SHOWN_SINCE
from ariane_admin.messages.start_position import MomentType
from ariane_admin.terminal.confirmation import confirm, dry_run_option, yes_option
from ariane_admin.terminal.output import Output
from ariane_sdk import QueueReader


class _Purge(NamedTuple):
    """What becomes of a topic on a broker."""

    broker_name: str
    since_ms: int
    """The time before which messages are hidden; 0 for none."""
    message_count: int
    """How many are hidden that are seen now."""


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
    plan = run_async(_plan(name_servers, name, before, undo=undo))
    if not dry_run:
        run_async(_do(name_servers, admin, name, plan))
    count = sum(each.message_count for each in plan)
    told: dict[str, Any] = {
        "topic": name,
        "messages": count,
        "brokers": len(plan),
        "undo": undo,
        "dry_run": dry_run,
    }
    would = "Would hide" if dry_run else "Hides, within 10 s,"
    text = f"{would} {count:,} messages of topic {name} on {len(plan)} brokers."
    if undo:
        would = "Would show" if dry_run else "Shows, within 10 s,"
        text = f"{would} all messages of topic {name} again that {len(plan)} brokers still have."
    output.done(text, told)


async def _plan(
    name_servers: str, topic: str, before: datetime | None, *, undo: bool
) -> Sequence[_Purge]:
    """What becomes of it on each broker, by the clock of each.

    Raises:
        TopicNotFound: No broker has it.
        CallError: A broker refused or did not answer.
    """
    async with (
        questions(name_servers, complete=True) as asked,
        QueueReader(name_servers, patience_s=PATIENCE_S, tls=own_tls()) as reader,
    ):
        found = await asked.topics.GetTopic(topic_pb.GetTopicRequest(topic=topic))
        plan = []
        for each in found.topic.placements:
            broker = each.broker_name
            if undo:
                plan.append(_Purge(broker, 0, 0))
                continue
            now = await _clock_of(asked.doors, each.address, broker)
            when = now if before is None else min(before, now)
            # What is hidden stays hidden.
            since_ms = max(
                round(when.timestamp() * 1000), int(each.topic.attributes.get(SHOWN_SINCE, 0))
            )
            since = datetime.fromtimestamp(since_ms / 1000, UTC)
            bounds = await reader.bounds(topic, broker_names=[broker])
            ends = await reader.offsets_at(topic, since, broker_names=[broker])
            hidden = sum(max(0, ends[queue] - begin) for queue, (begin, _) in bounds.items())
            plan.append(_Purge(broker, since_ms, hidden))
    return plan


async def _clock_of(doors: ClusterDoors, address: str, broker: str) -> datetime:
    call = doors.processes(address).GetProcessState(
        GetProcessStateRequest(), timeout=CALL_SECONDS_MAX
    )
    answer = await answer_of(call, f"broker {broker} at {address}")
    return answer.state.current_time.ToDatetime(UTC)


async def _do(name_servers: str, admin: AdminChoice, topic: str, plan: Sequence[_Purge]) -> None:
    async with administration(name_servers, admin) as changes:
        for each in plan:
            request = topic_pb.UpdateTopicRequest(
                topic=topic,
                broker_names=[each.broker_name],
                attributes={SHOWN_SINCE: str(each.since_ms or "")},
            )
            answer = await changes.ask(changes.topics.UpdateTopic, request)
            required(answer.outcomes)
