"""The queue of each message group: RocketMQ's rule, for producers and name servers.

A topic of type FIFO has a *queue order*, "broker-a:4;broker-b:4": the number of queues of each of
its brokers, including brokers that are away. All queues are sorted by broker and number; the
position of a group's queue is Java's hash of its name, modulo their count. So no group moves while
brokers stop and start.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from ariane_ordering.java_hash import java_string_hash

ORDERS_REMEMBERED_MAX: Final = 1024
"""The number of cached queue orders: the same topics are asked for many times."""

QUEUES_MAX: Final = 65_536
"""Queues of one order: an order is a text, and each queue takes memory where it is read."""


class BrokerQueue(NamedTuple):
    """A queue of a topic; sorts by broker, then by number."""

    broker_name: str
    """The broker."""
    queue_id: int
    """Its number on the broker, from 0."""


@lru_cache(ORDERS_REMEMBERED_MAX)
def queues_in_order(queue_order: str) -> tuple[BrokerQueue, ...]:
    """The sorted queues of a queue order. Malformed entries are ignored, and what is too much."""
    queues: set[BrokerQueue] = set()
    for entry in queue_order.split(";"):
        broker_name, _, count = entry.strip().rpartition(":")
        is_number = count.isascii() and count.isdigit() and len(count) <= len(str(QUEUES_MAX))
        if broker_name and is_number and len(queues) + int(count) <= QUEUES_MAX:
            queues.update(BrokerQueue(broker_name, queue_id) for queue_id in range(int(count)))
    return tuple(sorted(queues))


def group_position(message_group: str, queue_count: int) -> int:
    """The position of a group's queue among the sorted queues."""
    return java_string_hash(message_group) % queue_count
