"""The standard health service, ``grpc.health.v1.Health``: overall and per service.

grpc_health's own servicer for asyncio drops all watchers of a name when one of them leaves, and its
watches outlive a graceful stop; therefore this one. ``Watch`` ends when the server closes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing, suppress
from types import MappingProxyType
from typing import Any, Final

import grpc
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from ariane_wire.server.host_places import HostPlaces
from ariane_wire.transport.peers import host_of

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SERVICE_UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN

LOOK_S: Final = 1.0
"""How often a watch looks whether a condition holds."""

WATCHES_MAX: Final = 1024
"""Watches of all clients at a time, of which one host may have three quarters: whoever reaches the
port may watch, and each costs some kilobytes."""

SERVICE_NAME = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name


class HealthServicer(health_pb2_grpc.HealthServicer):  # type: ignore[misc]  # It has no types.
    """Answers for the process (the empty name), for each service by its full name, and conditions.

    A method that a later version of the contract adds is answered with UNIMPLEMENTED.
    """

    def __init__(
        self,
        service_names: Iterable[str],
        conditions: Mapping[str, Callable[[], bool]] = MappingProxyType({}),
    ) -> None:
        """``conditions``: whether each holds now, by name, while the process serves."""
        self._conditions = conditions
        self._names = frozenset(("", *service_names, *conditions))
        self._serving = False
        self._closed = False
        self._changed = asyncio.Event()
        self._watches = HostPlaces(WATCHES_MAX)

    def add_to(self, server: aio.Server) -> None:
        """Register the service."""
        health_pb2_grpc.add_HealthServicer_to_server(self, server)

    def set_serving(self, serving: bool) -> None:
        """Change the answer for all names, and notify watchers."""
        self._serving = serving
        self._tell()

    def close(self) -> None:
        """Answer NOT_SERVING from now on and end all watches."""
        self._closed = True
        self.set_serving(False)

    async def Check(self, request: Any, context: aio.ServicerContext[Any, Any]) -> Any:  # noqa: N802 - gRPC's name
        """Answer once; NOT_FOUND for a name that is not served here."""
        if request.service not in self._names:
            await context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
        return health_pb2.HealthCheckResponse(status=self._status(request.service))

    async def List(self, _request: Any, _context: aio.ServicerContext[Any, Any]) -> Any:  # noqa: N802 - gRPC's name
        """Answer for all names at once; older versions of the contract do not have this method."""
        return health_pb2.HealthListResponse(
            statuses={
                name: health_pb2.HealthCheckResponse(status=self._status(name))
                for name in self._names
            }
        )

    async def Watch(  # noqa: N802 - gRPC's name
        self, request: Any, context: aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[Any]:
        """Answer now and with every change."""
        host = host_of(context.peer())
        if not self._watches.enter(host):
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many watch already")
        try:
            async with aclosing(self._answers(request)) as answers:
                async for answer in answers:
                    yield answer
        finally:
            self._watches.leave(host)

    async def _answers(self, request: Any) -> AsyncGenerator[Any, None]:
        last = None
        while True:
            # All three are read at one moment: after a close during the yield, its status follows.
            changed, closed = self._changed, self._closed
            status = self._status(request.service)
            if status != last:
                last = status
                yield health_pb2.HealthCheckResponse(status=status)
            if closed:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S if request.service in self._conditions else None):
                    await changed.wait()

    def _status(self, service_name: str) -> Any:
        if service_name not in self._names:
            return SERVICE_UNKNOWN
        holds = self._conditions.get(service_name)
        is_fine = self._serving and (holds is None or holds())
        return SERVING if is_fine else NOT_SERVING

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
