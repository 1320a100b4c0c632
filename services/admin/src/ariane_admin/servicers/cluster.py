"""``ClusterService``: clusters, name servers and brokers, and findings about them."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from google.protobuf.duration_pb2 import Duration
from grpc import aio

from ariane.admin.v1 import cluster_service_pb2 as cluster_pb
from ariane.admin.v1.cluster_service_pb2_grpc import ClusterServiceServicer
from ariane.broker.v1.broker_service_pb2 import CleanBrokerRequest
from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane.common.v1.process_service_pb2 import GetProcessStateRequest
from ariane.namesrv.v1.route_pb2 import BrokerLiveness
from ariane_admin.asking.absent_brokers import away_brokers
from ariane_admin.asking.broker_readings import broker_state
from ariane_admin.asking.changing import broker_maintenance
from ariane_admin.asking.changing.broker_forgetting import forget
from ariane_admin.asking.cluster_doors import CALL_SECONDS_MAX, PRIMARY_ID, answer_from, changed_at
from ariane_admin.doctor.cluster_facts import gather_facts
from ariane_admin.doctor.diagnosis import diagnose
from ariane_admin.doctor.findings import Severity
from ariane_admin.servicers.cluster_access import ClusterAccess
from ariane_admin.servicers.rates import RateMemory, Rates
from ariane_admin.times import timestamp_of
from ariane_record.names import is_system_group, is_system_topic
from ariane_sdk import LiveBroker, QueueLag
from ariane_sdk.errors import CallError, NameServersUnreachable
from ariane_servicekit import Clock, ServiceError, field_invalid

_Context = aio.ServicerContext[Any, Any]

FINDINGS_MAX: Final = 1000

_SEVERITIES: Final = {
    Severity.ERROR: cluster_pb.DIAGNOSIS_SEVERITY_ERROR,
    Severity.WARNING: cluster_pb.DIAGNOSIS_SEVERITY_WARNING,
    Severity.NOTE: cluster_pb.DIAGNOSIS_SEVERITY_NOTE,
}


class ClusterServicer(ClusterServiceServicer):
    """Gathers the answers of name servers and brokers."""

    def __init__(self, cluster: ClusterAccess, rates: RateMemory, clock: Clock) -> None:
        self._cluster = cluster
        self._doors = cluster.doors
        self._rates = rates
        self._clock = clock

    async def ListClusters(
        self, request: cluster_pb.ListClustersRequest, context: _Context
    ) -> cluster_pb.ListClustersResponse:
        """List clusters with their sums."""
        brokers = await self._brokers("")
        topics = await self._doors.client.list_topics(include_system=True)
        by_cluster: dict[str, list[cluster_pb.ClusterBroker]] = defaultdict(list)
        for broker in brokers:
            by_cluster[broker.liveness.identity.cluster_name].append(broker)
        page = self._cluster.page(
            sorted(by_cluster),
            lambda name: (name,),
            request,
            scope="clusters",
        )
        answers = await asyncio.gather(
            *(self._sums(name, by_cluster[name], topics) for name in page.entries)
        )
        return cluster_pb.ListClustersResponse(
            clusters=answers, next_page_token=page.next_page_token
        )

    async def ListNameServers(
        self, request: cluster_pb.ListNameServersRequest, context: _Context
    ) -> cluster_pb.ListNameServersResponse:
        """List name servers with the brokers that each knows."""
        page = self._cluster.page(
            sorted(set(self._doors.name_servers)),
            lambda address: (address,),
            request,
            scope="name-servers",
        )
        found = await asyncio.gather(*map(self._name_server, page.entries))
        return cluster_pb.ListNameServersResponse(
            name_servers=found, next_page_token=page.next_page_token
        )

    async def ListBrokers(
        self, request: cluster_pb.ListBrokersRequest, context: _Context
    ) -> cluster_pb.ListBrokersResponse:
        """List brokers with their state."""
        liveness, away = await asyncio.gather(
            self._liveness(request.cluster_name),
            away_brokers(
                self._doors, seconds_max=CALL_SECONDS_MAX, cluster_name=request.cluster_name
            ),
        )
        page = self._cluster.page(
            sorted(liveness, key=_place),
            _place,
            request,
            scope=f"brokers:{request.cluster_name}",
        )
        found = await asyncio.gather(*map(self._broker, page.entries))
        alive = {one.identity.broker_name for one in liveness}
        return cluster_pb.ListBrokersResponse(
            brokers=found,
            next_page_token=page.next_page_token,
            away_brokers=(one for one in away if one.broker_name not in alive),
        )

    async def GetBroker(
        self, request: cluster_pb.GetBrokerRequest, context: _Context
    ) -> cluster_pb.GetBrokerResponse:
        """Read one broker."""
        for one in await self._liveness(request.cluster_name):
            identity = one.identity
            if (identity.broker_name, identity.broker_id) == (
                request.broker_name,
                request.broker_id,
            ):
                return cluster_pb.GetBrokerResponse(broker=await self._broker(one))
        raise ServiceError(
            ErrorReason.ERROR_REASON_BROKER_NOT_REGISTERED,
            f"no broker {request.broker_name!r} with id {request.broker_id} is registered",
            {"broker_name": request.broker_name, "broker_id": request.broker_id},
        )

    async def DrainBroker(
        self, request: cluster_pb.DrainBrokerRequest, context: _Context
    ) -> cluster_pb.DrainBrokerResponse:
        """Drain a broker."""
        broker = await self._primary(request.broker_name, request.cluster_name)
        done = await broker_maintenance.drain(self._doors, broker)
        return cluster_pb.DrainBrokerResponse(
            writable=done.broker_writable,
            topic_count=done.topic_count,
            name_server_failures=done.name_server_failures,
        )

    async def RestoreBroker(
        self, request: cluster_pb.RestoreBrokerRequest, context: _Context
    ) -> cluster_pb.RestoreBrokerResponse:
        """Restore a drained broker."""
        broker = await self._primary(request.broker_name, request.cluster_name)
        done = await broker_maintenance.restore(self._doors, broker)
        return cluster_pb.RestoreBrokerResponse(
            writable=done.broker_writable,
            topic_count=done.topic_count,
            name_server_failures=done.name_server_failures,
        )

    async def CleanBroker(
        self, request: cluster_pb.CleanBrokerRequest, context: _Context
    ) -> cluster_pb.CleanBrokerResponse:
        """Delete old segments of a broker."""
        broker = await self._primary(request.broker_name, request.cluster_name)
        asked = CleanBrokerRequest(validate_only=request.validate_only)
        cleaned = await changed_at(broker, self._doors.brokers(broker.address).CleanBroker, asked)
        return cluster_pb.CleanBrokerResponse(cleaned=cleaned)

    async def ForgetBroker(
        self, request: cluster_pb.ForgetBrokerRequest, context: _Context
    ) -> cluster_pb.ForgetBrokerResponse:
        """Forget a broker that does not come back."""
        if not request.broker_name:
            raise field_invalid("broker_name", "is required")
        done = await forget(
            self._doors,
            request.broker_name,
            cluster_name=request.cluster_name,
            validate_only=request.validate_only,
        )
        return cluster_pb.ForgetBrokerResponse(
            topic_count=done.topic_count,
            leave_time=timestamp_of(done.left),
            name_server_failures=done.name_server_failures,
        )

    async def DiagnoseCluster(
        self, request: cluster_pb.DiagnoseClusterRequest, context: _Context
    ) -> cluster_pb.DiagnoseClusterResponse:
        """Diagnose the cluster."""
        facts = await gather_facts(self._doors, now=lambda: self._clock.now_ms() / 1000)
        findings = [
            cluster_pb.DiagnosisFinding(
                severity=_SEVERITIES[one.severity],
                subject=one.subject,
                finding=one.finding,
                advice=one.advice,
            )
            for one in diagnose(facts)[:FINDINGS_MAX]
        ]
        return cluster_pb.DiagnoseClusterResponse(
            findings=findings,
            name_server_count=len(facts.name_servers),
            broker_count=len(facts.brokers),
        )

    async def before(self, method: str, request: Any) -> cluster_pb.ClusterBroker | None:
        """The broker as it is before it is changed."""
        asked = cluster_pb.GetBrokerRequest(
            cluster_name=request.cluster_name, broker_name=request.broker_name
        )
        for one in await self._liveness(asked.cluster_name):
            if one.identity.broker_name == asked.broker_name and not one.identity.broker_id:
                found = await self._broker(one)
                return cluster_pb.ClusterBroker(liveness=found.liveness, writable=found.writable)
        return None

    async def _primary(self, broker_name: str, cluster_name: str) -> LiveBroker:
        [broker] = await self._doors.primaries([broker_name], cluster_name=cluster_name)
        return broker

    async def _sums(
        self, name: str, brokers: Sequence[cluster_pb.ClusterBroker], topics: Sequence[str]
    ) -> cluster_pb.Cluster:
        answers = await self._cluster.answers(cluster_name=name)
        client = self._doors.client

        async def at(broker: LiveBroker) -> tuple[list[str], list[QueueLag]]:
            only = [broker.broker_name]
            groups = await client.list_groups(include_system=True, broker_names=only)
            return groups, await client.consumer_lag(broker_names=only)

        answer = await answers.ask(at, nobody_ok=True)
        groups = {group for found, _ in answer for group in found if not is_system_group(group)}
        rates = [self._rates.of(each.liveness.identity.broker_name) for each in brokers]
        return cluster_pb.Cluster(
            cluster_name=name,
            broker_count=len(brokers),
            silent_broker_count=sum(each.HasField("error") for each in brokers),
            topic_count=sum(not is_system_topic(topic) for topic in topics),
            consumer_group_count=len(groups),
            client_count=max((each.client_count for each in brokers), default=0),
            throughput=_throughput(*(each for each in rates if each is not None)),
            lag_message_count=sum(lag.message_count for _, lags in answer for lag in lags),
            silent_brokers=self._cluster.silent(answers),
        )

    async def _brokers(self, cluster_name: str) -> list[cluster_pb.ClusterBroker]:
        return await asyncio.gather(*map(self._broker, await self._liveness(cluster_name)))

    async def _broker(self, liveness: BrokerLiveness) -> cluster_pb.ClusterBroker:
        identity = liveness.identity
        found = cluster_pb.ClusterBroker(liveness=liveness)
        try:
            state = await broker_state(self._doors, identity)
        except CallError as error:
            found.error.CopyFrom(self._cluster.translator.status(error))
            return found
        found.version = state.version
        found.writable = state.writable
        found.store.CopyFrom(state.store)
        found.client_count = state.statistics.client_count
        found.state.CopyFrom(state)
        rates = self._rates.of(identity.broker_name) if identity.broker_id == PRIMARY_ID else None
        if rates is not None:
            found.throughput.CopyFrom(_throughput(rates))
        return found

    async def _liveness(self, cluster_name: str) -> list[BrokerLiveness]:
        """The brokers in name servers; each entry is from the first name server that has it.

        ``write_wiped`` is true if any of them keeps the write permission back: one that was away
        has missed the drain.
        """
        answers = await asyncio.gather(
            *(self._doors.known_to(address) for address in self._doors.name_servers),
            return_exceptions=True,
        )
        known: dict[tuple[str, str, int], BrokerLiveness] = {}
        failures: list[CallError] = []
        for answer in answers:
            if isinstance(answer, CallError):
                failures.append(answer)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                for one in answer:
                    found = known.setdefault(_place(one), one)
                    found.write_wiped = found.write_wiped or one.write_wiped
        if failures and len(failures) == len(answers):
            raise NameServersUnreachable(f"no name server answered: {failures[0]}")
        return [
            known[place]
            for place in sorted(known)
            if cluster_name in {"", known[place].identity.cluster_name}
        ]

    async def _name_server(self, address: str) -> cluster_pb.NameServer:
        began_s = self._clock.monotonic()
        try:
            brokers, answer = await asyncio.gather(
                self._doors.known_to(address),
                answer_from(
                    f"name server {address}",
                    self._doors.processes(address).GetProcessState,
                    GetProcessStateRequest(),
                ),
            )
        except CallError as error:
            return cluster_pb.NameServer(
                address=address, error=self._cluster.translator.status(error)
            )
        took = Duration()
        took.FromMilliseconds(round((self._clock.monotonic() - began_s) * 1000))
        return cluster_pb.NameServer(
            address=address,
            broker_count=len(brokers),
            topic_count=max((each.topic_count for each in brokers), default=0),
            answer_duration=took,
            incarnation=answer.state.incarnation,
        )


def _place(liveness: BrokerLiveness) -> tuple[str, str, int]:
    identity = liveness.identity
    return identity.cluster_name, identity.broker_name, identity.broker_id


def _throughput(*rates: Rates) -> cluster_pb.Throughput:
    return cluster_pb.Throughput(
        stored_messages_per_second=sum(each.stored_messages for each in rates),
        stored_bytes_per_second=sum(each.stored_bytes for each in rates),
        pulled_messages_per_second=sum(each.pulled_messages for each in rates),
        pulled_bytes_per_second=sum(each.pulled_bytes for each in rates),
    )
