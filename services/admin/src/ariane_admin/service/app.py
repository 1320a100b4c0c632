"""The parts list of admin."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from google.protobuf.descriptor import FileDescriptor

from ariane.admin.v1 import alert_service_pb2 as alert_pb
from ariane.admin.v1 import audit_service_pb2 as audit_pb
from ariane.admin.v1 import client_service_pb2 as client_pb
from ariane.admin.v1 import cluster_service_pb2 as cluster_pb
from ariane.admin.v1 import console_service_pb2 as console_pb
from ariane.admin.v1 import dead_letter_service_pb2 as letter_pb
from ariane.admin.v1 import definition_service_pb2 as definition_pb
from ariane.admin.v1 import delayed_message_service_pb2 as delayed_pb
from ariane.admin.v1 import filter_service_pb2 as filter_pb
from ariane.admin.v1 import group_service_pb2 as group_pb
from ariane.admin.v1 import history_service_pb2 as history_pb
from ariane.admin.v1 import lag_service_pb2 as lag_pb
from ariane.admin.v1 import message_service_pb2 as message_pb
from ariane.admin.v1 import replica_set_service_pb2 as replica_set_pb
from ariane.admin.v1 import setting_service_pb2 as setting_pb
from ariane.admin.v1 import sink_service_pb2 as sink_pb
from ariane.admin.v1 import topic_service_pb2 as topic_pb
from ariane.admin.v1 import transaction_service_pb2 as transaction_pb
from ariane.admin.v1.alert_service_pb2_grpc import add_AlertServiceServicer_to_server
from ariane.admin.v1.audit_service_pb2_grpc import add_AuditServiceServicer_to_server
from ariane.admin.v1.client_service_pb2_grpc import add_ClientServiceServicer_to_server
from ariane.admin.v1.cluster_service_pb2_grpc import add_ClusterServiceServicer_to_server
from ariane.admin.v1.console_service_pb2_grpc import add_ConsoleServiceServicer_to_server
from ariane.admin.v1.dead_letter_service_pb2_grpc import add_DeadLetterServiceServicer_to_server
from ariane.admin.v1.definition_service_pb2_grpc import add_DefinitionServiceServicer_to_server
from ariane.admin.v1.delayed_message_service_pb2_grpc import (
    add_DelayedMessageServiceServicer_to_server,
)
from ariane.admin.v1.filter_service_pb2_grpc import add_FilterServiceServicer_to_server
from ariane.admin.v1.group_service_pb2_grpc import add_GroupServiceServicer_to_server
from ariane.admin.v1.history_service_pb2_grpc import add_HistoryServiceServicer_to_server
from ariane.admin.v1.lag_service_pb2_grpc import add_LagServiceServicer_to_server
from ariane.admin.v1.message_service_pb2_grpc import add_MessageServiceServicer_to_server
from ariane.admin.v1.replica_set_service_pb2_grpc import add_ReplicaSetServiceServicer_to_server
from ariane.admin.v1.setting_service_pb2_grpc import add_SettingServiceServicer_to_server
from ariane.admin.v1.sink_service_pb2_grpc import add_SinkServiceServicer_to_server
from ariane.admin.v1.topic_service_pb2_grpc import add_TopicServiceServicer_to_server
from ariane.admin.v1.transaction_service_pb2_grpc import add_TransactionServiceServicer_to_server
from ariane_admin.alerts.servicer import AlertServicer
from ariane_admin.alerts.store import AlertStore
from ariane_admin.alerts.watcher import Watcher
from ariane_admin.alerts.webhook import Webhook
from ariane_admin.audit.auditing import Auditing
from ariane_admin.audit.retention import INTERVAL_S, AuditRetention
from ariane_admin.audit.servicer import AuditServicer
from ariane_admin.audit.trail import AuditTrail
from ariane_admin.console.room import ConsoleRoom
from ariane_admin.console.servicer import ConsoleServicer
from ariane_admin.database import SCHEMA
from ariane_admin.history.sampler import Sampler, SamplingRules
from ariane_admin.history.servicer import HistoryServicer
from ariane_admin.history.store import SampleStore
from ariane_admin.service.settings import AdminSettings
from ariane_admin.servicers.clients import ClientServicer
from ariane_admin.servicers.cluster import ClusterServicer
from ariane_admin.servicers.cluster_access import ClusterAccess
from ariane_admin.servicers.definitions import DefinitionServicer
from ariane_admin.servicers.filters import FilterServicer
from ariane_admin.servicers.group.groups import GroupServicer
from ariane_admin.servicers.lags import LagServicer
from ariane_admin.servicers.message.dead_letters import DeadLetterServicer
from ariane_admin.servicers.message.delayed_messages import DelayedMessageServicer
from ariane_admin.servicers.message.messages import MessageServicer
from ariane_admin.servicers.public_errors import ADMIN_ERROR_RULES
from ariane_admin.servicers.rates import RateMemory
from ariane_admin.servicers.replica_sets import ReplicaSetServicer
from ariane_admin.servicers.settings import SettingServicer
from ariane_admin.servicers.sinks import SinkServicer
from ariane_admin.servicers.topics import TopicServicer
from ariane_admin.servicers.transactions import TransactionServicer
from ariane_admin.users.room import UserRoom
from ariane_admin.users.secret_seal import SecretSeal
from ariane_servicekit import (
    Address,
    ErrorTranslator,
    Loop,
    RpcService,
    StartRefused,
    StopRequest,
    SystemClock,
)
from ariane_servicekit.database import DATABASE_ERROR_RULES, Database, DatabaseError
from ariane_servicekit.security.gate.gate import Gate

REREAD_S: Final = 30.0
"""Seconds between two looks for name servers where sources name them."""


class AdminApp:
    """Admin: one database, clients to one cluster, a service for each kind of thing."""

    def __init__(self, settings: AdminSettings, _stop: StopRequest) -> None:
        clock = SystemClock()
        self._settings = settings
        self.error_rules = {**DATABASE_ERROR_RULES, **ADMIN_ERROR_RULES}
        self.open_while_draining: Collection[str] = ()
        try:
            self._database = Database(settings.url, SCHEMA, clock)
        except DatabaseError as error:
            raise StartRefused(str(error)) from error
        translator = ErrorTranslator(self.error_rules)
        self._cluster = ClusterAccess(",".join(settings.name_servers), translator)
        self._console = ConsoleRoom(settings, clock)
        trail = AuditTrail(self._database)
        samples, rates = SampleStore(self._database), RateMemory()
        self._finding = Loop(
            "name-servers", self._cluster.doors.find_name_servers, interval_s=REREAD_S, clock=clock
        )
        self._sampling = self._sampling_loop(samples, rates, clock)
        self._retaining = self._retention_loop(trail, clock)
        alerts = AlertStore(self._database)
        self._watching, self._alerting = self._alert_loops(alerts, clock)
        checkers = tuple(map(str, settings.checkers))
        self._settings_servicer = SettingServicer(self._cluster, checkers)
        audit = AuditServicer(trail, self._database)
        history = self._history_servicer(samples, clock)
        self._users = self._user_room(clock)
        auditing = Auditing(trail, self._database, translator, self._console.proof)
        alert_servicer = self._alert_servicer(alerts)
        one = self._cluster
        self.rpc_services: Sequence[RpcService] = [
            auditing.audited(_service(file, add, servicer))
            for file, add, servicer in (*self._users.services, _signing_in(self._console))
        ] + [
            auditing.audited(_service(module.DESCRIPTOR, add, servicer))
            for module, add, servicer in (
                (alert_pb, add_AlertServiceServicer_to_server, alert_servicer),
                (audit_pb, add_AuditServiceServicer_to_server, audit),
                (client_pb, add_ClientServiceServicer_to_server, ClientServicer(one)),
                (
                    cluster_pb,
                    add_ClusterServiceServicer_to_server,
                    ClusterServicer(one, rates, clock),
                ),
                (letter_pb, add_DeadLetterServiceServicer_to_server, DeadLetterServicer(one)),
                (definition_pb, add_DefinitionServiceServicer_to_server, DefinitionServicer(one)),
                (
                    delayed_pb,
                    add_DelayedMessageServiceServicer_to_server,
                    DelayedMessageServicer(one),
                ),
                (filter_pb, add_FilterServiceServicer_to_server, FilterServicer(one)),
                (group_pb, add_GroupServiceServicer_to_server, GroupServicer(one)),
                (history_pb, add_HistoryServiceServicer_to_server, history),
                (lag_pb, add_LagServiceServicer_to_server, LagServicer(one, clock)),
                (message_pb, add_MessageServiceServicer_to_server, MessageServicer(one)),
                (
                    replica_set_pb,
                    add_ReplicaSetServiceServicer_to_server,
                    ReplicaSetServicer(one),
                ),
                (setting_pb, add_SettingServiceServicer_to_server, self._settings_servicer),
                (sink_pb, add_SinkServiceServicer_to_server, SinkServicer(one)),
                (topic_pb, add_TopicServiceServicer_to_server, TopicServicer(one)),
                (
                    transaction_pb,
                    add_TransactionServiceServicer_to_server,
                    TransactionServicer(one, checkers),
                ),
            )
        ]

    @property
    def console_address(self) -> Address | None:
        """The address of the console; None if it is off or not bound yet."""
        return self._console.address

    def guarded_by(self, gate: Gate) -> None:
        """Let the console ask the gate who may be there."""
        self._console.guarded_by(gate)

    async def recover(self, address: Address) -> None:
        """Bring the database up to date, and make the clients ready."""
        # Admin tells itself the rules, too, and a wildcard is not an address to call.
        own = Address("127.0.0.1", address.port) if address.is_wildcard else address
        self._settings_servicer.listens_on(str(own))
        self._console.bind()
        if self._settings.data_path is not None:
            self._settings.data_path.mkdir(parents=True, exist_ok=True)
        try:
            await self._database.open(wait_s=self._settings.database_wait_s)
        except DatabaseError as error:
            raise StartRefused(str(error)) from error
        await self._database.call(self._users.credentials.check_seal)
        await self._cluster.start()

    async def serve_started(self, address: Address) -> None:
        """Start sampling, and the console."""
        self._finding.start()
        self._sampling.start(at_once=True)
        self._retaining.start(at_once=True)
        self._users.publisher.start()
        self._watching.start(at_once=True)
        self._alerting.start()
        await self._console.start(address, self._cluster.names)

    async def drain(self) -> None:
        """Close the console: its pages make calls of their own. End streams to gateways."""
        self._users.publisher.close()
        await self._console.close()

    async def stop(self) -> None:
        """Stop sampling, end connections, close the database."""
        await self._console.stop()
        await self._users.publisher.stop()
        await self._finding.stop()
        await self._sampling.stop()
        await self._retaining.stop()
        await self._watching.stop()
        await self._alerting.stop()
        await self._cluster.close()
        self._database.close()

    def _user_room(self, clock: SystemClock) -> UserRoom:
        key_file = self._settings.secret_key_file
        return UserRoom(
            self._database,
            self._settings_servicer.addresses,
            clock,
            cluster=self._cluster,
            seal=None if key_file is None else SecretSeal(key_file),
            insecure=self._settings.insecure,
        )

    def _history_servicer(self, samples: SampleStore, clock: SystemClock) -> HistoryServicer:
        interval_ms = round(self._settings.sample_interval_s * 1000)
        return HistoryServicer(samples, self._database, clock, interval_ms=interval_ms)

    def _alert_servicer(self, alerts: AlertStore) -> AlertServicer:
        return AlertServicer(
            alerts,
            self._database,
            thresholds=self._settings.alert_thresholds,
            patience_s=self._settings.alert_patience_s,
            webhook=self._settings.alert_webhook is not None,
        )

    def _alert_loops(self, alerts: AlertStore, clock: SystemClock) -> tuple[Loop, Loop]:
        """Two loops: one compares figures with bounds, one sends alerts to the webhook."""
        settings, hook = self._settings, self._settings.alert_webhook
        watcher = Watcher(
            self._cluster,
            alerts,
            self._database,
            clock,
            thresholds=settings.alert_thresholds,
            patience_s=settings.alert_patience_s,
            webhook=None if hook is None else Webhook(hook.get_secret_value()),
        )
        interval_s = settings.alert_interval_s
        notifying = Loop("webhook", watcher.notify, interval_s=interval_s, clock=clock)

        async def look() -> None:
            await watcher.look()
            notifying.wake()

        return Loop("alerts", look, interval_s=interval_s, clock=clock), notifying

    def _retention_loop(self, trail: AuditTrail, clock: SystemClock) -> Loop:
        retention = AuditRetention(
            trail,
            self._database,
            keep_s=self._settings.keep_audit_s,
            keep_at_least_s=self._settings.keep_audit_at_least_s,
            records_max=self._settings.audit_records_max,
        )
        return Loop("audit-retention", retention.look, interval_s=INTERVAL_S, clock=clock)

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


def _signing_in(console: ConsoleRoom) -> tuple[FileDescriptor, Callable[[Any, Any], None], object]:
    return console_pb.DESCRIPTOR, add_ConsoleServiceServicer_to_server, ConsoleServicer(console)


def _service(file: FileDescriptor, add: Callable[[Any, Any], None], servicer: object) -> RpcService:
    """A service of the contract, the only one of its file."""
    [descriptor] = file.services_by_name.values()
    return RpcService(descriptor, add, servicer)
