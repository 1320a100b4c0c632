"""A broker as name servers report it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ariane.namesrv.v1.route_pb2 import BrokerLiveness
from ariane_sdk.net.timestamps import moment_from
from ariane_sdk.routing.route import BrokerRoute


@dataclass(frozen=True, slots=True)
class LiveBroker:
    """A broker that has sent a heartbeat to a name server lately."""

    cluster_name: str
    """Its cluster."""
    broker_name: str
    """Its name, which a primary shares with its replicas."""
    broker_id: int
    """Its id; 0 is the primary."""
    address: str
    """Its address for clients, "host:port"."""
    zone: str
    """Its machine room; empty without one."""
    last_heard_time: datetime
    """The time of its last heartbeat at the name server."""
    topic_count: int
    """The number of its topics."""
    filter_servers: tuple[str, ...] = ()
    """The "host:port" of the FilterServers beside it."""


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
