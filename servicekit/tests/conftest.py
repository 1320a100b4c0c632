from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RequestInfo, RetryInfo
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status

from ariane.broker.v1 import client_service_pb2, client_service_pb2_grpc
from ariane.namesrv.v1 import route_service_pb2, route_service_pb2_grpc
from ariane_servicekit import Address, Machine, RpcService, ServiceSettings, serving

DETAIL_TYPES = (ErrorInfo, RetryInfo, BadRequest, RequestInfo)


class ProbeSettings(ServiceSettings):
    """A service for tests of the kit."""

    service_name: ClassVar[str] = "probe"


class ProbeApp:
    """Serves two services of the contract with methods that the test supplies by name."""

    def __init__(self) -> None:
        self.methods: dict[str, Any] = {}
        self.steps: list[str] = []
        self.error_rules: dict[Any, Any] = {}
        self.open_while_draining: tuple[str, ...] = ()
        self.recovering = asyncio.Event()
        self.go_on_recovering = asyncio.Event()
        self.go_on_recovering.set()
        self.draining = asyncio.Event()
        self.go_on_draining = asyncio.Event()
        self.go_on_draining.set()

    @property
    def rpc_services(self) -> tuple[RpcService, ...]:
        route = route_service_pb2.DESCRIPTOR.services_by_name["RouteService"]
        client = client_service_pb2.DESCRIPTOR.services_by_name["ClientService"]
        return (
            RpcService(
                route,
                route_service_pb2_grpc.add_RouteServiceServicer_to_server,
                self._servicer(route_service_pb2_grpc.RouteServiceServicer),
            ),
            RpcService(
                client,
                client_service_pb2_grpc.add_ClientServiceServicer_to_server,
                self._servicer(client_service_pb2_grpc.ClientServiceServicer),
            ),
        )

    def _servicer(self, generated: type) -> Any:
        own = {name: method for name, method in self.methods.items() if hasattr(generated, name)}
        wrapped = {name: staticmethod(method) for name, method in own.items()}
        return type("Probe", (generated,), wrapped)()

    async def recover(self, address: Address) -> None:
        self.steps.append("recover")
        self.recovering.set()
        await self.go_on_recovering.wait()

    async def serve_started(self, _address: Address) -> None:
        self.steps.append("serve_started")

    async def drain(self) -> None:
        self.steps.append("drain")
        self.draining.set()
        await self.go_on_draining.wait()

    async def stop(self) -> None:
        self.steps.append("stop")


class Probe:
    """A served ProbeApp with a channel and stubs to it."""

    def __init__(self, address: Address, channel: grpc.aio.Channel) -> None:
        self.address = address
        self.channel = channel
        self.route = route_service_pb2_grpc.RouteServiceStub(channel)
        self.client = client_service_pb2_grpc.ClientServiceStub(channel)


@pytest.fixture
def probe_app() -> ProbeApp:
    return ProbeApp()


@pytest.fixture
def serve():
    @asynccontextmanager
    async def serve(
        app: ProbeApp, machine: Machine | None = None, **settings: Any
    ) -> AsyncIterator[Probe]:
        async with (
            serving(ProbeSettings(**settings), lambda _settings, _stop: app, machine) as address,
            grpc.aio.insecure_channel(str(address)) as channel,
        ):
            yield Probe(address, channel)

    return serve


@pytest.fixture
def details_of():
    """Unpack a status or a failed call into {detail type: [details]}."""

    def details_of(failure: Status | grpc.aio.AioRpcError) -> dict[type, list[Any]]:
        status = failure if isinstance(failure, Status) else rpc_status.from_call(failure)
        assert status is not None, "no google.rpc.Status"
        return {kind: _unpacked(status.details, kind) for kind in DETAIL_TYPES}

    return details_of


def _unpacked(details: list[AnyMessage], kind: type) -> list[Any]:
    found = []
    for detail in details:
        message = kind()
        if detail.Unpack(message):
            found.append(message)
    return found
