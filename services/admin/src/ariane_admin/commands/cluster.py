"""``ariane cluster``: who is there."""

from __future__ import annotations

import click

from ariane_admin.asking.cluster_doors import ClusterDoors
from ariane_admin.asking.connection import run_async
from ariane_admin.asking.options import question_options
from ariane_admin.terminal.output import Output
from ariane_sdk import LiveBroker


@click.command("show")
@question_options
def show(*, name_servers: str, output: Output) -> None:
    """Show the live brokers as the name servers know them.

    \b
    Example:
      ariane cluster show -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines

    async def ask() -> list[LiveBroker]:
        async with ClusterDoors(name_servers) as doors:
            return await doors.registered()

    output.rows(
        ["cluster", "broker", "id", "address", "zone", "topics", "last_heard"],
        [
            {
                "cluster": broker.cluster_name,
                "broker": broker.broker_name,
                "id": broker.broker_id,
                "address": broker.address,
                "zone": broker.zone,
                "topics": broker.topic_count,
                "last_heard": broker.last_heard_time.isoformat(timespec="seconds"),
            }
            for broker in run_async(ask())
        ],
    )
