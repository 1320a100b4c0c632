"""Translates RegistrationService: brokers announce themselves."""

from __future__ import annotations

from typing import Any

from grpc.aio import ServicerContext
from typing_extensions import override

from ariane.namesrv.v1.registration_service_pb2 import (
    HeartbeatBrokerRequest,
    HeartbeatBrokerResponse,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from ariane.namesrv.v1.registration_service_pb2_grpc import RegistrationServiceServicer
from ariane_namesrv.registration import Registration
from ariane_namesrv.route_table import RouteTable
from ariane_namesrv.settings import NamesrvSettings
from ariane_namesrv.translation import read_broker_key, read_registration, write_duration


class RegistrationServicer(RegistrationServiceServicer):
    """Registration, heartbeat and goodbye, as the contract describes them."""

    def __init__(self, table: RouteTable, settings: NamesrvSettings) -> None:
        self._table = table
        self._settings = settings

    @override
    async def RegisterBroker(
        self, request: RegisterBrokerRequest, context: ServicerContext[Any, Any]
    ) -> RegisterBrokerResponse:
        registration = read_registration(
            request,
            silence_s_max=self._settings.silence_s_max,
            topics_max=self._settings.topics_per_broker_max,
        )
        self._table.register(registration)
        return RegisterBrokerResponse(
            heartbeat_interval=write_duration(self._heartbeat_interval_s(registration))
        )

    @override
    async def HeartbeatBroker(
        self, request: HeartbeatBrokerRequest, context: ServicerContext[Any, Any]
    ) -> HeartbeatBrokerResponse:
        key = read_broker_key(request.cluster_name, request.broker_name, request.broker_id)
        registration = self._table.heartbeat(key, request.incarnation, request.topics_version)
        return HeartbeatBrokerResponse(
            heartbeat_interval=write_duration(self._heartbeat_interval_s(registration))
        )

    @override
    async def UnregisterBroker(
        self, request: UnregisterBrokerRequest, context: ServicerContext[Any, Any]
    ) -> UnregisterBrokerResponse:
        key = read_broker_key(request.cluster_name, request.broker_name, request.broker_id)
        return UnregisterBrokerResponse(known=self._table.unregister(key, request.incarnation))

    def _heartbeat_interval_s(self, registration: Registration) -> float:
        return min(self._settings.heartbeat_interval_s, registration.silence_s_max / 3)
