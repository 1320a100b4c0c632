"""Calls of every client: where to go, and that it lives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from apache.rocketmq.v2 import service_pb2 as pb
from apache.rocketmq.v2.definition_pb2 import Assignment, Code, Endpoints
from ariane_gateway.brokers.cluster import Cluster
from ariane_gateway.brokers.group_calls import GroupCalls
from ariane_gateway.brokers.seen_topics import SeenTopics
from ariane_gateway.clients.client_table import ClientTable
from ariane_gateway.patience import once_answered
from ariane_gateway.rpc.caller import Caller, group_of, topic_of
from ariane_gateway.rpc.route_wire import (
    assigned_queues,
    endpoints_at,
    knows_priorities,
    message_queues,
)
from ariane_gateway.rpc.statuses import OK, Illegal
from ariane_sdk.routing.route import Route
from ariane_servicekit import Address

MARGIN_S: Final = 0.5
"""A question ends so much before its caller stops waiting, so that the caller learns why."""


ADDRESSES_MAX: Final = 64
ENDPOINTS_BYTES_MAX: Final = 16 << 10


class ClientCalls:
    """Answers all clients."""

    def __init__(
        self,
        cluster: Cluster,
        groups: GroupCalls,
        seen: SeenTopics,
        clients: ClientTable,
        *,
        advertised: Address | None,
        listens: Callable[[], Address],
    ) -> None:
        """``advertised`` is where clients are to call; None: where they called."""
        self._cluster = cluster
        self._groups = groups
        self._seen = seen
        self._clients = clients
        self._advertised = advertised
        self._listens = listens

    async def route(self, request: pb.QueryRouteRequest, caller: Caller) -> pb.QueryRouteResponse:
        """Tell the queues of a topic.

        Raises:
            Illegal: The topic is missing.
            Refused: No broker has it, its user may not see it, or no name server answered.
        """
        topic = topic_of(request.topic)
        route = await once_answered(
            lambda: self._seen_route(topic), wait_s=caller.time_s - MARGIN_S
        )
        queues = message_queues(
            route,
            request.topic,
            self._endpoints(request.endpoints),
            priorities=knows_priorities(caller.language, caller.version),
        )
        return pb.QueryRouteResponse(status=OK, message_queues=queues)

    async def assignment(
        self, request: pb.QueryAssignmentRequest, caller: Caller
    ) -> pb.QueryAssignmentResponse:
        """Tell what a consumer is to receive from.

        Raises:
            Illegal: A name is missing.
            Refused: No broker has the topic, its user may not see it, or nobody answered.
        """
        group, topic = group_of(request.group), topic_of(request.topic)
        await self._seen.check(topic)
        route = await self._cluster.route(topic)
        queues = assigned_queues(
            route,
            request.topic,
            self._endpoints(request.endpoints),
            in_order=(await self._groups.rules(group)).in_order,
            priorities=knows_priorities(caller.language, caller.version),
        )
        assignments = [Assignment(message_queue=queue) for queue in queues]
        return pb.QueryAssignmentResponse(status=OK, assignments=assignments)

    async def heartbeat(self, request: pb.HeartbeatRequest, caller: Caller) -> pb.HeartbeatResponse:
        """Note that a client lives; whether it has an open stream does not matter.

        Raises:
            Illegal: The group is missing.
        """
        if request.HasField("group"):
            group_of(request.group)
        self._clients.heard(*caller.identity)
        return pb.HeartbeatResponse(status=OK)

    async def termination(
        self, _request: pb.NotifyClientTerminationRequest, caller: Caller
    ) -> pb.NotifyClientTerminationResponse:
        """Forget a client."""
        self._clients.leaves(caller.client_id, caller.user)
        return pb.NotifyClientTerminationResponse(status=OK)

    async def _seen_route(self, topic: str) -> Route:
        await self._seen.check(topic)
        return await self._cluster.present_route(topic)

    def _endpoints(self, called: Endpoints) -> Endpoints:
        """Where the client is to call from now on.

        Raises:
            Illegal: It says too much: an answer has it once for each queue.
        """
        if len(called.addresses) > ADDRESSES_MAX or called.ByteSize() > ENDPOINTS_BYTES_MAX:
            raise Illegal(
                Code.ILLEGAL_ACCESS_POINT, f"endpoints: at most {ADDRESSES_MAX} addresses of hosts"
            )
        if self._advertised is not None:
            return endpoints_at(self._advertised)
        return called if called.addresses else endpoints_at(self._listens())
