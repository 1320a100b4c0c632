"""The pages of consumer groups and clients."""

from __future__ import annotations

import asyncio
from typing import Final

from grpc import StatusCode
from grpc.aio import AioRpcError
from starlette.requests import Request

from ariane.admin.v1 import client_service_pb2 as client_pb
from ariane.admin.v1 import group_service_pb2 as group_pb
from ariane.admin.v1 import history_service_pb2 as history_pb
from ariane.admin.v1 import lag_service_pb2 as lag_pb
from ariane.broker.v1.client_question_pb2 import (
    HOLD_REASON_BREAKER_OPEN,
    HOLD_REASON_FAILED_IN_ORDER,
    HOLD_REASON_PAUSED,
    HOLD_REASON_REQUESTED,
    QueueHold,
)
from ariane.broker.v1.client_service_pb2 import AttachedClient
from ariane_admin.console.api import Asker, silence
from ariane_admin.console.blocks import (
    Block,
    Cell,
    Charts,
    Fields,
    Form,
    Input,
    Notice,
    Page,
    Table,
    moment,
    next_page,
    number,
    to,
    yes,
)
from ariane_admin.console.pages.overview import RECEIVING, chart, or_failure, receiving_cells
from ariane_admin.counted import counted
from ariane_admin.group_texts import kind_texts, paused_on, query_text, subscriptions_of
from ariane_record.names import is_system_topic

SECTION: Final = "Groups"

_HOLD_TEXTS: Final = {
    HOLD_REASON_FAILED_IN_ORDER: "waits in order for message {hold.queue_offset},"
    " which failed {attempts}",
    HOLD_REASON_REQUESTED: "its listener wants that",
    HOLD_REASON_PAUSED: "its application paused it",
    HOLD_REASON_BREAKER_OPEN: "its breaker is open",
}


def _hold_text(hold: QueueHold) -> str:
    attempts = counted(hold.attempts, "time")
    return _HOLD_TEXTS.get(hold.reason, "").format(hold=hold, attempts=attempts)


async def groups(ask: Asker, request: Request) -> Page:
    """Groups by name, a hundred on each page."""
    query = request.query_params
    prefix = query.get("prefix", "")
    answer = await ask(
        ask.api.groups.ListGroups,
        group_pb.ListGroupsRequest(name_prefix=prefix, page_token=query.get("token", "")),
    )
    rows = [
        (
            Cell(each.consumer_group, to("groups", each.consumer_group)),
            Cell(", ".join(kind_texts(each)), kind="" if each.kinds else "quiet"),
            Cell(str(each.member_count), kind="number" if each.member_count else "quiet"),
            number(each.lag_message_count),
            Cell(moment(each, "oldest_store_time"), kind="time"),
            Cell(", ".join(each.topics[:3]) + (" and more" if len(each.topics) > 3 else "")),
            Cell("differs between brokers", kind="warn") if each.uneven else Cell(""),
        )
        for each in answer.groups
    ]
    more = next_page(answer, "groups", prefix=prefix)
    search = Form(
        "", "/groups", (Input("prefix", "Name begins with", prefix, "search"),), "Search", "get"
    )
    columns = ("Group", "Kind", "Members", "Not consumed yet", "Oldest", "Topics", "")
    table = Table("", columns, rows, "No group.", more)
    return Page("Consumer groups", [search, *silence(answer), table], SECTION)


async def group(ask: Asker, request: Request) -> Page:
    """One group: its members, its backlog by queue, and its changes."""
    name, api = request.path_params["group"], ask.api
    answer, members, queues, conflicts, drawn = await asyncio.gather(
        ask(api.groups.GetGroup, group_pb.GetGroupRequest(consumer_group=name)),
        ask(api.groups.ListGroupMembers, group_pb.ListGroupMembersRequest(consumer_group=name)),
        ask(
            api.lags.ListQueueLags,
            lag_pb.ListQueueLagsRequest(
                consumer_group=name, page_size=200, page_token=request.query_params.get("token", "")
            ),
        ),
        ask(
            api.groups.ListSubscriptionConflicts,
            group_pb.ListSubscriptionConflictsRequest(consumer_group=name),
        ),
        or_failure(
            asyncio.gather(
                chart(ask, "Messages not consumed yet", history_pb.SERIES_KIND_GROUP_LAG, name),
                chart(
                    ask, "Age of the oldest in seconds", history_pb.SERIES_KIND_GROUP_DELAY, name
                ),
            )
        ),
    )
    found = answer.group
    query = query_text(found)
    paused = bool(paused_on(found))
    blocks: list[Block] = [
        *silence(answer),
        Fields(
            "",
            [
                ("Kind", Cell(", ".join(kind_texts(found)) or "nobody consumes")),
                *([("Stream query", Cell(query))] if query else []),
                ("Members", number(found.member_count)),
                ("Not consumed yet", number(found.lag_message_count)),
                ("Oldest of them", Cell(moment(found, "oldest_store_time") or "none")),
                *_receiving(found),
                ("Expired, since brokers started", number(found.expired_count)),
                (
                    "Dead letters",
                    Cell(f"{found.dead_letter_count:,}", to("dead-letters", group=name)),
                ),
                ("May consume", yes(is_so=not paused)),
                ("The same on all brokers", yes(is_so=not found.uneven)),
            ],
        ),
        drawn if isinstance(drawn, Notice) else Charts(drawn),
        _members(members),
    ]
    if any(each.member.holds for each in members.members):
        blocks.append(holds_table(members))
    if conflicts.conflicts:
        blocks.append(_conflicts(conflicts))
    more = next_page(queues, "groups", name)
    blocks += [_queues(queues, more), *_forms(found, paused=paused)]
    return Page(name, blocks, SECTION, trail=[Cell("Groups", "/groups")])


async def clients(ask: Asker, request: Request) -> Page:
    """Live producers and consumers."""
    query = request.query_params
    consuming, producing = query.get("group", ""), query.get("producers", "")
    answer = await ask(
        ask.api.clients.ListClients,
        client_pb.ListClientsRequest(
            consumer_group=consuming,
            producer_group=producing,
            page_token=query.get("token", ""),
        ),
    )
    rows = [
        (
            Cell(each.client.hello.client_id, to("client", id=each.client.hello.client_id), "code"),
            Cell(_address_of(each.client)),
            Cell(f"{each.client.hello.language} {each.client.hello.sdk_version}"),
            Cell(", ".join(m.consumer_group for m in each.client.hello.memberships)),
            Cell(", ".join(each.client.hello.producer_groups)),
            Cell(", ".join(each.broker_names)),
            Cell(moment(each.client, "attach_time"), kind="time"),
        )
        for each in answer.clients
    ]
    search = Form(
        "",
        "/clients",
        (
            Input("group", "Consumer group", consuming, "search"),
            Input("producers", "Producer group", producing, "search"),
        ),
        "Search",
        "get",
    )
    more = next_page(answer, "clients", group=consuming, producers=producing)
    columns = ("Client", "From", "SDK", "Consumes for", "Produces for", "Brokers", "Since")
    table = Table("", columns, rows, "No client is attached.", more)
    return Page("Clients", [search, *silence(answer), table], "Clients")


async def client(ask: Asker, request: Request) -> Page:
    """The state that a client reports now."""
    client_id = request.query_params.get("id", "")
    trail = [Cell("Clients", "/clients")]
    wanted = client_pb.GetClientStateRequest(client_id=client_id)
    try:
        answer = await ask(ask.api.clients.GetClientState, wanted)
    except AioRpcError as error:
        if error.code() is not StatusCode.FAILED_PRECONDITION:
            raise
        gone = Notice("No client of this id is attached, or none any more.")
        return Page(client_id or "No client", [gone], "Clients", status=404, trail=trail)
    facts = [(name, Cell(answer.state.facts[name])) for name in sorted(answer.state.facts)]
    return Page(client_id, [Fields("What it says now", facts)], "Clients", trail=trail)


def _address_of(client: AttachedClient) -> str:
    """Where a client is, and whether it comes by way of a gateway."""
    return f"{client.address}, by way of a gateway" if client.gateways else client.address


def _receiving(found: group_pb.ClusterGroup) -> list[tuple[str, Cell]]:
    if not found.HasField("receiving"):
        return []
    return list(zip(RECEIVING, receiving_cells(found), strict=True))


def _members(answer: group_pb.ListGroupMembersResponse) -> Table:
    rows = [
        (
            Cell(each.member.client_id, to("client", id=each.member.client_id), "code"),
            Cell(f"{each.member.address}, away" if each.member.away else each.member.address),
            Cell(
                ", ".join(
                    f"{topic} {text}".strip()
                    for topic, text in subscriptions_of(each.member.membership).items()
                )
            ),
            number(len(each.assignment)),
        )
        for each in answer.members
    ]
    columns = ("Member", "From", "Subscribes", "Queues")
    return Table("Members", columns, rows, "Nobody is there.")


def holds_table(answer: group_pb.ListGroupMembersResponse) -> Table:
    """The queues of which members hand out nothing, and why."""
    rows = [
        (
            Cell(f"{hold.topic}/{hold.broker_name}/{hold.queue_id}" if hold.topic else "any"),
            Cell(_hold_text(hold), kind="warn"),
            Cell(f"{hold.age.seconds:,} s", kind="number"),
            Cell(hold.cause),
            Cell(each.member.client_id, to("client", id=each.member.client_id), "code"),
        )
        for each in answer.members
        for hold in each.member.holds
    ]
    columns = ("Queue", "Why nothing is handed out", "For", "Cause", "Member")
    return Table("Queues that are held", columns, rows)


def _conflicts(answer: group_pb.ListSubscriptionConflictsResponse) -> Table:
    rows = [
        (
            Cell(each.member.client_id, kind="code"),
            Cell(each.newcomer.client_id, kind="code"),
            Cell(each.difference, kind="bad"),
            yes(is_so=each.refused),
            Cell(moment(each, "last_time"), kind="time"),
        )
        for each in answer.conflicts
    ]
    columns = ("Member", "Newcomer", "Difference", "Refused", "Last")
    return Table("Members that do not want the same", columns, rows)


def _queues(answer: lag_pb.ListQueueLagsResponse, more: str) -> Table:
    rows = [
        (
            Cell(each.lag.topic, to("topics", each.lag.topic)),
            Cell(each.broker_name),
            number(each.lag.queue_id),
            number(each.lag.consumer_offset),
            number(each.lag.max_queue_offset),
            number(each.lag.message_count),
            Cell(moment(each.lag, "oldest_store_time"), kind="time"),
            number(each.lag.expired_count),
            Cell(each.client_id, kind="code"),
        )
        for each in answer.lags
    ]
    columns = (
        *("Topic", "Broker", "Queue", "Consumed to", "End", "Behind", "Oldest", "Expired"),
        "In work at",
    )
    return Table("Queues", columns, rows, "It has no offsets.", more)


def _forms(found: group_pb.ClusterGroup, *, paused: bool) -> list[Form]:
    named = Input("group", value=found.consumer_group, kind="hidden")
    # The topics of its own choice first: nobody means its retry topic unless it is named.
    names = sorted(found.topics, key=lambda topic: (is_system_topic(topic), topic))
    topics = tuple((topic, topic) for topic in names)
    first = names[0] if names else ""
    forms = []
    if topics:
        forms += [
            Form(
                "Set its offsets anew, or skip what waits",
                "/groups/reset",
                (
                    named,
                    Input("topic", "Topic", first, "select", topics),
                    Input(
                        "to",
                        "To",
                        "",
                        "select",
                        (
                            ("", "- choose -"),
                            ("latest", "the end (skip)"),
                            ("earliest", "the oldest"),
                            ("time", "a time"),
                        ),
                        required=True,
                    ),
                    Input("time", "Time, UTC", kind="datetime-local"),
                ),
                "Reset",
                danger=True,
            ),
            Form(
                "Copy its offsets to another group",
                "/groups/clone",
                (
                    named,
                    Input("topic", "Topic", first, "select", topics),
                    Input("target", "Group", required=True),
                ),
                "Copy",
            ),
        ]
    if found.placements:
        pause = Form("Pause it: let nobody of it consume", "/groups/pause", (named,), "Pause")
        resume = Form("Let it consume again", "/groups/resume", (named,), "Resume")
        forms.append(resume if paused else pause)
    keep = Input("keep", "Keep its dead letters", kind="checkbox")
    forms.append(Form("Delete this group", "/groups/delete", (named, keep), "Delete", danger=True))
    return forms
