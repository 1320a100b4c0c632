"""Routes and assignments as clients read them: every broker is reached through this gateway."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from typing import Final

from apache.rocketmq.v2.definition_pb2 import (
    READ,
    READ_WRITE,
    WRITE,
    Address,
    AddressScheme,
    Broker,
    Endpoints,
    MessageQueue,
    MessageType,
    Permission,
    Resource,
)
from ariane_sdk.routing.route import BrokerRoute, Route
from ariane_servicekit import Address as HostPort

ANY_QUEUE: Final = -1
"""The queue id of an assignment that stands for all queues of a broker."""

_ORDERED: Final = (MessageType.FIFO,)
_ANY_TYPE: Final = (
    MessageType.NORMAL,
    MessageType.FIFO,
    MessageType.DELAY,
    MessageType.TRANSACTION,
    MessageType.PRIORITY,
)


def endpoints_at(address: HostPort) -> Endpoints:
    """The endpoints with one address."""
    try:
        version = ip_address(address.host).version
    except ValueError:
        scheme = AddressScheme.DOMAIN_NAME
    else:
        scheme = AddressScheme.IPv4 if version == 4 else AddressScheme.IPv6
    return Endpoints(scheme=scheme, addresses=[Address(host=address.host, port=address.port)])


def message_queues(route: Route, topic: Resource, endpoints: Endpoints) -> Iterator[MessageQueue]:
    """All queues of a topic, to read, to write or both."""
    for broker in route.brokers:
        read = broker.read_queue_count if broker.readable and broker.read_address else 0
        write = broker.write_queue_count if broker.writable and broker.primary_address else 0
        for queue_id in range(max(read, write)):
            if queue_id < min(read, write):
                permission = READ_WRITE
            else:
                permission = READ if queue_id < read else WRITE
            yield _queue(broker, queue_id, permission, topic, endpoints)


def assigned_queues(
    route: Route, topic: Resource, endpoints: Endpoints, *, in_order: bool
) -> Iterator[MessageQueue]:
    """The queues that a consumer is to receive from: all brokers, each as a whole.

    Args:
        route: The topic's route.
        topic: The topic, as the client named it.
        endpoints: Where to receive from.
        in_order: Whether the group receives in order. Its consumers hand on the messages of one
            assignment one by one, so each queue is an assignment of its own.
    """
    for broker in route.brokers:
        if broker.readable and broker.read_address:
            queue_ids = range(broker.read_queue_count) if in_order else (ANY_QUEUE,)
            for queue_id in queue_ids:
                yield _queue(broker, queue_id, READ_WRITE, topic, endpoints)


def _queue(
    broker: BrokerRoute,
    queue_id: int,
    permission: Permission.ValueType,
    topic: Resource,
    endpoints: Endpoints,
) -> MessageQueue:
    return MessageQueue(
        topic=topic,
        id=queue_id,
        permission=permission,
        broker=Broker(name=broker.broker_name, id=0, endpoints=endpoints),
        accept_message_types=_ORDERED if broker.ordered else _ANY_TYPE,
    )
