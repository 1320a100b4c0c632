"""The facts of a cluster for the doctor, from all processes at the same time.

An error is a fact here: the failure of one process does not hide the facts of another.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ariane.broker.v1.broker_service_pb2 import GetBrokerStateResponse
from ariane.broker.v1.client_service_pb2 import (
    ListSubscriptionConflictsRequest,
    SubscriptionConflict,
)
from ariane.broker.v1.group_service_pb2 import ListConsumerGroupsRequest
from ariane.common.v1.process_service_pb2 import GetProcessStateRequest, ProcessState
from ariane.namesrv.v1.route_pb2 import AwayBroker, BrokerIdentity, BrokerLiveness, RefusedBroker
from ariane.namesrv.v1.route_service_pb2 import ListBrokersRequest
from ariane.replication.v1.replica_set_service_pb2 import (
    GetReplicaSetResponse,
)
from ariane_admin.asking.absent_brokers import queue_orders
from ariane_admin.asking.broker_readings import broker_state, replica_set_of
from ariane_admin.asking.cluster_doors import (
    CALL_SECONDS_MAX,
    PAGE_SIZE,
    PRIMARY_ID,
    ClusterDoors,
    all_pages,
    answer_from,
)
from ariane_admin.doctor.gateway_facts import GatewayFacts, ask_gateways
from ariane_admin.doctor.member_facts import MemberFacts, ask_members, attached_clients
from ariane_sdk import QueueLag
from ariane_sdk.errors import CallError


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """The state of a process, and its clock."""

    state: ProcessState
    ahead_s: float
    """How far its clock is ahead of the local one, in seconds."""

    unsure_s: float
    """The largest error of ``ahead_s``: half of the duration of the call."""


@dataclass(frozen=True, slots=True)
class NameServerFacts:
    """A name server from the command line or the settings."""

    address: str
    error: str = ""
    """Its fault; empty if it answered as a name server."""

    process: ProcessFacts | None = None
    brokers: Sequence[BrokerLiveness] = ()
    refused: Sequence[RefusedBroker] = ()
    """Brokers whose registration it has refused lately."""

    warming_up: bool = False
    orders: Mapping[str, str] = field(default_factory=dict)
    """Its orders of queues, by topic."""

    away: Sequence[AwayBroker] = ()
    """Brokers that have left and that it names as away."""


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """A broker at an address from a name server."""

    identity: BrokerIdentity
    """Its identity in the name server."""

    error: str = ""
    """Why it did not answer; empty if it did."""

    process: ProcessFacts | None = None
    state: GetBrokerStateResponse | None = None
    conflicts: Sequence[SubscriptionConflict] = ()
    replica_set: GetReplicaSetResponse | None = None
    """The state of its replicas; None without replicas."""

    paused_groups: Sequence[str] = ()
    """Groups that an operator has paused there."""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The facts of all processes."""

    name_servers: Sequence[NameServerFacts]
    brokers: Sequence[BrokerFacts] = field(default=())
    rivals: Sequence[BrokerFacts] = field(default=())
    """Living processes that take no part in their set because another one has their id."""

    members: Sequence[MemberFacts] = field(default=())
    """The members of consumer groups that have answered."""

    gateways: Sequence[GatewayFacts] = field(default=())
    """The gateways that brokers know."""

    lags: Sequence[QueueLag] = field(default=())
    """What groups have not consumed, by queue, of brokers that have answered."""


async def gather_facts(
    doors: ClusterDoors, *, now: Callable[[], float] = time.time
) -> ClusterFacts:
    """Ask all name servers, then all brokers in their answers, then their clients."""
    name_servers = await asyncio.gather(
        *(_ask_name_server(doors, address, now) for address in doors.name_servers)
    )
    identities = {
        (one.cluster_name, one.broker_name, one.broker_id, one.address): one
        for name_server in name_servers
        for one in (broker.identity for broker in name_server.brokers)
    }
    brokers = await asyncio.gather(
        *(_ask_broker(doors, identities[key], now) for key in sorted(identities))
    )
    primaries = [one.identity for one in brokers if one.state is not None]
    rivals = await _ask_rivals(doors, brokers)
    attached = await asyncio.gather(*(attached_clients(doors, one.address) for one in primaries))
    members = await ask_members(doors, [one.address for one in primaries], attached)
    gateways = await ask_gateways(doors, primaries, attached)
    lags = await asyncio.gather(*(_lags(doors, one) for one in primaries))
    backlog = [lag for some in lags for lag in some]
    return ClusterFacts(name_servers, brokers, rivals, members, gateways, backlog)


async def _lags(doors: ClusterDoors, identity: BrokerIdentity) -> Sequence[QueueLag]:
    """The backlogs at one broker; none if it does not tell them: other facts say why."""
    if identity.broker_id != PRIMARY_ID:
        return ()
    try:
        return await doors.client.consumer_lag(broker_names=[identity.broker_name])
    except CallError:
        return ()


async def _ask_rivals(doors: ClusterDoors, brokers: Sequence[BrokerFacts]) -> Sequence[BrokerFacts]:
    rows = [one.replica_set.replica_set for one in brokers if one.replica_set is not None]
    places = {
        (row.cluster_name, row.broker_name, broker_id, address)
        for row in rows
        for broker_id, address in row.rivals.items()
    }

    async def ask(place: tuple[str, str, int, str]) -> BrokerFacts | None:
        cluster_name, name, broker_id, address = place
        identity = BrokerIdentity(
            cluster_name=cluster_name, broker_name=name, broker_id=broker_id, address=address
        )
        try:
            answer = await replica_set_of(doors, identity)
        except CallError:
            return None  # It has ended.
        is_there = answer is not None and answer.broker_id == broker_id and bool(answer.trouble)
        is_named = answer is not None and answer.replica_set.broker_name == name
        return BrokerFacts(identity, replica_set=answer) if is_there and is_named else None

    found = await asyncio.gather(*map(ask, sorted(places)))
    return [one for one in found if one is not None]


async def _ask_name_server(
    doors: ClusterDoors, address: str, now: Callable[[], float]
) -> NameServerFacts:
    peer = f"name server {address}"
    try:
        process = await _ask_process(doors, address, peer, now)
        if process.state.service != "namesrv":
            return NameServerFacts(address, f"is none: a {process.state.service} answers there")
        brokers: list[BrokerLiveness] = []
        token, warming_up = "", False
        while True:
            request = ListBrokersRequest(page_size=PAGE_SIZE, page_token=token)
            page = await answer_from(peer, doors.routes(address).ListBrokers, request)
            brokers.extend(page.brokers)
            token, warming_up = page.next_page_token, warming_up or page.warming_up
            if not token:
                orders = await queue_orders(doors, address, CALL_SECONDS_MAX)
                return NameServerFacts(
                    address,
                    "",
                    process,
                    brokers,
                    page.refused_brokers,
                    warming_up,
                    orders,
                    page.away_brokers,
                )
    except CallError as error:
        return NameServerFacts(address, f"does not answer: {error}")


async def _ask_broker(
    doors: ClusterDoors, identity: BrokerIdentity, now: Callable[[], float]
) -> BrokerFacts:
    address = identity.address
    peer = f"broker {identity.broker_name} at {address}"
    try:
        process = await _ask_process(doors, address, peer, now)
        if identity.broker_id != PRIMARY_ID:  # A replica answers no other question.
            replica_set = await replica_set_of(doors, identity)
            return BrokerFacts(identity, "", process, replica_set=replica_set)
        state = await broker_state(doors, identity)
        conflicts = await _conflicts(doors, address, peer)
        replica_set = await replica_set_of(doors, identity)
        paused = await _paused_groups(doors, address, peer)
    except CallError as error:
        return BrokerFacts(identity, str(error))
    return BrokerFacts(identity, "", process, state, conflicts, replica_set, paused)


async def _ask_process(
    doors: ClusterDoors, address: str, peer: str, now: Callable[[], float]
) -> ProcessFacts:
    """The state and clock of the process at an address.

    The first call to an address opens the connection, so a second one reads the clock.
    """
    stub = doors.processes(address)
    request = GetProcessStateRequest()
    await answer_from(peer, stub.GetProcessState, request)
    asked_s = now()
    answer = await answer_from(peer, stub.GetProcessState, request)
    answered_s = now()
    middle_s = (asked_s + answered_s) / 2
    ahead_s = answer.state.current_time.ToMilliseconds() / 1000 - middle_s
    return ProcessFacts(answer.state, ahead_s, (answered_s - asked_s) / 2)


async def _conflicts(
    doors: ClusterDoors, address: str, peer: str
) -> Sequence[SubscriptionConflict]:
    return await all_pages(
        peer,
        doors.clients(address).ListSubscriptionConflicts,
        ListSubscriptionConflictsRequest(),
        lambda page: page.conflicts,
    )


async def _paused_groups(doors: ClusterDoors, address: str, peer: str) -> Sequence[str]:
    groups = await all_pages(
        peer,
        doors.groups(address).ListConsumerGroups,
        ListConsumerGroupsRequest(),
        lambda page: page.groups,
    )
    return [group.consumer_group for group in groups if not group.consume_enabled]
