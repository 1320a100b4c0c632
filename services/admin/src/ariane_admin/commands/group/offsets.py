"""``ariane group reset | clone``: where groups go on, set anew or copied."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

import click

from ariane.broker.v1.offset_service_pb2 import (
    CloneConsumerOffsetsRequest,
    OffsetTable,
    QueueConsumerOffset,
    ResetConsumerOffsetsRequest,
)
from ariane_admin.asking.cluster_doors import (
    CALL_SECONDS_MAX,
    ClusterDoors,
    answer_of,
    ask_each,
    broker_peer,
)
from ariane_admin.asking.connection import name_servers_option, run_async
from ariane_admin.errors import CommandFailed
from ariane_admin.messages.queue_places import queue_offsets
from ariane_admin.messages.start_position import StartPosition, StartPositionType
from ariane_admin.terminal.confirmation import confirm, yes_option
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.output import Output, Row, output_option
from ariane_admin.terminal.times import timestamp_of
from ariane_sdk import (
    LiveBroker,
)

_OFFSET_COLUMNS = ("broker", "queue_id", "consumer_offset")


@click.command("reset")
@click.argument("name")
@click.argument("topic")
@click.option(
    "--to",
    "position",
    type=StartPositionType(),
    help="Where to: a time is 2026-01-31T10:00:00Z, or -2h for two hours ago.",
)
@click.option(
    "--queue",
    "queues",
    multiple=True,
    metavar="BROKER:ID=OFFSET",
    callback=queue_offsets,
    help="Where to in one queue, instead of --to; may be repeated.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be.")
@yes_option
@name_servers_option
@output_option
def reset(
    *,
    name: str,
    topic: str,
    position: StartPosition | None,
    queues: Mapping[tuple[str, int], int],
    dry_run: bool,
    yes: bool,
    name_servers: str,
    output: Output,
) -> None:
    """Set anew where group NAME goes on in TOPIC; members that consume are told.

    Shown is where each queue stood before and stands now: a move below zero is what comes again,
    one above zero what is passed over.

    \b
    Examples:
      ariane group reset billing orders --to earliest
      ariane group reset billing orders --to -2h --dry-run
      ariane group reset billing orders --to 2026-01-31T10:00:00Z
      ariane group reset billing orders --queue broker-a:0=4711 --yes
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    if (position is None) == (not queues):
        raise click.UsageError("say either --to or --queue")
    table: dict[str, dict[int, int]] = defaultdict(dict)
    for (broker_name, queue_id), queue_offset in queues.items():
        table[broker_name][queue_id] = queue_offset
    if not dry_run:
        confirm(f"Set anew where group {name} goes on in {topic}?", yes=yes)

    async def ask() -> list[Row]:
        async with ClusterDoors(name_servers) as doors:

            async def at(broker: LiveBroker) -> tuple[Sequence[QueueConsumerOffset], int]:
                request = _reset_request(name, topic, position, table.get(broker.broker_name, {}))
                request.validate_only = dry_run
                call = doors.offsets(broker.address).ResetConsumerOffsets(
                    request, timeout=CALL_SECONDS_MAX
                )
                answer = await answer_of(call, broker_peer(broker))
                return answer.offsets, answer.member_count

            brokers = await doors.primaries_of(topic)
            unknown = set(table) - {broker.broker_name for broker in brokers}
            if unknown:
                raise click.BadParameter(
                    f"topic {topic} is not on broker {min(unknown)}", param_hint="--queue"
                )
            chosen = [one for one in brokers if not table or one.broker_name in table]
            names = [one.broker_name for one in chosen]
            lags = await doors.client.consumer_lag(name, topic, broker_names=names)
            before = {
                (lag.message_queue.broker_name, lag.message_queue.queue_id): lag.consumer_offset
                for lag in lags
            }
            answers = await ask_each(chosen, at)
            return [
                _moved_row(broker, each, members, before)
                for broker, (offsets, members) in zip(chosen, answers, strict=True)
                for each in offsets
            ]

    output.rows(
        ("broker", "queue_id", "offset_before", "consumer_offset", "moved"), run_async(ask())
    )


@click.command("clone")
@click.argument("name")
@click.argument("target")
@click.argument("topic")
@yes_option
@name_servers_option
@output_option
def clone(
    *, name: str, target: str, topic: str, yes: bool, name_servers: str, output: Output
) -> None:
    """Let group TARGET go on in TOPIC where group NAME is now.

    \b
    Example:
      ariane group clone billing billing-trial orders --yes
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    if name == target:
        raise CommandFailed(
            f"group {name} goes on there already: name another one", ExitStatus.USAGE
        )
    confirm(f"Set where group {target} goes on in {topic} to where {name} is?", yes=yes)

    async def ask() -> list[Row]:
        async with ClusterDoors(name_servers) as doors:

            async def at(broker: LiveBroker) -> list[Row]:
                request = CloneConsumerOffsetsRequest(
                    consumer_group=name, target_consumer_group=target, topic=topic
                )
                call = doors.offsets(broker.address).CloneConsumerOffsets(
                    request, timeout=CALL_SECONDS_MAX
                )
                answer = await answer_of(call, broker_peer(broker))
                return _offset_rows(broker, answer.offsets, answer.member_count)

            brokers = await doors.primaries_of(topic)
            return [row for rows in await ask_each(brokers, at) for row in rows]

    output.rows(_OFFSET_COLUMNS, run_async(ask()))


def _reset_request(
    name: str, topic: str, position: StartPosition | None, table: Mapping[int, int]
) -> ResetConsumerOffsetsRequest:
    if position is None:
        return ResetConsumerOffsetsRequest(
            consumer_group=name, topic=topic, table=OffsetTable(queue_offsets=table)
        )
    if isinstance(position, datetime):
        return ResetConsumerOffsetsRequest(
            consumer_group=name, topic=topic, time=timestamp_of(position)
        )
    return ResetConsumerOffsetsRequest(
        consumer_group=name, topic=topic, earliest=position == "earliest"
    )


def _offset_rows(
    broker: LiveBroker, offsets: Sequence[QueueConsumerOffset], member_count: int
) -> list[Row]:
    return [
        {
            "broker": broker.broker_name,
            "queue_id": each.queue_id,
            "consumer_offset": each.queue_offset,
            "members_told": member_count,
        }
        for each in offsets
    ]


def _moved_row(
    broker: LiveBroker,
    offset: QueueConsumerOffset,
    member_count: int,
    before: Mapping[tuple[str, int], int],
) -> Row:
    """An offset that was set anew, beside the one that stood there."""
    stood = before.get((broker.broker_name, offset.queue_id))
    [row] = _offset_rows(broker, [offset], member_count)
    moved = None if stood is None else offset.queue_offset - stood
    return {**row, "offset_before": stood, "moved": moved}
