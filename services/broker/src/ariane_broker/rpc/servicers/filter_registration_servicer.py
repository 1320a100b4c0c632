"""``FilterRegistrationService`` on the wire."""
# ruff: noqa: ARG002, N802 - methods are named by the contract.

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

from grpc import aio

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane.filter.v1 import filter_registration_service_pb2 as registration_pb
from ariane.filter.v1.filter_registration_service_pb2_grpc import FilterRegistrationServiceServicer
from ariane_broker.naming.filter_servers import FilterServers
from ariane_broker.rpc.peer_address import peer_host
from ariane_broker.rpc.translation.wire_time import span_of
from ariane_servicekit import ServiceError


class FilterRegistrationServicer(FilterRegistrationServiceServicer):
    """Translates registrations of FilterServers."""

    def __init__(self, servers: FilterServers, broker_name: str) -> None:
        self._servers = servers
        self._broker_name = broker_name

    async def RegisterFilterServer(
        self,
        request: registration_pb.RegisterFilterServerRequest,
        context: aio.ServicerContext[Any, Any],
    ) -> registration_pb.RegisterFilterServerResponse:
        """Register a FilterServer, or renew its registration."""
        _check_near(context)
        await self._servers.register(request.address, request.incarnation)
        return registration_pb.RegisterFilterServerResponse(
            broker_name=self._broker_name,
            heartbeat_interval=span_of(self._servers.heartbeat_s),
            silence_max=span_of(self._servers.silence_s),
        )

    async def UnregisterFilterServer(
        self,
        request: registration_pb.UnregisterFilterServerRequest,
        context: aio.ServicerContext[Any, Any],
    ) -> registration_pb.UnregisterFilterServerResponse:
        """Remove a FilterServer."""
        _check_near(context)
        known = await self._servers.unregister(request.address, request.incarnation)
        return registration_pb.UnregisterFilterServerResponse(known=known)

    async def GetFilterServers(
        self,
        request: registration_pb.GetFilterServersRequest,
        context: aio.ServicerContext[Any, Any],
    ) -> registration_pb.GetFilterServersResponse:
        """Return the live FilterServers, also those on the machines of replicas."""
        return registration_pb.GetFilterServersResponse(addresses=self._servers.addresses)


def _check_near(context: aio.ServicerContext[Any, Any]) -> None:
    """Refuse other machines: a FilterServer in the route gets the groups' pulls.

    Raises:
        ServiceError: ACCESS_DENIED.
    """
    host, _ = peer_host(context.peer())
    if not ip_address(host).is_loopback:
        raise ServiceError(
            ErrorReason.ERROR_REASON_ACCESS_DENIED,
            f"a FilterServer runs beside its broker and registers over loopback, not from {host}",
            {"host": host},
        )
