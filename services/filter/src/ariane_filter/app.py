"""The parts list of a FilterServer.

::

    rpc         pulls, catalogue and state on the wire
    pulling     pulls from the broker, and lets filters judge the messages
    running     a worker for each version that groups ask for
    catalogue   the folder of modules
    jail        the worker processes, and their confinement
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from secrets import token_hex
from typing import Final

from ariane.broker.v1 import pull_service_pb2, pull_service_pb2_grpc
from ariane.filter.v1 import (
    filter_server_service_pb2,
    filter_server_service_pb2_grpc,
    filter_service_pb2,
    filter_service_pb2_grpc,
)
from ariane_filter.catalogue.catalogue import Catalogue
from ariane_filter.catalogue.folder import Folder
from ariane_filter.catalogue_copies import COPY_INTERVAL_S, CatalogueCopies
from ariane_filter.jail.process import JailLauncher
from ariane_filter.pulling.broker_link import BrokerLink
from ariane_filter.pulling.filtered_pulls import FilteredPulls
from ariane_filter.pulling.sibling_servers import SiblingServers
from ariane_filter.refusals import ERROR_RULES
from ariane_filter.rpc.filter_server_servicer import FilterServerServicer
from ariane_filter.rpc.filter_servicer import FilterServicer
from ariane_filter.rpc.known_changers import for_known_changers
from ariane_filter.rpc.pull_servicer import FilteredPullServicer
from ariane_filter.running.running_filters import RunningFilters
from ariane_filter.settings import FilterSettings
from ariane_filter.trials import FilterTrials
from ariane_servicekit import (
    Address,
    AnswerBudget,
    Clock,
    ErrorRules,
    Loop,
    RpcService,
    StopRequest,
    SystemClock,
)

WORKERS_INTERVAL_S: Final = 1.0
"""Seconds between searches for idle workers."""


class FilterApp:
    """A FilterServer: one catalogue, one broker, workers, three services."""

    def __init__(
        self, settings: FilterSettings, _stop: StopRequest, clock: Clock | None = None
    ) -> None:
        clock = clock or SystemClock()
        launch = JailLauncher()
        self._advertised = settings.advertised_address
        self._address = settings.listen
        self._catalogue = Catalogue(Folder(settings.data_path), filters_max=settings.filters_max)
        self._link = BrokerLink(settings.broker, clock, incarnation=token_hex(8))
        self._running = RunningFilters(
            self._catalogue,
            clock,
            launch=launch,
            limits=settings.limits,
            workers_max=settings.workers_max,
            idle_s=settings.worker_idle_s,
        )
        answers = AnswerBudget(settings.answer_bytes_max)
        self._pulls = FilteredPulls(self._link, self._running, answers)
        self._idle = Loop(
            "filter-workers", self._running.end_unused, interval_s=WORKERS_INTERVAL_S, clock=clock
        )
        self._copying = Loop(
            "catalogue-copies",
            CatalogueCopies(self._link, self._catalogue).copy,
            interval_s=COPY_INTERVAL_S,
            clock=clock,
        )
        trials = FilterTrials(
            self._link,
            launch=launch,
            limits=settings.limits,
            uploads=settings.uploads,
            monotonic=clock.monotonic,
        )
        self.error_rules: ErrorRules = ERROR_RULES
        self.open_while_draining: Collection[str] = ()
        self.rpc_services: Sequence[RpcService] = (
            RpcService(
                pull_service_pb2.DESCRIPTOR.services_by_name["PullService"],
                pull_service_pb2_grpc.add_PullServiceServicer_to_server,
                FilteredPullServicer(self._pulls, answers),
            ),
            for_known_changers(
                RpcService(
                    filter_service_pb2.DESCRIPTOR.services_by_name["FilterService"],
                    filter_service_pb2_grpc.add_FilterServiceServicer_to_server,
                    FilterServicer(
                        self._catalogue, self._running, trials, SiblingServers(self._link)
                    ),
                )
            ),
            RpcService(
                filter_server_service_pb2.DESCRIPTOR.services_by_name["FilterServerService"],
                filter_server_service_pb2_grpc.add_FilterServerServiceServicer_to_server,
                FilterServerServicer(
                    self._link,
                    self._running,
                    address=lambda: str(self._advertised or self._address),
                    uploads=settings.uploads,
                ),
            ),
        )

    async def recover(self, _address: Address) -> None:
        """Open the catalogue, and connect to the broker, which may start later."""
        self._catalogue.open()
        self._link.connect()

    async def serve_started(self, address: Address) -> None:
        """Register in the broker's routes."""
        self._address = address
        self._idle.start()
        self._copying.start()
        self._link.announce(self._advertised or address)

    async def drain(self) -> None:
        """Leave the routes, and send consumers to another FilterServer."""
        await self._link.unregister()
        self._pulls.close()

    async def stop(self) -> None:
        """End workers and the connection."""
        await self._idle.stop()
        await self._copying.stop()
        await self._running.close()
        await self._link.close()
