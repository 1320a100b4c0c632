"""``ariane group``: consumer groups, how far they are, and moving them."""

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
from ariane_admin.asking.absent_brokers import warn_of_absent
from ariane_admin.asking.cluster_doors import (
    CALL_SECONDS_MAX,
    ClusterDoors,
    answer_of,
    ask_each,
    broker_peer,
)
from ariane_admin.asking.connection import name_servers_option, run_async
from ariane_admin.asking.roll_call import (
    RollCall,
    known_groups,
    marked_row,
    unknown_among_answers,
    write_rows,
)
from ariane_admin.errors import CommandFailed
from ariane_admin.messages.queue_places import queue_offsets
from ariane_admin.messages.start_position import StartPosition, StartPositionType
from ariane_admin.terminal.confirmation import confirm, yes_option
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.output import Output, Row, first_of, output_option
from ariane_admin.terminal.times import timestamp_of
from ariane_record.names import is_system_group
from ariane_sdk import (
    ClusterClient,
    GroupMember,
    LiveBroker,
    MessageQueue,
    QueueLag,
    SubscriptionConflict,
)
from ariane_sdk.errors import GroupNotFound

_LAG_COLUMNS = (
    *("topic", "broker", "queue_id", "consumer_offset", "max_offset", "lag", "oldest", "owner"),
    *("suspected", "deaths", "unread"),
)
_TOTALS = ("members", "lag")
_OFFSET_COLUMNS = ("broker", "queue_id", "consumer_offset")


@click.command("list")
@click.option("--system", is_flag=True, help="Those too that the system has for itself.")
@click.option(
    "--count", type=click.IntRange(1), default=1000, show_default=True, help="At most so many."
)
@name_servers_option
@output_option
def list_groups(*, system: bool, count: int, name_servers: str, output: Output) -> int:
    """List consumer groups with their members and backlog, by name.

    Brokers that do not answer are named, and the totals are those of the others; exit status 3.

    \b
    Examples:
      ariane group list
      ariane group list --count 10000 -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines

    async def ask() -> tuple[RollCall, list[Row]]:
        async with ClusterDoors(name_servers) as doors:
            roll = RollCall(await doors.primaries())
            await warn_of_absent(doors, roll.brokers)
            names = await known_groups(doors.client, roll)
            shown = [name for name in names if system or not is_system_group(name)]
            return roll, await _summaries(doors.client, roll, first_of(shown, count))

    roll, rows = run_async(ask())
    columns = ("group", "members", "topics", "lag", "oldest")
    return write_rows(output, roll, columns, rows, totals=_TOTALS)


@click.command("show")
@click.argument("name")
@name_servers_option
@output_option
def show(*, name: str, name_servers: str, output: Output) -> int:
    """Show the backlog, the members and the subscription conflicts of group NAME.

    The owner of a queue is the member that has it in work, as it says itself.

    Brokers that do not answer are named, and the totals are those of the others; exit status 3.

    \b
    Examples:
      ariane group show billing
      ariane group show billing -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines

    async def ask() -> tuple[RollCall, Row, list[Row], list[Row], list[Row]]:
        async with ClusterDoors(name_servers) as doors:
            roll = RollCall(await doors.primaries())
            await warn_of_absent(doors, roll.brokers)
            if name not in await known_groups(doors.client, roll):
                if roll.unanswered:
                    raise unknown_among_answers(name)
                raise GroupNotFound(f"no broker knows group {name!r}; ariane group list shows all")
            members, lags = await _facts(doors.client, roll, name)
            owners = await _owners(doors.client, roll, name)
            return (
                roll,
                _summary(name, len(members), lags),
                [_lag_row(lag, owners) for lag in lags],
                [
                    {
                        "client_id": member.client_id,
                        "address": member.address,
                        "subscriptions": dict(member.subscriptions),
                    }
                    for member in members
                ],
                await _conflicts(doors.client, roll, name),
            )

    roll, summary, queues, members, conflicts = run_async(ask())
    output.record(
        marked_row(output, roll, summary, _TOTALS),
        {
            "queues": (
                _LAG_COLUMNS,
                queues,
            ),
            "member_list": (("client_id", "address", "subscriptions"), members),
            "conflicts": (("member", "newcomer", "difference", "refused", "count"), conflicts),
        },
    )
    return roll.status


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


async def _conflicts(client: ClusterClient, roll: RollCall, name: str) -> list[Row]:
    """Subscriptions that do not agree inside a group, as brokers see them."""

    async def at(broker: LiveBroker) -> list[SubscriptionConflict]:
        return await client.subscription_conflicts(name, broker_names=[broker.broker_name])

    # The same two members meet on every broker of their topics.
    found = {
        (one.member.client_id, one.newcomer.client_id): one
        for conflicts in await roll.ask(at)
        for one in conflicts
    }
    return [_conflict_row(found[key]) for key in sorted(found)]


async def _summaries(client: ClusterClient, roll: RollCall, names: Sequence[str]) -> list[Row]:
    """Rows of groups: each broker lists its members and lags of all groups, a page a call."""

    async def at(broker: LiveBroker) -> tuple[Mapping[str, set[str]], list[QueueLag]]:
        only = [broker.broker_name]
        return (
            await client.members_of_groups(broker_names=only),
            await client.consumer_lag(broker_names=only),
        )

    members: dict[str, set[str]] = defaultdict(set)
    lags: dict[str, list[QueueLag]] = defaultdict(list)
    for told, found in await roll.ask(at):
        for name, client_ids in told.items():
            # A member is attached to each broker of its topics.
            members[name] |= client_ids
        for lag in found:
            lags[lag.group].append(lag)
    return [_summary(name, len(members[name]), lags[name]) for name in names]


async def _facts(
    client: ClusterClient, roll: RollCall, name: str
) -> tuple[list[GroupMember], list[QueueLag]]:
    """The members of a group, and how far behind it is, as brokers that answer tell."""

    async def at(broker: LiveBroker) -> tuple[list[GroupMember], list[QueueLag]]:
        only = [broker.broker_name]
        return (
            await client.list_members(name, broker_names=only),
            await client.consumer_lag(name, broker_names=only),
        )

    answers = await roll.ask(at)
    # A member is attached to each broker of its topics.
    members = {one.client_id: one for found, _ in answers for one in found}
    lags = sorted((lag for _, found in answers for lag in found), key=lambda lag: lag.message_queue)
    return [members[client_id] for client_id in sorted(members)], lags


async def _owners(client: ClusterClient, roll: RollCall, name: str) -> dict[MessageQueue, str]:
    """Which member has each queue in work, as far as members answer."""

    async def at(broker: LiveBroker) -> dict[MessageQueue, str]:
        return await client.queue_owners(name, broker_names=[broker.broker_name])

    return {queue: owner for found in await roll.ask(at) for queue, owner in found.items()}


def _summary(name: str, member_count: int, lags: Sequence[QueueLag]) -> Row:
    oldest = min(
        (lag.oldest_store_time for lag in lags if lag.oldest_store_time is not None), default=None
    )
    return {
        "group": name,
        "members": member_count,
        "topics": sorted({lag.message_queue.topic for lag in lags}),
        "lag": sum(lag.message_count for lag in lags),
        "oldest": _iso(oldest),
    }


def _lag_row(lag: QueueLag, owners: Mapping[MessageQueue, str]) -> Row:
    return {
        "topic": lag.message_queue.topic,
        "broker": lag.message_queue.broker_name,
        "queue_id": lag.message_queue.queue_id,
        "consumer_offset": lag.consumer_offset,
        "max_offset": lag.max_queue_offset,
        "lag": lag.message_count,
        "oldest": _iso(lag.oldest_store_time),
        "owner": owners.get(lag.message_queue),
        "suspected": lag.suspected_count,
        "deaths": lag.death_count,
        "unread": lag.unread,
    }


def _conflict_row(conflict: SubscriptionConflict) -> Row:
    return {
        "member": f"{conflict.member.client_id} at {conflict.member.address}",
        "newcomer": f"{conflict.newcomer.client_id} at {conflict.newcomer.address}",
        "difference": conflict.difference,
        "refused": conflict.refused,
        "count": conflict.count,
        "last_time": _iso(conflict.last_time),
    }


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="milliseconds")


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
