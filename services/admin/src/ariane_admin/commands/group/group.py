"""``ariane group list | show``: consumer groups, and how far they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import click

from ariane_admin.asking.absent_brokers import warn_of_absent
from ariane_admin.asking.cluster_doors import (
    ClusterDoors,
)
from ariane_admin.asking.connection import name_servers_option, run_async
from ariane_admin.asking.partial_answers import (
    PartialAnswers,
    known_groups,
    marked_row,
    unknown_among_answers,
    write_rows,
)
from ariane_admin.asking.paused_groups import pause_warning, paused_groups
from ariane_admin.terminal.client_warnings import say_warning
from ariane_admin.terminal.output import Output, Row, first_of, output_option
from ariane_record.names import is_system_group
from ariane_sdk import (
    ClusterClient,
    GroupMember,
    LiveBroker,
    MessageQueue,
    QueueHold,
    QueueLag,
    SubscriptionConflict,
)
from ariane_sdk.errors import GroupNotFound

_LAG_COLUMNS = (
    *("topic", "broker", "queue_id", "consumer_offset", "max_offset", "lag", "oldest", "owner"),
    *("suspected", "deaths", "unread", "in_flight", "delayed", "ready"),
)
_TOTALS = ("members", "lag")
_HOLD_COLUMNS = (
    *("topic", "broker", "queue_id", "reason", "queue_offset", "attempts", "seconds"),
    *("seconds_left", "cause", "client_id"),
)
_OFFSET_COLUMNS = ("broker", "queue_id", "consumer_offset")


@click.command("list")
@click.option("--system", is_flag=True, help="Include the system's own groups.")
@click.option("--topic", help="Only groups that consume this topic.")
@click.option(
    "--count",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    help="Maximum number of rows to list.",
)
@name_servers_option
@output_option
def list_groups(
    *, system: bool, topic: str | None, count: int, name_servers: str, output: Output
) -> int:
    """List consumer groups with their members and backlog, by name.

    For groups that receive without owning queues, the list also shows the messages that members are
    processing ("in flight") and those that can be received now ("ready"). "Paused" names the
    brokers on which an operator has stopped delivery to the group (ariane group pause).

    A warning names each broker that does not answer; totals then cover the others only, and the
    exit status is 3.

    A group consumes a topic once it has an offset in one of its queues.

    \b
    Examples:
      ariane group list
      ariane group list --topic orders
      ariane group list --count 10000 -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines

    async def ask() -> tuple[PartialAnswers, list[Row]]:
        async with ClusterDoors(name_servers) as doors:
            roll = PartialAnswers(await doors.primaries())
            await warn_of_absent(doors, roll.brokers)
            names = await known_groups(doors.client, roll)
            shown = [name for name in names if system or not is_system_group(name)]
            paused = await paused_groups(doors, roll)
            rows = await _summaries(doors.client, roll, shown, paused, topic)
            return roll, [*first_of(rows, count)]

    roll, rows = run_async(ask())
    columns = ("group", "members", "topics", "lag", "in_flight", "ready", "oldest", "paused")
    return write_rows(output, roll, columns, rows, totals=_TOTALS)


@click.command("show")
@click.argument("name")
@name_servers_option
@output_option
def show(*, name: str, name_servers: str, output: Output) -> int:
    """Show the backlog, members and subscription conflicts of group NAME.

    The owner of a queue is the member that reports that it is consuming it. "Holds" are queues of
    which a member hands out nothing, as it has reported within the last 30 s: a message
    that fails in order is repeated, and those behind it wait; or the listener, the application, or
    its breaker holds the queue, or all.

    A warning names each broker that does not answer; totals then cover the others only, and the
    exit status is 3.

    \b
    Examples:
      ariane group show billing
      ariane group show billing -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines

    async def ask() -> tuple[
        PartialAnswers, Sequence[str], Row, list[Row], list[Row], list[Row], list[Row]
    ]:
        async with ClusterDoors(name_servers) as doors:
            roll = PartialAnswers(await doors.primaries())
            await warn_of_absent(doors, roll.brokers)
            if name not in await known_groups(doors.client, roll):
                if roll.unanswered:
                    raise unknown_among_answers(name)
                raise GroupNotFound(f"no broker knows group {name!r}; ariane group list shows all")
            members, lags = await _facts(doors.client, roll, name)
            owners = await _owners(doors.client, roll, name)
            paused = (await paused_groups(doors, roll)).get(name, ())
            return (
                roll,
                paused,
                _summary(name, len(members), lags, paused),
                [_lag_row(lag, owners) for lag in lags],
                [
                    {
                        "client_id": member.client_id,
                        "address": member.address,
                        "model": member.model,
                        "away": member.away,
                        "subscriptions": dict(member.subscriptions),
                    }
                    for member in members
                ],
                await _conflicts(doors.client, roll, name),
                [_hold_row(member, hold) for member in members for hold in member.holds],
            )

    roll, paused, summary, queues, members, conflicts, holds = run_async(ask())
    if paused:
        say_warning(pause_warning(name, paused))
    output.record(
        marked_row(output, roll, summary, _TOTALS),
        {
            "queues": (
                _LAG_COLUMNS,
                queues,
            ),
            "member_list": (("client_id", "address", "model", "away", "subscriptions"), members),
            "conflicts": (("member", "newcomer", "difference", "refused", "count"), conflicts),
            "holds": (_HOLD_COLUMNS, holds),
        },
    )
    return roll.status


async def _conflicts(client: ClusterClient, roll: PartialAnswers, name: str) -> list[Row]:
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


async def _summaries(
    client: ClusterClient,
    roll: PartialAnswers,
    names: Sequence[str],
    paused: Mapping[str, Sequence[str]],
    topic: str | None,
) -> list[Row]:
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
    if topic is not None:
        names = [name for name in names if topic in {lag.message_queue.topic for lag in lags[name]}]
    return [_summary(name, len(members[name]), lags[name], paused.get(name, ())) for name in names]


async def _facts(
    client: ClusterClient, roll: PartialAnswers, name: str
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


async def _owners(
    client: ClusterClient, roll: PartialAnswers, name: str
) -> dict[MessageQueue, str]:
    """Which member has each queue in work, as far as members answer."""

    async def at(broker: LiveBroker) -> dict[MessageQueue, str]:
        return await client.queue_owners(name, broker_names=[broker.broker_name])

    return {queue: owner for found in await roll.ask(at) for queue, owner in found.items()}


def _summary(name: str, member_count: int, lags: Sequence[QueueLag], paused: Sequence[str]) -> Row:
    oldest = min(
        (lag.oldest_store_time for lag in lags if lag.oldest_store_time is not None), default=None
    )
    return {
        "group": name,
        "members": member_count,
        "topics": sorted({lag.message_queue.topic for lag in lags}),
        "lag": sum(lag.message_count for lag in lags),
        "in_flight": _sum(lag.in_flight_count for lag in lags if lag.receiving),
        "ready": _sum(lag.ready_count or 0 for lag in lags if lag.receiving),
        "oldest": _iso(oldest),
        "paused": list(paused),
    }


def _sum(counts: Iterable[int]) -> int | None:
    """Nothing of nothing: of groups whose members own queues, nobody knows it."""
    known = list(counts)
    return sum(known) if known else None


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
        "in_flight": lag.in_flight_count,
        "delayed": lag.delayed_count,
        "ready": lag.ready_count,
    }


def _hold_row(member: GroupMember, hold: QueueHold) -> Row:
    queue = hold.message_queue
    return {
        "topic": "(all)" if queue is None else queue.topic,
        "broker": None if queue is None else queue.broker_name,
        "queue_id": None if queue is None else queue.queue_id,
        "reason": hold.reason,
        "queue_offset": hold.queue_offset,
        "attempts": hold.attempts,
        "seconds": round(hold.age_s),
        "seconds_left": None if hold.remaining_s is None else round(hold.remaining_s),
        "cause": hold.cause,
        "client_id": member.client_id,
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
