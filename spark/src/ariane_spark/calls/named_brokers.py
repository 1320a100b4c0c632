"""Which brokers have a topic, or had it lately, by all that any name server knows."""

from __future__ import annotations

from typing import Final, NamedTuple

from ariane.namesrv.v1.route_service_pb2 import GetRouteRequest, ListBrokersRequest
from ariane.namesrv.v1.route_service_pb2_grpc import RouteServiceStub
from ariane_sdk import Route
from ariane_sdk.errors import RouteNotFound, ServiceUnavailable
from ariane_sdk.translation import error_from_rpc, route_from_wire
from ariane_spark.calls.channels import NAME_SERVER, Channels
from ariane_spark.calls.name_servers import NameServers
from ariane_wire import CallFailed

_PAGE_SIZE: Final = 1000
"""As many brokers as a name server knows."""


class NamedBrokers(NamedTuple):
    """The names of the brokers of a topic, by who says so."""

    known: frozenset[str]
    """Those that are there, or left undrained within a day and are not forgotten."""
    ordered: frozenset[str]
    """Those among which message groups are divided: by a queue order, however long they are away,
    until it is set anew."""


def named_brokers(
    name_servers: NameServers, channels: Channels, topic: str | None, *, timeout_s: float
) -> NamedBrokers:
    """The brokers of a topic that any name server names.

    All name servers are asked: one that has restarted since knows of nobody who left before. One
    that does not answer is left out, but not all of them.

    Args:
        name_servers: All of them.
        channels: Connections to them.
        topic: The topic; None: brokers with any topic.
        timeout_s: The timeout of one.

    Raises:
        ServiceUnavailable: No name server answers, so that nobody knows who is away.
    """
    known: set[str] = set()
    ordered: set[str] = set()
    failures: list[str] = []
    answered = False
    for address in name_servers.in_turn():
        channels.expect(address, NAME_SERVER)
        stub = RouteServiceStub(channels.to(address))
        try:
            if topic is None:
                known |= _all_of(stub, timeout_s)
            else:
                route = _route_at(stub, topic, timeout_s)
                known |= {broker.broker_name for broker in route.brokers} | route.away_brokers
                ordered |= {queue.broker_name for queue in route.group_queues}
            answered = True
        except CallFailed as failure:
            error = error_from_rpc(failure, peer=f"name server {address}")
            if isinstance(error, RouteNotFound):
                known |= error.away_brokers
                answered = True
            else:
                failures.append(str(error))
    if not answered:
        raise ServiceUnavailable(
            f"no name server tells which brokers are away: {'; '.join(failures)}", retriable=True
        )
    return NamedBrokers(frozenset(known), frozenset(ordered))


def _all_of(stub: RouteServiceStub, timeout_s: float) -> set[str]:
    answer = stub.ListBrokers(ListBrokersRequest(page_size=_PAGE_SIZE), timeout=timeout_s)
    present = {broker.identity.broker_name for broker in answer.brokers}
    return present | {broker.broker_name for broker in answer.away_brokers}


def _route_at(stub: RouteServiceStub, topic: str, timeout_s: float) -> Route:
    answer = stub.GetRoute(GetRouteRequest(topic=topic), timeout=timeout_s)
    return route_from_wire(answer.route)
