"""``ariane client``: clients that are attached to brokers now."""

from __future__ import annotations

import click

from ariane.admin.v1.client_service_pb2 import (
    ClusterClient,
    DisconnectClientRequest,
    ListClientsRequest,
    ListClientsResponse,
)
from ariane_admin.asking.changing.changes import (
    AdminChoice,
    change_options,
    changed_everywhere,
)
from ariane_admin.asking.options import question_options
from ariane_admin.asking.questions import Questions, answered, expect_group
from ariane_admin.terminal.confirmation import confirm, yes_option
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.output import Output, Row
from ariane_admin.times import moment_text

_COLUMNS = ("client_id", "address", "language", "groups", "producer_groups", "brokers")


@click.command("list")
@click.option("--group", "consumer_group", default="", help="Only members of this consumer group.")
@click.option("--producer-group", default="", help="Only producers of this producer group.")
@click.option("--broker", "broker_name", default="", help="Only clients connected to this broker.")
@question_options
def list_clients(
    *,
    consumer_group: str,
    producer_group: str,
    broker_name: str,
    name_servers: str,
    output: Output,
) -> ExitStatus:
    """List connected clients: consumers, transactional producers, and all clients of gateways.

    Other producers do not register with brokers: ariane topic producers lists who sends. A warning
    names each broker that does not answer, and the exit status is 3.

    \b
    Examples:
      ariane client list
      ariane client list --group billing -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    request = ListClientsRequest(
        consumer_group=consumer_group, producer_group=producer_group, broker_name=broker_name
    )

    async def believed(asked: Questions, answer: ListClientsResponse) -> None:
        if consumer_group and not answer.clients:
            await expect_group(asked, consumer_group)

    asked, answer = answered(
        name_servers, lambda one: one.clients.ListClients, request, believed=believed
    )
    output.rows(_COLUMNS, map(_row, answer.clients))
    return asked.status


@click.command("disconnect")
@click.argument("client_id")
@yes_option
@change_options
def disconnect(
    *, client_id: str, yes: bool, name_servers: str, admin: AdminChoice, output: Output
) -> None:
    """End the connection of client CLIENT_ID to every broker.

    Its groups share its queues anew at once, and messages that it has received are delivered again
    when their invisible time is over. A client that lives connects again by itself; to keep it
    away, stop its process. One that is frozen has lost its place, and does not count as dead of a
    message.

    \b
    Example:
      ariane client disconnect CLIENT_ID --yes
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    confirm(f"End the connection of client {client_id} to every broker?", yes=yes)
    request = DisconnectClientRequest(client_id=client_id)
    answer = changed_everywhere(
        name_servers, admin, lambda one: one.clients.DisconnectClient, request
    )
    brokers = [each.broker_name for each in answer.outcomes]
    output.done(
        f"Client {client_id} is disconnected from {', '.join(brokers)}.",
        {"client_id": client_id, "brokers": brokers},
    )


def _row(found: ClusterClient) -> Row:
    client, hello = found.client, found.client.hello
    return {
        "client_id": hello.client_id,
        "address": client.address,
        "language": hello.language,
        "sdk_version": hello.sdk_version,
        "groups": sorted(each.consumer_group for each in hello.memberships),
        "producer_groups": sorted(hello.producer_groups),
        "brokers": sorted(found.broker_names),
        "gateways": list(client.gateways),
        "attach_time": moment_text(client, "attach_time"),
        "last_heard_time": moment_text(client, "last_heard_time"),
    }
