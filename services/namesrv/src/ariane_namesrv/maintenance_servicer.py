"""Translates MaintenanceService: operators change the name server's state."""

from __future__ import annotations

from typing import Any

from grpc.aio import ServicerContext
from typing_extensions import override

from ariane.namesrv.v1.maintenance_service_pb2 import (
    DeleteKeyValueRequest,
    DeleteKeyValueResponse,
    ForgetBrokerRequest,
    ForgetBrokerResponse,
    KeyValue,
    ListKeyValuesRequest,
    ListKeyValuesResponse,
    PutKeyValueRequest,
    PutKeyValueResponse,
    RestoreWritePermissionRequest,
    RestoreWritePermissionResponse,
    WipeWritePermissionRequest,
    WipeWritePermissionResponse,
)
from ariane.namesrv.v1.maintenance_service_pb2_grpc import MaintenanceServiceServicer
from ariane_namesrv.operator_state import OperatorState
from ariane_namesrv.route_table import RouteTable
from ariane_servicekit import field_invalid, get_logger, take_page

_log = get_logger(__name__)


class MaintenanceServicer(MaintenanceServiceServicer):
    """Write permission and key values, as the contract describes them."""

    def __init__(self, table: RouteTable, operator: OperatorState) -> None:
        self._table = table
        self._operator = operator

    @override
    async def WipeWritePermission(
        self, request: WipeWritePermissionRequest, context: ServicerContext[Any, Any]
    ) -> WipeWritePermissionResponse:
        name = _broker_name(request.broker_name)
        topic_count = self._table.count_writable_topics(name)
        if not await self._operator.wipe(name):
            return WipeWritePermissionResponse(topic_count=0)
        _log.warning("write_permission_wiped", broker=name, topic_count=topic_count)
        return WipeWritePermissionResponse(topic_count=topic_count)

    @override
    async def RestoreWritePermission(
        self, request: RestoreWritePermissionRequest, context: ServicerContext[Any, Any]
    ) -> RestoreWritePermissionResponse:
        name = _broker_name(request.broker_name)
        topic_count = self._table.count_writable_topics(name)
        if not await self._operator.restore(name):
            return RestoreWritePermissionResponse(topic_count=0)
        _log.info("write_permission_restored", broker=name, topic_count=topic_count)
        return RestoreWritePermissionResponse(topic_count=topic_count)

    @override
    async def ForgetBroker(
        self, request: ForgetBrokerRequest, context: ServicerContext[Any, Any]
    ) -> ForgetBrokerResponse:
        name = _broker_name(request.broker_name)
        forgotten = self._table.forget(name, request.cluster_name)
        topics = {topic for one in forgotten for topic in one.topics}
        return ForgetBrokerResponse(topic_count=len(topics))

    @override
    async def PutKeyValue(
        self, request: PutKeyValueRequest, context: ServicerContext[Any, Any]
    ) -> PutKeyValueResponse:
        await self._operator.put(request.namespace, request.key, request.value)
        _log.info("key_value_put", namespace=request.namespace, key=request.key)
        return PutKeyValueResponse()

    @override
    async def DeleteKeyValue(
        self, request: DeleteKeyValueRequest, context: ServicerContext[Any, Any]
    ) -> DeleteKeyValueResponse:
        known = await self._operator.delete(request.namespace, request.key)
        if known:
            _log.info("key_value_deleted", namespace=request.namespace, key=request.key)
        return DeleteKeyValueResponse(known=known)

    @override
    async def ListKeyValues(
        self, request: ListKeyValuesRequest, context: ServicerContext[Any, Any]
    ) -> ListKeyValuesResponse:
        page = take_page(
            self._operator.pairs(request.namespace),
            lambda pair: (pair[0],),
            page_size=request.page_size,
            page_token=request.page_token,
            scope=f"key values of {request.namespace}",
        )
        return ListKeyValuesResponse(
            key_values=[KeyValue(key=key, value=value) for key, value in page.entries],
            next_page_token=page.next_page_token,
        )


def _broker_name(name: str) -> str:
    if not name:
        raise field_invalid("broker_name", "is required")
    return name
