"""Forgetting a broker that does not come back, at each name server: they know not one another.

First all are asked what they know. A broker that is registered anywhere is alive, and is forgotten
nowhere: a name server that names it as away has lost its heartbeats only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ariane.namesrv.v1.maintenance_service_pb2 import ForgetBrokerRequest
from ariane.namesrv.v1.route_pb2 import AwayBroker, BrokerIdentity
from ariane.namesrv.v1.route_service_pb2 import ListBrokersRequest
from ariane_admin.asking.cluster_doors import PAGE_SIZE, ClusterDoors, answer_from, changed_at
from ariane_sdk.errors import CallError, NameServersUnreachable


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was forgotten, or would be."""

    topic_count: int
    """Topics whose routes named the broker as away, at the name server where most did."""

    left: datetime | None
    """When the broker left, by the first name server that knows it; None if none does."""

    name_server_failures: tuple[str, ...]
    """Name servers that did not forget it, each with the reason."""


@dataclass(frozen=True, slots=True)
class _Knowledge:
    """What one name server knows of the brokers of a name."""

    address: str
    alive: Sequence[BrokerIdentity]
    away: Sequence[AwayBroker]


async def forget(
    doors: ClusterDoors, broker_name: str, *, cluster_name: str = "", validate_only: bool = False
) -> Forgotten:
    """Have all name servers forget a broker that has left.

    Args:
        doors: The cluster.
        broker_name: The broker.
        cluster_name: Its cluster; empty for brokers of that name in all.
        validate_only: Return what would be forgotten, and change nothing.

    Raises:
        CallError: BROKER_ALIVE if one of them has it registered; BROKER_NOT_REGISTERED if all
            answer and none names it as away.
        NameServersUnreachable: None answers.
    """
    answers = await asyncio.gather(
        *(_ask(doors, address, broker_name, cluster_name) for address in doors.name_servers),
        return_exceptions=True,
    )
    known, failures = _sorted_out(answers)
    if failures and not known:
        raise NameServersUnreachable(f"no name server answered: {failures[0]}")
    for one in known:
        for broker in one.alive:
            raise _alive(broker, one.address)
    away = [broker for one in known for broker in one.away]
    if not away and not failures:
        raise CallError(
            f"no name server names a broker {broker_name} as away: there is nothing to forget",
            reason="BROKER_NOT_REGISTERED",
            metadata={"broker_name": broker_name},
        )
    if not validate_only:
        request = ForgetBrokerRequest(broker_name=broker_name, cluster_name=cluster_name)
        done = await asyncio.gather(
            *(_forget_at(doors, one.address, request) for one in known if one.away),
            return_exceptions=True,
        )
        failures += _sorted_out(done)[1]
    return Forgotten(
        topic_count=max((sum(b.topic_count for b in one.away) for one in known), default=0),
        left=away[0].leave_time.ToDatetime(UTC) if away else None,
        name_server_failures=tuple(map(str, failures)),
    )


def _sorted_out(
    outcomes: Sequence[_Knowledge | BaseException | None],
) -> tuple[list[_Knowledge], list[CallError]]:
    """The answers, and the failures of calls; raises what is neither."""
    known, failures = list[_Knowledge](), list[CallError]()
    for outcome in outcomes:
        if isinstance(outcome, CallError):
            failures.append(outcome)
        elif isinstance(outcome, BaseException):
            raise outcome
        elif outcome is not None:
            known.append(outcome)
    return known, failures


async def _ask(
    doors: ClusterDoors, address: str, broker_name: str, cluster_name: str
) -> _Knowledge:
    alive: list[BrokerIdentity] = []
    request = ListBrokersRequest(page_size=PAGE_SIZE, cluster_name=cluster_name)
    while True:
        page = await answer_from(
            f"name server {address}", doors.routes(address).ListBrokers, request
        )
        identities = (one.identity for one in page.brokers)
        alive += (one for one in identities if one.broker_name == broker_name)
        request.page_token = page.next_page_token
        if not request.page_token:
            away = [one for one in page.away_brokers if one.broker_name == broker_name]
            return _Knowledge(address, alive, away)


async def _forget_at(doors: ClusterDoors, address: str, request: ForgetBrokerRequest) -> None:
    await changed_at(f"name server {address}", doors.maintenance(address).ForgetBroker, request)


def _alive(broker: BrokerIdentity, name_server: str) -> CallError:
    what = "broker" if not broker.broker_id else f"replica {broker.broker_id} of broker"
    return CallError(
        f"{what} {broker.broker_name} at {broker.address} is registered with name server"
        f" {name_server}, so it is not forgotten; a process that died is registered for as long as"
        " it may be silent, 2 minutes by default",
        reason="BROKER_ALIVE",
        metadata={
            "cluster": broker.cluster_name,
            "broker": broker.broker_name,
            "address": broker.address,
        },
    )
