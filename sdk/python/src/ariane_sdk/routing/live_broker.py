"""A broker as name servers report it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ariane.namesrv.v1.route_pb2 import BrokerLiveness
from ariane_sdk.net.timestamps import moment_from
from ariane_sdk.routing.route import BrokerRoute


@dataclass(frozen=True, slots=True)
class LiveBroker:
    """A broker that a name server has heard of lately.

    Attributes:
        cluster_name: The cluster it belongs to.
        broker_name: Its name, which a primary shares with its replicas.
        broker_id: 0 is the primary.
        address: Where clients reach it, "host:port".
        zone: Its machine room; empty if it has none.
        last_heard_time: When the name server last heard of it.
        topic_count: How many topics it carries.
        filter_servers: "host:port" of the FilterServers beside it.
    """

    cluster_name: str
    broker_name: str
    broker_id: int
    address: str
    zone: str
    last_heard_time: datetime
    topic_count: int
    filter_servers: tuple[str, ...] = ()


def live_broker_of(liveness: BrokerLiveness) -> LiveBroker:
    """Read a broker from a name server's answer."""
    identity = liveness.identity
    return LiveBroker(
        cluster_name=identity.cluster_name,
        broker_name=identity.broker_name,
        broker_id=identity.broker_id,
        address=identity.address,
        zone=identity.zone,
        last_heard_time=moment_from(liveness.last_heard_time),
        topic_count=liveness.topic_count,
        filter_servers=tuple(liveness.filter_server_addresses),
    )


def route_to(broker: LiveBroker) -> BrokerRoute:
    """A route to a broker, for calls that concern no topic."""
    return BrokerRoute(
        broker.cluster_name,
        broker.broker_name,
        {broker.broker_id: broker.address},
        read_queue_count=0,
        write_queue_count=0,
    )
