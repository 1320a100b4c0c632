"""The parts list of a name server."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ariane.namesrv.v1 import (
    maintenance_service_pb2,
    maintenance_service_pb2_grpc,
    registration_service_pb2,
    registration_service_pb2_grpc,
    route_service_pb2,
    route_service_pb2_grpc,
)
from ariane_namesrv.maintenance_servicer import MaintenanceServicer
from ariane_namesrv.operator_state import OperatorState
from ariane_namesrv.refused_brokers import RefusedBrokers
from ariane_namesrv.registration_servicer import RegistrationServicer
from ariane_namesrv.route_servicer import RouteServicer
from ariane_namesrv.route_table import RouteTable
from ariane_namesrv.settings import NamesrvSettings
from ariane_namesrv.warm_up import WarmUp
from ariane_servicekit import (
    Address,
    Clock,
    ErrorRules,
    Loop,
    RpcService,
    StopRequest,
    SystemClock,
)
from ariane_servicekit.observability.measures import Measures, one
from ariane_servicekit.rpc.error_status import NO_RULES


class NamesrvApp:
    """A name server: one route table, operators' state, one loop, three services."""

    def __init__(
        self, settings: NamesrvSettings, _stop: StopRequest, clock: Clock | None = None
    ) -> None:
        clock = clock or SystemClock()
        self.table = RouteTable(clock, brokers_max=settings.brokers_max)
        refused = self._refused = RefusedBrokers(clock)
        self._warm_up = WarmUp(clock, settings.warm_up_s)
        self._operator = OperatorState(
            settings.data_path,
            key_values_bytes_max=settings.key_values_bytes_max,
            show_wiped=self.table.replace_wiped,
        )
        self._expiry = Loop(
            "broker-expiry", self._expire, interval_s=settings.scan_interval_s, clock=clock
        )
        self.error_rules: ErrorRules = NO_RULES
        # Brokers that stop at the same time still unregister.
        self.open_while_draining: Collection[str] = (
            "/ariane.namesrv.v1.RegistrationService/UnregisterBroker",
        )
        self.rpc_services: Sequence[RpcService] = (
            RpcService(
                registration_service_pb2.DESCRIPTOR.services_by_name["RegistrationService"],
                registration_service_pb2_grpc.add_RegistrationServiceServicer_to_server,
                RegistrationServicer(self.table, refused, settings),
            ),
            RpcService(
                route_service_pb2.DESCRIPTOR.services_by_name["RouteService"],
                route_service_pb2_grpc.add_RouteServiceServicer_to_server,
                RouteServicer(
                    self.table, refused, self._operator, is_warming_up=self._warm_up.lasts
                ),
            ),
            RpcService(
                maintenance_service_pb2.DESCRIPTOR.services_by_name["MaintenanceService"],
                maintenance_service_pb2_grpc.add_MaintenanceServiceServicer_to_server,
                MaintenanceServicer(self.table, self._operator),
            ),
        )

    def measure(self, measures: Measures) -> None:
        """Make the instruments of the name server."""
        for name, unit, description, read in (
            (
                "ariane.namesrv.brokers",
                "{broker}",
                "Brokers that are registered.",
                lambda: one(len(self.table.brokers())),
            ),
            (
                "ariane.namesrv.topics",
                "{topic}",
                "Topics in routes.",
                lambda: one(len(self.table.topics())),
            ),
            (
                "ariane.namesrv.brokers.refused",
                "{broker}",
                "Brokers that were refused within the last minutes.",
                lambda: one(len(self._refused.all())),
            ),
            (
                "ariane.namesrv.warming_up",
                "1",
                "1 while brokers may be missing because the name server has just started.",
                lambda: one(int(self._warm_up.lasts())),
            ),
        ):
            measures.gauge(name, unit, description, read)

    async def recover(self, address: Address) -> None:  # noqa: ARG002 - same for all services
        """Load operators' state. Routes come from the brokers by themselves."""
        await self._operator.open()

    async def serve_started(self, _address: Address) -> None:
        """Begin to expire silent brokers, and to count the warm-up."""
        self._warm_up.begin()
        self._expiry.start()

    async def drain(self) -> None:
        """Do nothing: clients go to another name server."""

    async def stop(self) -> None:
        """Stop the loop, then release the folder."""
        await self._expiry.stop()
        self._operator.close()

    async def _expire(self) -> None:
        self.table.expire()
