"""``ClientService``: live producers and consumers."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from google.protobuf.duration_pb2 import Duration
from grpc import aio

from ariane.admin.v1 import client_service_pb2 as client_pb
from ariane.admin.v1.client_service_pb2_grpc import ClientServiceServicer
from ariane.broker.v1 import client_service_pb2 as broker_pb
from ariane.broker.v1.broker_service_pb2 import DisconnectClientRequest
from ariane.broker.v1.topic_producer_pb2 import ListProducersRequest, TopicProducer
from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_admin.asking.answers import Answers
from ariane_admin.asking.cluster_doors import ClusterDoors, all_pages, answer_from, changed_at
from ariane_admin.servicers.cluster_access import ClusterAccess
from ariane_sdk import LiveBroker
from ariane_sdk.errors import CallError
from ariane_servicekit.errors import refusal

_Context = aio.ServicerContext[Any, Any]

ANSWER_S_MAX = 3
"""Seconds that a client has to report its state."""


class ClientServicer(ClientServiceServicer):
    """Asks brokers for attached clients, and clients for their state."""

    def __init__(self, cluster: ClusterAccess) -> None:
        self._cluster = cluster
        self._doors = cluster.doors
        self._known: _Attached | None = None

    async def before(self, method: str, request: Any) -> client_pb.ClusterClient | None:
        """The client as it is before it is disconnected."""
        return (await self._attached()).clients.get(request.client_id)

    async def ListClients(
        self, request: client_pb.ListClientsRequest, context: _Context
    ) -> client_pb.ListClientsResponse:
        """List clients, by client id."""
        attached = await self._attached(request.broker_name)
        clients = attached.of(request.consumer_group, request.producer_group)
        page = self._cluster.page(
            sorted(clients),
            lambda client_id: (client_id,),
            request,
            scope=f"clients:{request.broker_name}:{request.consumer_group}:{request.producer_group}",
        )
        return client_pb.ListClientsResponse(
            clients=(clients[client_id] for client_id in page.entries),
            next_page_token=page.next_page_token,
            silent_brokers=self._cluster.silent(attached.answers),
        )

    async def ListProducers(
        self, request: client_pb.ListProducersRequest, context: _Context
    ) -> client_pb.ListProducersResponse:
        """List who sends messages."""
        answers = await self._cluster.answers()
        found = await _topic_producers(
            self._doors, answers, topic=request.topic, producer_group=request.producer_group
        )
        page = self._cluster.page(
            found,
            lambda each: _producer_key(each.producer),
            request,
            scope=f"producers:{request.topic}:{request.producer_group}",
        )
        return client_pb.ListProducersResponse(
            producers=page.entries,
            next_page_token=page.next_page_token,
            silent_brokers=self._cluster.silent(answers),
        )

    async def GetClientState(
        self, request: client_pb.GetClientStateRequest, context: _Context
    ) -> client_pb.GetClientStateResponse:
        """Ask a client for its present state."""
        attached = await self._attached()
        answers, client = attached.answers, attached.clients.get(request.client_id)
        if client is None:
            raise _not_attached(request.client_id)
        [broker] = [b for b in answers.brokers if b.broker_name == client.broker_names[0]]
        asked = broker_pb.GetClientStateRequest(
            client_id=request.client_id,
            wait_duration=Duration(seconds=ANSWER_S_MAX),
            with_stacks=request.with_stacks,
        )
        answer = await answer_from(
            broker, self._doors.clients(broker.address).GetClientState, asked
        )
        return client_pb.GetClientStateResponse(
            client=client, state=answer.state, silent_brokers=self._cluster.silent(answers)
        )

    async def DisconnectClient(
        self, request: client_pb.DisconnectClientRequest, context: _Context
    ) -> client_pb.DisconnectClientResponse:
        """End the attachment of a client to every broker."""
        without: set[str] = set()

        async def at(broker: LiveBroker) -> None:
            asked = DisconnectClientRequest(client_id=request.client_id)
            stub = self._doors.brokers(broker.address)
            try:
                await changed_at(broker, stub.DisconnectClient, asked)
            except CallError as error:
                if error.reason != "CLIENT_NOT_ATTACHED":
                    raise
                without.add(broker.broker_name)

        outcomes = await self._cluster.change_each(await self._doors.primaries(), at)
        known = [each for each in outcomes if each.broker_name not in without]
        if not known:
            raise _not_attached(request.client_id)
        return client_pb.DisconnectClientResponse(outcomes=known)

    async def _attached(self, broker_name: str = "") -> _Attached:
        """The clients of all brokers, or of one.

        Where lists come whole, all brokers are asked once: a list and the states of its clients
        belong together.
        """
        if self._known is not None and not broker_name:
            return self._known
        names = [broker_name] if broker_name else []
        answers = self._cluster.asking(await self._doors.primaries(names))

        async def at(broker: LiveBroker) -> tuple[str, list[broker_pb.AttachedClient]]:
            asked, stub = broker_pb.ListClientsRequest(), self._doors.clients(broker.address)
            found = await all_pages(broker, stub.ListClients, asked, lambda page: page.clients)
            return broker.broker_name, found

        attached = _Attached(answers, await answers.ask(at))
        if self._cluster.whole_lists and not broker_name:
            self._known = attached
        return attached


@dataclass(frozen=True)
class _Attached:
    """Attached clients, as brokers know them."""

    answers: Answers
    """The brokers that were asked, and those of them that were silent."""
    by_broker: Sequence[tuple[str, Sequence[broker_pb.AttachedClient]]]
    """The clients of each broker that has answered, with its name."""

    @cached_property
    def clients(self) -> Mapping[str, client_pb.ClusterClient]:
        """All by client id."""
        return self.of()

    def of(
        self, consumer_group: str = "", producer_group: str = ""
    ) -> Mapping[str, client_pb.ClusterClient]:
        """By client id, each with the names of the brokers that it is attached to.

        Args:
            consumer_group: Only members of this group; empty for all.
            producer_group: Only producers of this group; empty for all.
        """
        clients: dict[str, client_pb.ClusterClient] = {}
        for broker_name, found in self.by_broker:
            for client in found:
                if _is_in(client.hello, consumer_group, producer_group):
                    entry = clients.setdefault(
                        client.hello.client_id, client_pb.ClusterClient(client=client)
                    )
                    entry.broker_names.append(broker_name)
        return clients


@refusal(ErrorReason.ERROR_REASON_CLIENT_NOT_ATTACHED)
def _not_attached(client_id: str) -> str:
    return f"no broker that answers has client {client_id!r}"


def _is_in(hello: broker_pb.ClientHello, consumer_group: str, producer_group: str) -> bool:
    consuming = {membership.consumer_group for membership in hello.memberships}
    return consumer_group in {"", *consuming} and producer_group in {"", *hello.producer_groups}


async def _topic_producers(
    doors: ClusterDoors, answers: Answers, *, topic: str = "", producer_group: str = ""
) -> list[client_pb.ClusterProducer]:
    """Producers by topic, client id and host; one that sends to several brokers is one.

    Args:
        doors: Connections to the brokers.
        answers: The brokers to ask; records silent ones.
        topic: Only producers of this topic; empty for all.
        producer_group: Only those that say this producer group; empty for all.

    Raises:
        CallError: As ``Answers.ask``.
    """

    async def at(broker: LiveBroker) -> tuple[str, list[TopicProducer]]:
        stub = doors.clients(broker.address)
        asked = ListProducersRequest(topic=topic)
        found = await all_pages(broker, stub.ListProducers, asked, lambda page: page.producers)
        return broker.broker_name, found

    known: dict[tuple[str, ...], client_pb.ClusterProducer] = {}
    for broker_name, found in await answers.ask(at):
        for each in found:
            if producer_group not in {"", each.producer_group}:
                continue
            key = _producer_key(each)
            if key in known:
                _add(known[key].producer, each)
            else:
                known[key] = client_pb.ClusterProducer(producer=each)
            known[key].broker_names.append(broker_name)
    return [known[key] for key in sorted(known)]


def _producer_key(producer: TopicProducer) -> tuple[str, ...]:
    """What is the same for a producer at all brokers."""
    host = producer.address.rpartition(":")[0]
    return (
        producer.topic,
        producer.client_id,
        host,
        producer.agent,
        producer.producer_group,
    )


def _add(known: TopicProducer, more: TopicProducer) -> None:
    """Add what another broker has noted."""
    known.message_count += more.message_count
    known.messages_per_second += more.messages_per_second
    if more.first_time.ToNanoseconds() < known.first_time.ToNanoseconds():
        known.first_time.CopyFrom(more.first_time)
    if more.last_time.ToNanoseconds() > known.last_time.ToNanoseconds():
        known.last_time.CopyFrom(more.last_time)
        known.address = more.address
