"""Decoding of routes."""

from __future__ import annotations

from ariane.namesrv.v1 import route_pb2
from ariane_sdk.routing.route import BrokerRoute, Route

_READABLE = (route_pb2.TOPIC_PERMISSION_READ, route_pb2.TOPIC_PERMISSION_READ_WRITE)
_WRITABLE = (route_pb2.TOPIC_PERMISSION_WRITE, route_pb2.TOPIC_PERMISSION_READ_WRITE)


def route_from_wire(route: route_pb2.Route, *, complete: bool = True) -> Route:
    """Decode a route from a name server's answer."""
    return Route(
        route.topic,
        tuple(
            BrokerRoute(
                cluster_name=broker.cluster_name,
                broker_name=broker.broker_name,
                addresses=dict(broker.addresses),
                read_queue_count=broker.read_queue_count,
                write_queue_count=broker.write_queue_count,
                readable=broker.permission in _READABLE,
                writable=broker.permission in _WRITABLE,
                zone=broker.zone,
                ordered=broker.ordered,
                filter_servers=tuple(broker.filter_server_addresses),
            )
            for broker in route.brokers
        ),
        complete,
        route.queue_order,
        frozenset(route.away_broker_names),
        dict(route.away_broker_zones),
    )
