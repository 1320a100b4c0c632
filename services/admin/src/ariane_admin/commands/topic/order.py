"""``ariane topic order``: among which queues the message groups of a topic are divided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from ariane.admin.v1.topic_service_pb2 import UpdateTopicQueueOrderRequest
from ariane_admin.asking.changing.changes import AdminChoice, change_options, changed
from ariane_admin.asking.cluster_doors import PATIENCE_S
from ariane_admin.asking.connection import run_async
from ariane_admin.terminal.confirmation import confirm, yes_option
from ariane_admin.terminal.output import Output
from ariane_sdk import ClusterClient, MessageQueue, Route

_COLUMNS = ("broker", "queues", "live")


@click.command("order")
@click.argument("name")
@click.option(
    "--set", "fix", is_flag=True, help="Set the order to all queues that are writable now."
)
@click.option(
    "--clear",
    is_flag=True,
    help="Remove the order; a topic of type fifo then refuses message groups.",
)
@yes_option
@change_options
def order(
    *,
    name: str,
    fix: bool,
    clear: bool,
    yes: bool,
    name_servers: str,
    admin: AdminChoice,
    output: Output,
) -> None:
    """Show or change the queue order of topic NAME, which places its message groups.

    The queue order is the fixed list of queues that message groups are divided among. A topic of
    type fifo gets one when it is created, and keeps it while brokers are down. Set it again after
    adding queues or brokers, while no producer is sending: message groups then move to other
    queues.

    \b
    Examples:
      ariane topic order trades
      ariane topic order trades --set --yes
      ariane topic order trades --clear -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    if fix and clear:
        raise click.UsageError("give --set or --clear, not both")
    route = run_async(_route(name_servers, name))
    if (fix or clear) and route.queue_order:
        confirm(
            f"Change the queue order of topic {name}, {route.queue_order}?"
            " Message groups move to other queues.",
            yes=yes,
        )
    if fix or clear:
        request = UpdateTopicQueueOrderRequest(topic=name, clear=clear)
        changed(name_servers, admin, lambda one: one.topics.UpdateTopicQueueOrder, request)
        route = run_async(_route(name_servers, name))
    none = (
        ""
        if output.for_programs
        else "none: message groups move when queues are added or removed, and type fifo"
        " refuses them"
    )
    output.record(
        {"topic": name, "queue_order": route.queue_order or none},
        {"brokers": (_COLUMNS, _by_broker(route))},
    )


def places_in_order(route: Route) -> Mapping[MessageQueue, int]:
    """Where each queue stands in the order of its topic; nothing for a topic without one."""
    if not route.queue_order:
        return {}
    return {queue: place for place, queue in enumerate(route.group_queues)}


async def _route(name_servers: str, name: str) -> Route:
    async with ClusterClient(name_servers, patience_s=PATIENCE_S) as cluster:
        return await cluster.route(name)


def _by_broker(route: Route) -> Sequence[Mapping[str, object]]:
    """How many queues of the order each broker has, and how many it writes now."""
    live = {broker.broker_name: broker.write_queue_count for broker in route.brokers}
    ordered = [queue.broker_name for queue in places_in_order(route)]
    return [
        {"broker": name, "queues": ordered.count(name), "live": live.get(name, 0)}
        for name in sorted({*live, *ordered})
    ]
