"""Clients that are attached to brokers now: members of groups, and transactional producers."""

from __future__ import annotations

from ariane.admin.v1.client_service_pb2 import ClusterClient
from ariane.broker.v1.client_service_pb2 import AttachedClient, ClientHello, ListClientsRequest
from ariane_admin.asking.answers import Answers
from ariane_admin.asking.cluster_doors import ClusterDoors, all_pages
from ariane_sdk import LiveBroker


async def attached_clients(
    doors: ClusterDoors, answers: Answers, *, consumer_group: str = "", producer_group: str = ""
) -> dict[str, ClusterClient]:
    """The clients by client id, each with the names of the brokers that it is attached to.

    Args:
        doors: Connections to the brokers.
        answers: The brokers to ask; records silent ones.
        consumer_group: Only members of this group; empty for all.
        producer_group: Only producers of this group; empty for all.

    Raises:
        CallError: As ``Answers.ask``.
    """

    async def at(broker: LiveBroker) -> tuple[str, list[AttachedClient]]:
        stub = doors.clients(broker.address)
        found = await all_pages(
            broker, stub.ListClients, ListClientsRequest(), lambda page: page.clients
        )
        return broker.broker_name, found

    clients: dict[str, ClusterClient] = {}
    for broker_name, found in await answers.ask(at):
        for client in found:
            if _is_in(client.hello, consumer_group, producer_group):
                entry = clients.setdefault(client.hello.client_id, ClusterClient(client=client))
                entry.broker_names.append(broker_name)
    return clients


def _is_in(hello: ClientHello, consumer_group: str, producer_group: str) -> bool:
    consuming = {membership.consumer_group for membership in hello.memberships}
    return consumer_group in {"", *consuming} and producer_group in {"", *hello.producer_groups}
