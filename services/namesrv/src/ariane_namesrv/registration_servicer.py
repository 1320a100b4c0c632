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
from ariane_namesrv.refused_brokers import RefusedBrokers
from ariane_namesrv.registration import Registration
from ariane_namesrv.route_table import RouteTable
from ariane_namesrv.settings import NamesrvSettings
from ariane_namesrv.translation import (
    read_address,
    read_broker_key,
    read_registration,
    write_duration,
    write_refused_topics,
)
from ariane_servicekit import ServiceError


class RegistrationServicer(RegistrationServiceServicer):
    """Registration, heartbeat and goodbye, as the contract describes them."""

    def __init__(
        self, table: RouteTable, refused: RefusedBrokers, settings: NamesrvSettings
    ) -> None:
        self._table = table
        self._refused = refused
        self._settings = settings

    @override
    async def RegisterBroker(
        self, request: RegisterBrokerRequest, context: ServicerContext[Any, Any]
    ) -> RegisterBrokerResponse:
        try:
            registration = self._register(request)
        except ServiceError as error:
            self._note_refusal(request, error)
            raise
        return RegisterBrokerResponse(
            heartbeat_interval=write_duration(self._heartbeat_interval_s(registration)),
            refused_topics=write_refused_topics(registration.refused_topics),
            refused_topic_count=registration.refused_topic_count,
        )

    def _register(self, request: RegisterBrokerRequest) -> Registration:
        registration = read_registration(
            request,
            silence_s_max=self._settings.silence_s_max,
            topics_max=self._settings.topics_per_broker_max,
            standing=self._table.topics_of,
        )
        self._table.register(registration)
        self._refused.forget(registration.key, registration.address)
        return registration

    def _note_refusal(self, request: RegisterBrokerRequest, refusal: ServiceError) -> None:
        """Keep a refusal for operators, if the request names the broker."""
        identity = request.identity
        try:
            key = read_broker_key(identity.cluster_name, identity.broker_name, identity.broker_id)
            address = read_address("identity.address", identity.address)
        except ServiceError:
            return  # Operators could not find it by that.
        self._refused.add(key, address, refusal.message)

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
