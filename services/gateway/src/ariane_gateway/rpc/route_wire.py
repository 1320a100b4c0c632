"""Routes and assignments as clients read them: every broker is reached through this gateway."""

from __future__ import annotations

import re
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
_STRICT_LANGUAGES: Final = frozenset({"JAVA", "DOTNET", "DOT_NET"})
_PRIORITIES_SINCE: Final = (5, 2)
_VERSION: Final = re.compile(r"(\d+)\.(\d+)")


def endpoints_at(address: HostPort) -> Endpoints:
    """The endpoints with one address."""
    try:
        version = ip_address(address.host).version
    except ValueError:
        scheme = AddressScheme.DOMAIN_NAME
    else:
        scheme = AddressScheme.IPv4 if version == 4 else AddressScheme.IPv6
    return Endpoints(scheme=scheme, addresses=[Address(host=address.host, port=address.port)])


def knows_priorities(language: str, version: str) -> bool:
    """Whether a client knows of messages with a priority.

    Java and C# fail at a route that names a type of messages which they do not know; others take it
    for a number.
    """
    if language.upper() not in _STRICT_LANGUAGES:
        return True
    found = _VERSION.match(version)
    return found is None or (int(found[1]), int(found[2])) >= _PRIORITIES_SINCE


def message_queues(
    route: Route, topic: Resource, endpoints: Endpoints, *, priorities: bool
) -> Iterator[MessageQueue]:
    """All queues of a topic, to read, to write or both.

    Args:
        route: The topic's route.
        topic: The topic, as the client named it.
        endpoints: Where to call.
        priorities: Whether the client knows of messages with a priority.
    """
    for broker in route.brokers:
        read = broker.read_queue_count if broker.readable and broker.read_address else 0
        write = broker.write_queue_count if broker.writable and broker.primary_address else 0
        for queue_id in range(max(read, write)):
            if queue_id < min(read, write):
                permission = READ_WRITE
            else:
                permission = READ if queue_id < read else WRITE
            yield _queue(broker, queue_id, permission, topic, endpoints, priorities=priorities)


def assigned_queues(
    route: Route, topic: Resource, endpoints: Endpoints, *, in_order: bool, priorities: bool
) -> Iterator[MessageQueue]:
    """The queues that a consumer is to receive from: all brokers, each as a whole.

    Args:
        route: The topic's route.
        topic: The topic, as the client named it.
        endpoints: Where to receive from.
        in_order: Whether the group receives in order. Its consumers hand on the messages of one
            assignment one by one, so each queue is an assignment of its own.
        priorities: Whether the client knows of messages with a priority.
    """
    for broker in route.brokers:
        if broker.readable and broker.read_address:
            queue_ids = range(broker.read_queue_count) if in_order else (ANY_QUEUE,)
            for queue_id in queue_ids:
                yield _queue(broker, queue_id, READ_WRITE, topic, endpoints, priorities=priorities)


def _queue(
    broker: BrokerRoute,
    queue_id: int,
    permission: Permission.ValueType,
    topic: Resource,
    endpoints: Endpoints,
    *,
    priorities: bool,
) -> MessageQueue:
    types = _ORDERED if broker.ordered else _ANY_TYPE
    return MessageQueue(
        topic=topic,
        id=queue_id,
        permission=permission,
        broker=Broker(name=broker.broker_name, id=0, endpoints=endpoints),
        accept_message_types=types if priorities or broker.ordered else types[:-1],
    )
