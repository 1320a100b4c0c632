"""The queue of a message group, among the queues of all brokers of a topic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ariane_namesrv.registration import PRIMARY_ID, BrokerRoute, Permission
from ariane_ordering import BrokerQueue, group_position, queues_in_order


def group_queue(
    message_group: str, brokers: Sequence[BrokerRoute], queue_order: str
) -> BrokerQueue | None:
    """The queue of a group, as every producer chooses it; None while the order is unknown.

    Args:
        message_group: The group.
        brokers: The brokers that have the topic now.
        queue_order: The queue order of a FIFO topic; empty for others, and if unknown.
    """
    queues = queues_in_order(queue_order)
    if not queues:
        if any(broker.ordered for broker in brokers):
            return None
        queues = tuple(sorted(_writable(brokers)))
    return queues[group_position(message_group, len(queues))] if queues else None


def primary_address(brokers: Iterable[BrokerRoute], broker_name: str) -> str:
    """The address at which a broker takes messages of the topic; empty if it takes none."""
    for broker in brokers:
        if broker.broker_name == broker_name and Permission.WRITE in broker.permission:
            return broker.addresses.get(PRIMARY_ID, "")
    return ""


def _writable(brokers: Iterable[BrokerRoute]) -> Iterable[BrokerQueue]:
    for broker in brokers:
        if Permission.WRITE in broker.permission and PRIMARY_ID in broker.addresses:
            for queue_id in range(broker.write_queue_count):
                yield BrokerQueue(broker.broker_name, queue_id)
