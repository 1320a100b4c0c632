"""``ariane topic``: what topics there are."""

from __future__ import annotations

from collections.abc import Mapping

import click

from ariane_admin.connection import name_servers_option, run_async
from ariane_admin.output import Output, output_option
from ariane_sdk import ClusterClient, QueueReader

_QUEUES_MAX = 1024


@click.group()
def topic() -> None:
    """Create topics and look at them."""


@topic.command("create")
@click.argument("name")
@click.option(
    "--queues",
    type=click.IntRange(1, _QUEUES_MAX),
    default=4,
    show_default=True,
    help="Message queues on each broker.",
)
@click.option("--exists-ok", is_flag=True, help="Be content when it is there already.")
@name_servers_option
@output_option
def create(*, name: str, queues: int, exists_ok: bool, name_servers: str, output: Output) -> None:
    """Create topic NAME on every broker."""

    async def ask() -> None:
        async with ClusterClient(name_servers) as cluster:
            await cluster.create_topic(name, queue_count=queues, exists_ok=exists_ok)

    run_async(ask())
    output.done(f"Topic {name} is there.", {"topic": name})


@topic.command("list")
@name_servers_option
@output_option
def list_topics(*, name_servers: str, output: Output) -> None:
    """List topics by name."""

    async def ask() -> list[str]:
        async with ClusterClient(name_servers) as cluster:
            return await cluster.list_topics()

    output.rows(["topic"], [{"topic": name} for name in run_async(ask())])


@topic.command("show")
@click.argument("name")
@name_servers_option
@output_option
def show(*, name: str, name_servers: str, output: Output) -> None:
    """Show the message queues of topic NAME, and how many messages each keeps."""

    async def ask() -> list[Mapping[str, object]]:
        async with ClusterClient(name_servers) as cluster, QueueReader(name_servers) as reader:
            route = await cluster.route(name)
            addresses = {broker.broker_name: broker.read_address for broker in route.brokers}
            bounds = await reader.bounds(name)
            return [
                {
                    "broker": queue.broker_name,
                    "address": addresses.get(queue.broker_name, ""),
                    "queue_id": queue.queue_id,
                    "min_offset": begin,
                    "max_offset": end,
                    "messages": end - begin,
                }
                for queue, (begin, end) in sorted(bounds.items())
            ]

    output.rows(
        ["broker", "address", "queue_id", "min_offset", "max_offset", "messages"], run_async(ask())
    )
