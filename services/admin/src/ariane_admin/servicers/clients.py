"""``ClientService``: producers and consumers that live now."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from typing import Any

from google.protobuf.duration_pb2 import Duration
from grpc import aio

from ariane.admin.v1 import client_service_pb2 as client_pb
from ariane.admin.v1.client_service_pb2_grpc import ClientServiceServicer
from ariane.broker.v1 import client_service_pb2 as broker_pb
from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_admin.asking.answers import Answers
from ariane_admin.asking.cluster_doors import (
    CALL_SECONDS_MAX,
    answer_to_question,
    broker_peer,
)
from ariane_admin.servicers.cluster_access import ClusterAccess, all_pages
from ariane_sdk import LiveBroker
from ariane_servicekit import ServiceError, take_page

_Context = aio.ServicerContext[Any, Any]

ANSWER_S_MAX = 3
"""Seconds that a client has to say what it does."""


class ClientServicer(ClientServiceServicer):
    """Asks brokers who is attached, and clients what they do."""

    def __init__(self, cluster: ClusterAccess) -> None:
        self._cluster = cluster
        self._doors = cluster.doors

    async def ListClients(
        self, request: client_pb.ListClientsRequest, context: _Context
    ) -> client_pb.ListClientsResponse:
        """List clients, by client id."""
        answers = await self._cluster.answers()
        clients = {
            client_id: client
            for client_id, client in (await self._clients(answers)).items()
            if _wanted(client.client.hello, request)
        }
        page = take_page(
            sorted(clients),
            lambda client_id: (client_id,),
            page_size=request.page_size,
            page_token=request.page_token,
            scope=f"clients:{request.consumer_group}:{request.producer_group}",
        )
        return client_pb.ListClientsResponse(
            clients=(clients[client_id] for client_id in page.entries),
            next_page_token=page.next_page_token,
            silent_brokers=self._cluster.silent(answers),
        )

    async def GetClientState(
        self, request: client_pb.GetClientStateRequest, context: _Context
    ) -> client_pb.GetClientStateResponse:
        """Ask a client what it does now."""
        answers = await self._cluster.answers()
        client = (await self._clients(answers)).get(request.client_id)
        if client is None:
            raise ServiceError(
                ErrorReason.ERROR_REASON_CLIENT_NOT_ATTACHED,
                f"no broker that answers has client {request.client_id!r}",
                {"client_id": request.client_id},
            )
        [broker] = [b for b in answers.brokers if b.broker_name == client.broker_names[0]]
        asked = broker_pb.GetClientStateRequest(
            client_id=request.client_id,
            wait_duration=Duration(seconds=ANSWER_S_MAX),
            with_stacks=request.with_stacks,
        )
        call = self._doors.clients(broker.address).GetClientState(asked, timeout=CALL_SECONDS_MAX)
        answer = await answer_to_question(call, broker_peer(broker))
        return client_pb.GetClientStateResponse(client=client, state=answer.state)

    async def _clients(self, answers: Answers) -> dict[str, client_pb.ClusterClient]:
        async def at(broker: LiveBroker) -> tuple[str, list[broker_pb.AttachedClient]]:
            stub = self._doors.clients(broker.address)
            asked = broker_pb.ListClientsRequest()
            found = await all_pages(broker, stub.ListClients, asked, lambda page: page.clients)
            return broker.broker_name, found

        clients: dict[str, client_pb.ClusterClient] = {}
        for broker_name, found in await answers.ask(at):
            for client in found:
                entry = clients.setdefault(
                    client.hello.client_id, client_pb.ClusterClient(client=client)
                )
                entry.broker_names.append(broker_name)
        return clients


def _wanted(hello: broker_pb.ClientHello, request: client_pb.ListClientsRequest) -> bool:
    groups = {membership.consumer_group for membership in hello.memberships}
    return request.consumer_group in {"", *groups} and request.producer_group in {
        "",
        *hello.producer_groups,
    }
