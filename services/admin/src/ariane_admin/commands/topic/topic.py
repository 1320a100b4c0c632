"""``ariane topic``: what topics there are, and how they lie on their brokers."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from ariane.admin.v1 import topic_service_pb2 as topic_pb
from ariane.broker.v1.topic_service_pb2 import Topic
from ariane.namesrv.v1 import route_pb2
from ariane_admin.asking.changing.changes import (
    AdminChoice,
    change_options,
    changed_everywhere,
)
from ariane_admin.asking.connection import run_async
from ariane_admin.asking.options import question_options
from ariane_admin.asking.previews import topic_content
from ariane_admin.asking.questions import Questions, answered, questions
from ariane_admin.commands.topic.order import places_in_order
from ariane_admin.commands.topic.words import (
    QUEUES_MAX,
    RETENTION_HELP,
    MessageTypeType,
    PermissionType,
    RetentionType,
    message_type_word,
    permission_word,
)
from ariane_admin.counted import counted
from ariane_admin.terminal.client_warnings import say_warning
from ariane_admin.terminal.confirmation import confirm, dry_run_option, yes_option
from ariane_admin.terminal.output import Output, Row
from ariane_admin.times import moment_text
from ariane_admin.topic_attributes import NO_RETENTION, retention_text
from ariane_sdk import MessageQueue
from ariane_sdk.errors import TopicNotFound

if TYPE_CHECKING:
    from ariane.common.v1 import message_pb2

_QUEUES = click.IntRange(1, QUEUES_MAX)
_QUEUE_COLUMNS = ("broker", "address", "queue_id", "min_offset", "max_offset", "messages")
_LAYOUT_COLUMNS = (
    *("broker", "read_queues", "write_queues", "permission", "type", "retention"),
    *("version", "unread_messages"),
)


@click.command("create")
@click.argument("name")
@click.option(
    "--queues", type=_QUEUES, default=4, show_default=True, help="Number of queues on each broker."
)
@click.option(
    "--broker", "broker_names", multiple=True, help="Only on this broker; may be repeated."
)
@click.option("--cluster", "cluster_name", default="", help="Only on the brokers of this cluster.")
@click.option(
    "--permission",
    type=PermissionType(),
    default="read-write",
    show_default=True,
    help="What producers and consumers may do with the topic.",
)
@click.option(
    "--type",
    "message_type",
    type=MessageTypeType(),
    default="any",
    show_default=True,
    help="Kind of messages that the topic accepts.",
)
@click.option("--retention", type=RetentionType(), help=RETENTION_HELP)
@click.option("--exists-ok", is_flag=True, help="Succeed if the topic exists already.")
@change_options
def create(
    *,
    name: str,
    queues: int,
    broker_names: tuple[str, ...],
    cluster_name: str,
    permission: route_pb2.TopicPermission.ValueType,
    message_type: message_pb2.MessageType.ValueType,
    retention: dict[str, str] | None,
    exists_ok: bool,
    name_servers: str,
    admin: AdminChoice,
    output: Output,
) -> None:
    """Create topic NAME on every broker, with the same number of queues on each.

    A topic of type fifo also gets a fixed queue order, which it keeps while a broker is down
    (ariane topic order).

    \b
    Examples:
      ariane topic create orders --queues 8
      ariane topic create trades --queues 1 --broker broker-a --type fifo
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    wanted = Topic(
        topic=name,
        read_queue_count=queues,
        write_queue_count=queues,
        permission=permission,
        message_type=message_type,
        attributes=retention,
    )
    request = topic_pb.CreateTopicRequest(
        topic=wanted, cluster_name=cluster_name, broker_names=broker_names, exists_ok=exists_ok
    )
    answer = changed_everywhere(name_servers, admin, lambda one: one.topics.CreateTopic, request)
    for part in answer.topic.placements:
        if exists_ok and part.broker_name in (broker_names or {part.broker_name}):
            _warn_of_difference(_placement_row(part), wanted)
    output.done(f"Topic {name} exists.", {"topic": name})


@click.command("show")
@click.argument("name")
@click.option(
    "--brokers",
    is_flag=True,
    help="Show the topic's configuration on each broker, instead of its queues.",
)
@question_options
def show(*, name: str, brokers: bool, name_servers: str, output: Output) -> int:
    """Show the queues of topic NAME, and how many messages each holds.

    If the topic has a queue order (ariane topic order), the position of each queue in it is shown,
    and if it has a retention time of its own, that of each broker.
    A warning, and --brokers, report messages in queues that are not readable, as no consumer gets
    them. For brokers that do not answer only the route is shown, and the exit status is 3.

    \b
    Examples:
      ariane topic show orders
      ariane topic show orders --brokers -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    if brokers:
        asked, answer = answered(
            name_servers, lambda one: one.topics.GetTopic, topic_pb.GetTopicRequest(topic=name)
        )
        output.rows(_LAYOUT_COLUMNS, _layout_rows(answer))
        return asked.status
    asked, queues = run_async(_queues(name_servers, name))
    ordered = any(queue["order_place"] is not None for queue in queues)
    retained = any(queue["retention"] not in {None, NO_RETENTION} for queue in queues)
    further = ("retention",) * retained + ("order_place",) * ordered
    output.rows((*_QUEUE_COLUMNS, *further), queues)
    return asked.status


@click.command("update")
@click.argument("name")
@click.option("--queues", type=_QUEUES, help="Number of readable and writable queues.")
@click.option("--read-queues", type=_QUEUES, help="Number of readable queues.")
@click.option(
    "--write-queues", type=click.IntRange(0, QUEUES_MAX), help="Number of writable queues."
)
@click.option(
    "--permission",
    type=PermissionType(),
    help="What producers and consumers may do with the topic.",
)
@click.option(
    "--type",
    "message_type",
    type=MessageTypeType(),
    help="Kind of messages that the topic accepts.",
)
@click.option("--retention", type=RetentionType(), help=f"{RETENTION_HELP} 0s ends that.")
@click.option(
    "--broker", "broker_names", multiple=True, help="Only on this broker; may be repeated."
)
@click.option(
    "--force",
    is_flag=True,
    help="Allow a change that leaves messages in queues that are not readable, or lets"
    " them get there.",
)
@yes_option
@change_options
def update(
    *,
    name: str,
    queues: int | None,
    read_queues: int | None,
    write_queues: int | None,
    permission: route_pb2.TopicPermission.ValueType | None,
    message_type: message_pb2.MessageType.ValueType | None,
    retention: dict[str, str] | None,
    broker_names: tuple[str, ...],
    force: bool,
    yes: bool,
    name_servers: str,
    admin: AdminChoice,
    output: Output,
) -> None:
    """Change topic NAME on every broker that has it.

    To reduce the queues without losing messages: lower --write-queues first, wait until the groups
    have consumed the queues to be removed (ariane group show), then lower --read-queues. A change
    that would leave messages in queues that are not readable is refused; with --force it asks for
    confirmation instead.

    \b
    Examples:
      ariane topic update orders --queues 8
      ariane topic update orders --write-queues 2
      ariane topic update orders --retention 12h
      ariane topic update orders --permission read --broker broker-a
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    if queues is not None and (read_queues is not None or write_queues is not None):
        raise click.UsageError("--queues sets both: omit --read-queues and --write-queues")
    request = topic_pb.UpdateTopicRequest(
        topic=name,
        broker_names=broker_names,
        read_queue_count=queues if read_queues is None else read_queues,
        write_queue_count=queues if write_queues is None else write_queues,
        permission=permission or route_pb2.TOPIC_PERMISSION_UNSPECIFIED,
        message_type=message_type,
        attributes=retention,
    )
    if request == topic_pb.UpdateTopicRequest(topic=name, broker_names=broker_names):
        raise click.UsageError("nothing to change: give --queues, --permission or another option")
    request.allow_unread_queues = force
    if force:
        confirm(
            f"Change topic {name} even if messages end up in queues that are not readable?", yes=yes
        )
    answer = changed_everywhere(name_servers, admin, lambda one: one.topics.UpdateTopic, request)
    output.rows(_LAYOUT_COLUMNS, list(map(_placement_row, answer.topic.placements)))


@click.command("delete")
@click.argument("name")
@click.option(
    "--broker", "broker_names", multiple=True, help="Only on this broker; may be repeated."
)
@click.option("--missing-ok", is_flag=True, help="Succeed if the topic does not exist.")
@dry_run_option
@yes_option
@change_options
def delete(
    *,
    name: str,
    broker_names: tuple[str, ...],
    missing_ok: bool,
    dry_run: bool,
    yes: bool,
    name_servers: str,
    admin: AdminChoice,
    output: Output,
) -> None:
    """Delete topic NAME with its messages and the offsets of its groups.

    Once no broker has the topic any more, name servers also drop its queue order.

    \b
    Examples:
      ariane topic delete orders --dry-run
      ariane topic delete orders --yes
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    if dry_run:
        would = run_async(topic_content(name_servers, name, broker_names, missing_ok=missing_ok))
        output.done(
            f"Topic {name} would be deleted from {counted(would['brokers'], 'broker')} with"
            f" {counted(would['messages'], 'message')}, and the offsets of"
            f" {counted(would['groups'], 'group')}.",
            {**would, "dry_run": True},
        )
        return
    where = f" on {', '.join(broker_names)}" if broker_names else ""
    confirm(f"Delete topic {name}{where} with all its messages?", yes=yes)

    request = topic_pb.DeleteTopicRequest(topic=name, broker_names=broker_names)
    try:
        answer = changed_everywhere(
            name_servers, admin, lambda one: one.topics.DeleteTopic, request
        )
    except TopicNotFound:
        if not missing_ok:
            raise
        answer = topic_pb.DeleteTopicResponse()
    for why in answer.name_server_failures:
        say_warning(
            f"a name server did not answer, and may keep the queue order of topic {name}: {why}"
        )
    deleted = len(answer.outcomes)
    output.done(
        f"Deleted topic {name} from {counted(deleted, 'broker')}.",
        {"topic": name, "brokers": deleted},
    )


async def _queues(name_servers: str, name: str) -> tuple[Questions, list[Row]]:
    """All queues of the route; what is in those of a broker that does not answer is not known."""
    async with questions(name_servers) as asked:
        route = await asked.doors.client.route(name)
        queues = (
            await asked.topics.ListTopicQueues(topic_pb.ListTopicQueuesRequest(topic=name))
        ).queues
        topic = (await asked.topics.GetTopic(topic_pb.GetTopicRequest(topic=name))).topic
    for layout in map(_placement_row, topic.placements):
        unread = layout["unread_messages"]
        if isinstance(unread, int) and unread:
            say_warning(
                f"{counted(unread, 'message')} on {layout['broker']} in queues"
                " that no consumer may read: raise the readable queues above"
                f" {layout['read_queues']} with ariane topic update {shlex.quote(name)}"
                " --read-queues N"
            )
    bounds = {
        MessageQueue(name, each.broker_name, each.bounds.queue_id): each.bounds for each in queues
    }
    silent = {q for q in route.read_queues if q.broker_name in asked.unanswered}
    addresses = {broker.broker_name: broker.read_address for broker in route.brokers}
    places = places_in_order(route)
    retentions = {part.broker_name: retention_text(part.topic) for part in topic.placements}

    def row(queue: MessageQueue) -> Row:
        known = bounds.get(queue)
        begin, end = (known.min_queue_offset, known.max_queue_offset) if known else (None, None)
        return {
            "broker": queue.broker_name,
            "address": addresses.get(queue.broker_name, ""),
            "queue_id": queue.queue_id,
            "min_offset": begin,
            "max_offset": end,
            "messages": None if begin is None or end is None else end - begin,
            "retention": retentions.get(queue.broker_name),
            "order_place": places.get(queue),
        }

    return asked, [row(queue) for queue in sorted({*bounds, *silent})]


def _warn_of_difference(there: Mapping[str, object], wanted: Topic) -> None:
    """Warn of a topic that is there, and otherwise than it is wanted."""
    columns = ("read_queues", "write_queues", "permission", "type", "retention")
    if tuple(map(there.get, columns)) != (
        wanted.read_queue_count,
        wanted.write_queue_count,
        permission_word(wanted.permission),
        message_type_word(wanted.message_type),
        retention_text(wanted),
    ):
        say_warning(
            "{topic} is on {broker} with {read_queues} read and {write_queues} write queues,"
            " {permission}, {type}, retention {retention}:"
            " ariane topic update changes it".format_map({**there, "topic": wanted.topic})
        )


def _layout_rows(answer: topic_pb.GetTopicResponse) -> list[Row]:
    """A topic on each broker; of one that does not answer nothing but the place is known."""
    rows = {part.broker_name: _placement_row(part) for part in answer.topic.placements}
    for broker in answer.silent_brokers:
        place = topic_pb.TopicPlacement(
            cluster_name=broker.cluster_name,
            broker_name=broker.broker_name,
            address=broker.address,
        )
        known = ("cluster", "broker", "address")
        row = _placement_row(place)
        rows[broker.broker_name] = {name: row[name] if name in known else None for name in row}
    return [rows[name] for name in sorted(rows)]


def _placement_row(part: topic_pb.TopicPlacement) -> Row:
    """A topic's part on one broker."""
    found = part.topic
    return {
        "cluster": part.cluster_name,
        "broker": part.broker_name,
        "address": part.address,
        "read_queues": found.read_queue_count,
        "write_queues": found.write_queue_count,
        "permission": permission_word(found.permission),
        "type": message_type_word(found.message_type),
        "retention": retention_text(found),
        "attributes": dict(found.attributes),
        "version": found.version,
        "system": found.system,
        "last_stored": moment_text(found, "last_store_time"),
        "unread_messages": found.unread_message_count,
    }
