"""``ariane topic``: what topics there are, and how they lie on their brokers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from ariane.broker.v1.topic_service_pb2 import (
    CreateTopicRequest,
    DeleteTopicRequest,
    GetTopicRequest,
    Topic,
    UpdateTopicRequest,
)
from ariane.common.v1.message_pb2 import MESSAGE_TYPE_FIFO
from ariane.namesrv.v1 import route_pb2
from ariane_admin.client_warnings import say_warning
from ariane_admin.cluster_doors import (
    CALL_SECONDS_MAX,
    ClusterDoors,
    answer_of,
    answer_to_question,
    ask_each,
    broker_peer,
)
from ariane_admin.commands.topic_order import order, places_in_order
from ariane_admin.confirmation import confirm, yes_option
from ariane_admin.connection import name_servers_option, run_async
from ariane_admin.output import Output, output_option
from ariane_admin.times import moment_text
from ariane_admin.topic_words import (
    QUEUES_MAX,
    MessageTypeType,
    PermissionType,
    message_type_word,
    permission_word,
)
from ariane_sdk import ClusterClient, LiveBroker, QueueReader
from ariane_sdk.errors import TopicExists, TopicNotFound

if TYPE_CHECKING:
    from ariane.common.v1 import message_pb2

_QUEUES = click.IntRange(1, QUEUES_MAX)
_QUEUE_COLUMNS = ("broker", "address", "queue_id", "min_offset", "max_offset", "messages")
_LAYOUT_COLUMNS = ("broker", "read_queues", "write_queues", "permission", "type", "version")


@click.group()
def topic() -> None:
    """Create, change and delete topics, and look at them."""


topic.add_command(order)


@topic.command("create")
@click.argument("name")
@click.option(
    "--queues", type=_QUEUES, default=4, show_default=True, help="Message queues on each broker."
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
    help="What is allowed.",
)
@click.option(
    "--type",
    "message_type",
    type=MessageTypeType(),
    default="any",
    show_default=True,
    help="What kind of messages it takes.",
)
@click.option("--exists-ok", is_flag=True, help="Be content when it is there already.")
@name_servers_option
@output_option
def create(
    *,
    name: str,
    queues: int,
    broker_names: tuple[str, ...],
    cluster_name: str,
    permission: route_pb2.TopicPermission.ValueType,
    message_type: message_pb2.MessageType.ValueType,
    exists_ok: bool,
    name_servers: str,
    output: Output,
) -> None:
    """Create topic NAME on every broker, with as many queues on each.

    Of type fifo, it keeps the order of its queues, also while a broker is away (ariane topic
    order).

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
    )
    request = CreateTopicRequest(topic=wanted)

    async def ask() -> None:
        async with ClusterDoors(name_servers) as doors:

            async def at(broker: LiveBroker) -> None:
                call = doors.topics(broker.address).CreateTopic(request, timeout=CALL_SECONDS_MAX)
                try:
                    await answer_of(call, broker_peer(broker))
                except TopicExists:
                    if not exists_ok:
                        raise
                    _tell_difference(await _layout_at(doors, broker, name), wanted)

            await ask_each(await doors.primaries(broker_names, cluster_name=cluster_name), at)
            if (
                message_type == MESSAGE_TYPE_FIFO
                and not (await doors.client.route(name)).queue_order
            ):
                await doors.client.keep_queue_order(name)

    run_async(ask())
    output.done(f"Topic {name} is there.", {"topic": name})


@topic.command("list")
@click.option("--system", is_flag=True, help="Those too that the system made for itself.")
@name_servers_option
@output_option
def list_topics(*, system: bool, name_servers: str, output: Output) -> None:
    """List topics by name.

    \b
    Example:
      ariane topic list -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines

    async def ask() -> list[str]:
        async with ClusterClient(name_servers) as cluster:
            return await cluster.list_topics(include_system=system)

    output.rows(["topic"], [{"topic": name} for name in run_async(ask())])


@topic.command("show")
@click.argument("name")
@click.option("--brokers", is_flag=True, help="How it lies on each broker, instead of its queues.")
@name_servers_option
@output_option
def show(*, name: str, brokers: bool, name_servers: str, output: Output) -> None:
    """Show the message queues of topic NAME, and how many messages each keeps.

    Where message groups are divided among them in a fixed order, the place of each in it.

    \b
    Examples:
      ariane topic show orders
      ariane topic show orders --brokers -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    if brokers:
        output.rows(_LAYOUT_COLUMNS, run_async(_layout(name_servers, name)))
        return
    queues = run_async(_queues(name_servers, name))
    ordered = any(queue["order_place"] is not None for queue in queues)
    output.rows((*_QUEUE_COLUMNS, "order_place") if ordered else _QUEUE_COLUMNS, queues)


@topic.command("update")
@click.argument("name")
@click.option("--read-queues", type=_QUEUES, help="Queues that are read.")
@click.option("--write-queues", type=click.IntRange(0, QUEUES_MAX), help="Queues that are written.")
@click.option("--permission", type=PermissionType(), help="What is allowed.")
@click.option("--type", "message_type", type=MessageTypeType(), help="What it takes.")
@click.option(
    "--broker", "broker_names", multiple=True, help="Only on this broker; may be repeated."
)
@name_servers_option
@output_option
def update(
    *,
    name: str,
    read_queues: int | None,
    write_queues: int | None,
    permission: route_pb2.TopicPermission.ValueType | None,
    message_type: message_pb2.MessageType.ValueType | None,
    broker_names: tuple[str, ...],
    name_servers: str,
    output: Output,
) -> None:
    """Change topic NAME on every broker that has it.

    To have fewer queues without losing a message: lower the write queues first, wait until the
    groups have consumed the queues that go (ariane group show), then lower the read queues.

    \b
    Examples:
      ariane topic update orders --write-queues 8
      ariane topic update orders --permission read --broker broker-a
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    request = UpdateTopicRequest(
        topic=name,
        read_queue_count=read_queues,
        write_queue_count=write_queues,
        permission=permission or route_pb2.TOPIC_PERMISSION_UNSPECIFIED,
        message_type=message_type,
    )
    if request == UpdateTopicRequest(topic=name):
        raise click.UsageError("nothing to change: say --read-queues, --write-queues or another")

    async def ask() -> list[Mapping[str, object]]:
        async with ClusterDoors(name_servers) as doors:

            async def at(broker: LiveBroker) -> Mapping[str, object]:
                call = doors.topics(broker.address).UpdateTopic(request, timeout=CALL_SECONDS_MAX)
                return _layout_row(broker, (await answer_of(call, broker_peer(broker))).topic)

            if broker_names:
                brokers = await doors.primaries(broker_names)
            else:
                brokers = await doors.primaries_of(name)
            return await ask_each(brokers, at)

    output.rows(_LAYOUT_COLUMNS, run_async(ask()))


@topic.command("delete")
@click.argument("name")
@click.option(
    "--broker", "broker_names", multiple=True, help="Only on this broker; may be repeated."
)
@click.option("--missing-ok", is_flag=True, help="Be content when it is not there.")
@yes_option
@name_servers_option
@output_option
def delete(
    *,
    name: str,
    broker_names: tuple[str, ...],
    missing_ok: bool,
    yes: bool,
    name_servers: str,
    output: Output,
) -> None:
    """Delete topic NAME with its messages and the offsets of its groups.

    \b
    Example:
      ariane topic delete orders --yes
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    where = f" on {', '.join(broker_names)}" if broker_names else ""
    confirm(f"Delete topic {name}{where} with all its messages?", yes=yes)

    async def ask() -> list[bool]:
        async with ClusterDoors(name_servers) as doors:

            async def at(broker: LiveBroker) -> bool:
                request = DeleteTopicRequest(topic=name)
                call = doors.topics(broker.address).DeleteTopic(request, timeout=CALL_SECONDS_MAX)
                try:
                    await answer_of(call, broker_peer(broker))
                except TopicNotFound:
                    return False
                return True

            return await ask_each(await doors.primaries(broker_names), at)

    deleted = sum(run_async(ask()))
    if not deleted and not missing_ok:
        raise TopicNotFound(f"no broker has topic {name!r}")
    output.done(
        f"Topic {name} is gone from {deleted} {'broker' if deleted == 1 else 'brokers'}.",
        {"topic": name, "brokers": deleted},
    )


async def _queues(name_servers: str, name: str) -> list[Mapping[str, object]]:
    async with ClusterClient(name_servers) as cluster, QueueReader(name_servers) as reader:
        route = await cluster.route(name)
        addresses = {broker.broker_name: broker.read_address for broker in route.brokers}
        places = places_in_order(route)
        bounds = await reader.bounds(name)
        return [
            {
                "broker": queue.broker_name,
                "address": addresses.get(queue.broker_name, ""),
                "queue_id": queue.queue_id,
                "min_offset": begin,
                "max_offset": end,
                "messages": end - begin,
                "order_place": places.get(queue),
            }
            for queue, (begin, end) in sorted(bounds.items())
        ]


async def _layout(name_servers: str, name: str) -> list[Mapping[str, object]]:
    async with ClusterDoors(name_servers) as doors:

        async def at(broker: LiveBroker) -> Mapping[str, object]:
            return await _layout_at(doors, broker, name)

        return await ask_each(await doors.primaries_of(name), at)


async def _layout_at(doors: ClusterDoors, broker: LiveBroker, name: str) -> Mapping[str, object]:
    request = GetTopicRequest(topic=name)
    call = doors.topics(broker.address).GetTopic(request, timeout=CALL_SECONDS_MAX)
    return _layout_row(broker, (await answer_to_question(call, broker_peer(broker))).topic)


def _tell_difference(there: Mapping[str, object], wanted: Topic) -> None:
    """Warn of a topic that is there, and otherwise than it is wanted."""
    if (there["read_queues"], there["write_queues"], there["permission"], there["type"]) != (
        wanted.read_queue_count,
        wanted.write_queue_count,
        permission_word(wanted.permission),
        message_type_word(wanted.message_type),
    ):
        say_warning(
            "{topic} is on {broker} with {read_queues} read and {write_queues} write queues,"
            " {permission}, {type}: ariane topic update changes it".format_map(
                {**there, "topic": wanted.topic}
            )
        )


def _layout_row(broker: LiveBroker, found: Topic) -> Mapping[str, object]:
    return {
        "cluster": broker.cluster_name,
        "broker": broker.broker_name,
        "address": broker.address,
        "read_queues": found.read_queue_count,
        "write_queues": found.write_queue_count,
        "permission": permission_word(found.permission),
        "type": message_type_word(found.message_type),
        "attributes": dict(found.attributes),
        "version": found.version,
        "system": found.system,
        "last_stored": moment_text(found, "last_store_time"),
    }
