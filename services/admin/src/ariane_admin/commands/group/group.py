"""``ariane group list | show``: consumer groups, and how far they are."""

from __future__ import annotations

import click

from ariane.admin.v1 import group_service_pb2 as group_pb
from ariane.admin.v1.lag_service_pb2 import ListQueueLagsRequest
from ariane_admin.asking.connection import run_async
from ariane_admin.asking.options import count_option, question_options
from ariane_admin.asking.partial_answers import marked_row, write_rows
from ariane_admin.asking.questions import Questions, answered, expect_topic, questions
from ariane_admin.commands.group.group_rows import (
    conflict_row,
    group_row,
    hold_row,
    lag_row,
    member_row,
)
from ariane_admin.group_texts import pause_warning, query_text
from ariane_admin.terminal.client_warnings import say_warning
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.output import Output, first_of

_LIST_COLUMNS = (
    *("group", "kind", "members", "topics", "lag", "in_flight", "ready", "oldest", "paused"),
)
_MEMBER_COLUMNS = ("client_id", "address", "model", "away", "subscriptions")
_CONFLICT_COLUMNS = ("member", "newcomer", "difference", "refused", "count")
_LAG_COLUMNS = (
    *("topic", "broker", "queue_id", "consumer_offset", "max_offset", "lag", "oldest", "owner"),
    *("suspected", "deaths", "unread", "in_flight", "delayed", "ready", "expired"),
)
_TOTALS = ("members", "lag", "expired")
_HOLD_COLUMNS = (
    *("topic", "broker", "queue_id", "reason", "queue_offset", "attempts", "seconds"),
    *("seconds_left", "cause", "client_id"),
)


@click.command("list")
@click.option("--system", is_flag=True, help="Include the system's own groups.")
@click.option("--topic", help="Only groups that consume this topic.")
@count_option(1000)
@question_options
def list_groups(
    *, system: bool, topic: str | None, count: int, name_servers: str, output: Output
) -> int:
    """List consumer groups with their members and backlog, by name.

    "Kind" is how a group consumes now: push (listeners), pull (polls), receive (without owning
    queues), broadcast, or a stream query such as "Spark query", which is no member
    and was heard of within a day.

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

    def found(answer: group_pb.ListGroupsResponse) -> list[group_pb.ClusterGroup]:
        return [each for each in answer.groups if topic is None or topic in each.topics]

    async def believed(asked: Questions, answer: group_pb.ListGroupsResponse) -> None:
        if topic is not None and not found(answer):
            await expect_topic(asked, topic)

    asked, answer = answered(
        name_servers,
        lambda one: one.groups.ListGroups,
        group_pb.ListGroupsRequest(include_system=system),
        warn_of_absent=True,
        believed=believed,
    )
    rows = map(group_row, first_of(found(answer), count))
    return write_rows(output, asked, _LIST_COLUMNS, rows, totals=_TOTALS)


@click.command("show")
@click.argument("name")
@question_options
def show(*, name: str, name_servers: str, output: Output) -> int:
    """Show the backlog, members and subscription conflicts of group NAME.

    The owner of a queue is the member that reports that it is consuming it. "Expired" are messages
    that the group was not given because their time was over (expire_after), since the brokers
    started. "Holds" are queues of which a member hands out nothing, as it has reported within the
    last 30 s: a message that fails in order is repeated, and those behind it wait; or the listener,
    the application, or its breaker holds the queue, or all.

    A warning names each broker that does not answer; totals then cover the others only, and the
    exit status is 3.

    \b
    Examples:
      ariane group show billing
      ariane group show billing -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    return run_async(_show(name, name_servers, output))


async def _show(name: str, name_servers: str, output: Output) -> ExitStatus:
    async with questions(name_servers) as asked:
        await asked.warn_of_absent()
        group = await asked.group(name)
        row = group_row(group) | {"query": query_text(group)}
        members = (
            await asked.groups.ListGroupMembers(
                group_pb.ListGroupMembersRequest(consumer_group=name)
            )
        ).members
        lags = await asked.lags.ListQueueLags(ListQueueLagsRequest(consumer_group=name))
        conflicts = await asked.groups.ListSubscriptionConflicts(
            group_pb.ListSubscriptionConflictsRequest(consumer_group=name)
        )
    if row["paused"]:
        say_warning(pause_warning(name, row["paused"]))
    output.record(
        marked_row(output, asked, row, _TOTALS),
        {
            "queues": (_LAG_COLUMNS, list(map(lag_row, lags.lags))),
            "member_list": (_MEMBER_COLUMNS, [member_row(each.member) for each in members]),
            "conflicts": (_CONFLICT_COLUMNS, list(map(conflict_row, conflicts.conflicts))),
            "holds": (
                _HOLD_COLUMNS,
                [hold_row(each.member, hold) for each in members for hold in each.member.holds],
            ),
        },
    )
    return asked.status
