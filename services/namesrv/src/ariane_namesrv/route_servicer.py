"""Translates RouteService: clients ask where topics are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grpc.aio import ServicerContext
from typing_extensions import override

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane.namesrv.v1.route_service_pb2 import (
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
from ariane_namesrv.route_table import RouteTable
from ariane_namesrv.translation import write_liveness, write_refused_broker, write_route
from ariane_servicekit import ServiceError, field_invalid, take_page


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
            route=write_route(request.topic, brokers, queue_order),
            warming_up=self._is_warming_up(),
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
        )

    def _route_not_found(self, topic: str) -> ServiceError:
        message = f"no live broker carries topic {topic!r}"
        metadata = {"topic": topic}
        queue_order = self._operator.value(ORDER_NAMESPACE, topic)
        if queue_order:
            metadata["queue_order"] = queue_order
        if self._is_warming_up():
            message += ", but this name server has just started and may not know all yet"
            metadata["warming_up"] = "true"
        return ServiceError(ErrorReason.ERROR_REASON_ROUTE_NOT_FOUND, message, metadata)
