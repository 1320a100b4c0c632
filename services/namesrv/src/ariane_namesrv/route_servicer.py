"""Translates RouteService: clients ask where topics are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Final

from grpc.aio import ServicerContext
from typing_extensions import override

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane.common.v1.message_pb2 import MessageQueue
from ariane.namesrv.v1.route_service_pb2 import (
    GetMessageGroupQueueRequest,
    GetMessageGroupQueueResponse,
    GetRouteRequest,
    GetRouteResponse,
    ListBrokersRequest,
    ListBrokersResponse,
    ListTopicsRequest,
    ListTopicsResponse,
)
from ariane.namesrv.v1.route_service_pb2_grpc import RouteServiceServicer
from ariane_namesrv.operator_state import ORDER_NAMESPACE, OperatorState
from ariane_namesrv.refused_brokers import RefusedBrokers
from ariane_namesrv.registration import PRIMARY_ID, BrokerRoute, Permission
from ariane_namesrv.route_table import RouteTable
from ariane_namesrv.translation import (
    write_away_broker,
    write_liveness,
    write_refused_broker,
    write_route,
)
from ariane_ordering import BrokerQueue, group_position, queues_in_order
from ariane_servicekit import ServiceError, field_invalid, take_page

AWAY_TOLD_MAX: Final = 10
"""So many brokers that may come back are named to who asks for a topic that no other has."""


class RouteServicer(RouteServiceServicer):
    """Routes, topics and brokers, as the contract describes them."""

    def __init__(
        self,
        table: RouteTable,
        refused: RefusedBrokers,
        operator: OperatorState,
        *,
        is_warming_up: Callable[[], bool],
    ) -> None:
        self._table = table
        self._refused = refused
        self._operator = operator
        self._is_warming_up = is_warming_up

    @override
    async def GetRoute(
        self, request: GetRouteRequest, context: ServicerContext[Any, Any]
    ) -> GetRouteResponse:
        if not request.topic:
            raise field_invalid("topic", "is required")
        brokers = self._table.route(request.topic)
        if not brokers:
            raise self._route_not_found(request.topic)
        queue_order = self._operator.value(ORDER_NAMESPACE, request.topic)
        return GetRouteResponse(
            route=write_route(request.topic, brokers, queue_order, self._table.away(request.topic)),
            warming_up=self._is_warming_up(),
        )

    @override
    async def GetMessageGroupQueue(
        self, request: GetMessageGroupQueueRequest, context: ServicerContext[Any, Any]
    ) -> GetMessageGroupQueueResponse:
        topic = request.topic
        for field in ("topic", "message_group"):
            if not getattr(request, field):
                raise field_invalid(field, "is required")
        brokers = self._table.route(topic)
        queue_order = self._operator.value(ORDER_NAMESPACE, topic)
        if not (brokers or queue_order):
            raise self._route_not_found(topic)
        queue = group_queue(request.message_group, brokers, queue_order)
        if queue is None:
            raise self._queue_order_unknown(topic)
        address = primary_address(brokers, queue.broker_name)
        if not address:
            raise self._broker_away(topic, queue.broker_name, queue_order)
        return GetMessageGroupQueueResponse(
            queue=MessageQueue(topic=topic, broker_name=queue.broker_name, queue_id=queue.queue_id),
            address=address,
        )

    @override
    async def ListTopics(
        self, request: ListTopicsRequest, context: ServicerContext[Any, Any]
    ) -> ListTopicsResponse:
        page = take_page(
            self._table.topics(request.cluster_name),
            lambda topic: (topic,),
            page_size=request.page_size,
            page_token=request.page_token,
            scope=f"topics of {request.cluster_name}",
        )
        return ListTopicsResponse(
            topics=page.entries,
            next_page_token=page.next_page_token,
            warming_up=self._is_warming_up(),
        )

    @override
    async def ListBrokers(
        self, request: ListBrokersRequest, context: ServicerContext[Any, Any]
    ) -> ListBrokersResponse:
        page = take_page(
            self._table.brokers(request.cluster_name),
            lambda entry: entry.registration.key,
            page_size=request.page_size,
            page_token=request.page_token,
            scope=f"brokers of {request.cluster_name}",
        )
        is_wiped = self._table.wiped.__contains__
        return ListBrokersResponse(
            brokers=[write_liveness(entry, is_wiped=is_wiped) for entry in page.entries],
            next_page_token=page.next_page_token,
            warming_up=self._is_warming_up(),
            refused_brokers=map(write_refused_broker, self._refused.all(request.cluster_name)),
            away_brokers=map(write_away_broker, self._table.away_brokers(request.cluster_name)),
        )

    def _queue_order_unknown(self, topic: str) -> ServiceError:
        message = (
            f"topic {topic!r} is of type FIFO or has no queue to write, and this name server was "
            "not told how its message groups are divided"
        )
        metadata = {"topic": topic}
        return ServiceError(ErrorReason.ERROR_REASON_QUEUE_ORDER_UNKNOWN, message, metadata)

    def _broker_away(self, topic: str, broker_name: str, queue_order: str) -> ServiceError:
        message = (
            f"the message group belongs to broker {broker_name}, which takes no messages of topic "
            f"{topic!r} now; its messages wait for it, so that they stay in order"
        )
        metadata = {"topic": topic, "broker_name": broker_name, "queue_order": queue_order}
        if broker_name in self._table.away(topic):
            metadata["away_brokers"] = broker_name
        return ServiceError(ErrorReason.ERROR_REASON_ROUTE_NOT_FOUND, message, metadata)

    def _route_not_found(self, topic: str) -> ServiceError:
        message = f"no live broker carries topic {topic!r}"
        metadata = {"topic": topic}
        queue_order = self._operator.value(ORDER_NAMESPACE, topic)
        if queue_order:
            metadata["queue_order"] = queue_order
        away = list(islice(self._table.away(topic), AWAY_TOLD_MAX))
        if away:
            message += f"; {', '.join(away)} had it and may come back"
            metadata["away_brokers"] = ",".join(away)
        if self._is_warming_up():
            message += ", but this name server has just started and may not know all yet"
            metadata["warming_up"] = "true"
        return ServiceError(ErrorReason.ERROR_REASON_ROUTE_NOT_FOUND, message, metadata)


def group_queue(
    message_group: str, brokers: Sequence[BrokerRoute], queue_order: str
) -> BrokerQueue | None:
    """The queue of a group, as every producer chooses it; None while the order is unknown.

    Args:
        message_group: The group.
        brokers: The brokers that have the topic now.
        queue_order: The queue order of a FIFO topic; empty for others, and if unknown.
    """
    queues = queues_in_order(queue_order)
    if not queues:
        if any(broker.ordered for broker in brokers):
            return None
        queues = tuple(sorted(_writable(brokers)))
    return queues[group_position(message_group, len(queues))] if queues else None


def primary_address(brokers: Iterable[BrokerRoute], broker_name: str) -> str:
    """The address at which a broker takes messages of the topic; empty if it takes none."""
    for broker in brokers:
        if broker.broker_name == broker_name and Permission.WRITE in broker.permission:
            return broker.addresses.get(PRIMARY_ID, "")
    return ""


def _writable(brokers: Iterable[BrokerRoute]) -> Iterable[BrokerQueue]:
    for broker in brokers:
        if Permission.WRITE in broker.permission and PRIMARY_ID in broker.addresses:
            for queue_id in range(broker.write_queue_count):
                yield BrokerQueue(broker.broker_name, queue_id)
