"""The parts list of admin."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence

from ariane.admin.v1 import (
    audit_service_pb2,
    audit_service_pb2_grpc,
    cluster_service_pb2,
    cluster_service_pb2_grpc,
    history_service_pb2,
    history_service_pb2_grpc,
    topic_service_pb2,
    topic_service_pb2_grpc,
)
from ariane_admin.audit.auditing import Auditing
from ariane_admin.audit.trail import AuditTrail
from ariane_admin.database import SCHEMA
from ariane_admin.history.sampler import Sampler, SamplingRules
from ariane_admin.history.samples import RateMemory
from ariane_admin.history.store import SampleStore
from ariane_admin.service.cluster_access import ClusterAccess
from ariane_admin.service.public_errors import ADMIN_ERROR_RULES
from ariane_admin.service.servicers.audit import AuditServicer
from ariane_admin.service.servicers.cluster import ClusterServicer
from ariane_admin.service.servicers.history import HistoryServicer
from ariane_admin.service.servicers.topics import TopicServicer
from ariane_admin.service.settings import AdminSettings
from ariane_servicekit import (
    Address,
    ErrorTranslator,
    Loop,
    RpcService,
    StartRefused,
    StopRequest,
    SystemClock,
)
from ariane_servicekit.database import Database, DatabaseError


class AdminApp:
    """Admin: one database, clients to one cluster, a service for each kind of thing."""

    def __init__(self, settings: AdminSettings, _stop: StopRequest) -> None:
        clock = SystemClock()
        self._settings = settings
        self.error_rules = ADMIN_ERROR_RULES
        self.open_while_draining: Collection[str] = ()
        try:
            self._database = Database(settings.url, SCHEMA, clock)
        except DatabaseError as error:
            raise StartRefused(str(error)) from error
        translator = ErrorTranslator(self.error_rules)
        self._cluster = ClusterAccess(",".join(map(str, settings.name_servers)), translator)
        self._console_pass = secrets.token_hex(32)
        trail = AuditTrail(self._database)
        samples = SampleStore(self._database)
        rates = RateMemory()
        self._sampling = self._sampling_loop(samples, rates, clock)
        auditing = Auditing(trail, self._database, translator, self._console_pass)
        self.rpc_services: Sequence[RpcService] = [
            auditing.audited(each)
            for each in (
                RpcService(
                    audit_service_pb2.DESCRIPTOR.services_by_name["AuditService"],
                    audit_service_pb2_grpc.add_AuditServiceServicer_to_server,
                    AuditServicer(trail, self._database),
                ),
                RpcService(
                    cluster_service_pb2.DESCRIPTOR.services_by_name["ClusterService"],
                    cluster_service_pb2_grpc.add_ClusterServiceServicer_to_server,
                    ClusterServicer(self._cluster, rates, clock),
                ),
                RpcService(
                    history_service_pb2.DESCRIPTOR.services_by_name["HistoryService"],
                    history_service_pb2_grpc.add_HistoryServiceServicer_to_server,
                    HistoryServicer(
                        samples,
                        self._database,
                        clock,
                        interval_ms=round(settings.sample_interval_s * 1000),
                    ),
                ),
                RpcService(
                    topic_service_pb2.DESCRIPTOR.services_by_name["TopicService"],
                    topic_service_pb2_grpc.add_TopicServiceServicer_to_server,
                    TopicServicer(self._cluster),
                ),
            )
        ]

    async def recover(self, _address: Address) -> None:
        """Bring the database up to date, and make the clients ready."""
        if self._settings.data_path is not None:
            self._settings.data_path.mkdir(parents=True, exist_ok=True)
        try:
            await self._database.open(wait_s=self._settings.database_wait_s)
        except DatabaseError as error:
            raise StartRefused(str(error)) from error
        await self._cluster.start()

    async def serve_started(self, _address: Address) -> None:
        """Begin to sample."""
        self._sampling.start(at_once=True)

    async def drain(self) -> None:
        """Nothing is held: calls in work end by themselves."""

    async def stop(self) -> None:
        """Stop sampling, end connections, let the database go."""
        await self._sampling.stop()
        await self._cluster.close()
        self._database.close()

    def _sampling_loop(self, samples: SampleStore, rates: RateMemory, clock: SystemClock) -> Loop:
        settings = self._settings
        rules = SamplingRules(
            settings.sample_interval_s, settings.keep_samples_s, settings.sampled_groups_max
        )
        sampler = Sampler(
            self._cluster.doors,
            store=samples,
            database=self._database,
            rates=rates,
            rules=rules,
            clock=clock,
        )
        return Loop("samples", sampler.look, interval_s=rules.interval_s, clock=clock)
