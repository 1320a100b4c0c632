"""Which queue the messages of one group go to: RocketMQ's rule, for producers and name servers.

A topic of type FIFO has a *queue order*, "broker-a:4;broker-b:4": how many queues each of its
brokers has, also those that are away now. All its queues are sorted by broker and number; a group
goes to the one whose place is Java's hash of its name, modulo their count. So no group moves while
brokers come and go.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from ariane_ordering.java_hash import java_string_hash

ORDERS_REMEMBERED_MAX: Final = 1024
"""Queue orders that are remembered: a topic is asked about again and again."""


class BrokerQueue(NamedTuple):
    """A queue of a topic; sorts by broker, then by number.

    Attributes:
        broker_name: The broker.
        queue_id: Its number there, from 0.
    """

    broker_name: str
    queue_id: int


@lru_cache(ORDERS_REMEMBERED_MAX)
def queues_in_order(queue_order: str) -> tuple[BrokerQueue, ...]:
    """The sorted queues of a queue order. Malformed entries are ignored."""
    queues: set[BrokerQueue] = set()
    for entry in queue_order.split(";"):
        broker_name, _, count = entry.strip().rpartition(":")
        if broker_name and count.isascii() and count.isdigit():
            queues.update(BrokerQueue(broker_name, queue_id) for queue_id in range(int(count)))
    return tuple(sorted(queues))


def group_position(message_group: str, queue_count: int) -> int:
    """The place of a group's queue among so many sorted ones."""
    return java_string_hash(message_group) % queue_count
