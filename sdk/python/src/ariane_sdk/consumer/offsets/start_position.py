"""Start positions: the oldest stored message, the next new one, or the first since a time."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

from ariane.broker.v1.pull_service_pb2 import TIME_BOUNDARY_LOWER
from ariane_sdk.client.broker_calls import BrokerCalls
from ariane_sdk.client.queue_position import QueuePosition
from ariane_sdk.errors import IllegalArgument, QueueNotFound
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.routing.route import BrokerRoute

StartPosition: TypeAlias = Literal["earliest", "latest"] | datetime
"""The oldest stored message, the next new one, or the first stored at or after a time."""


def checked_start(start: StartPosition) -> StartPosition:
    """Return a start position if it is one.

    Raises:
        IllegalArgument: It is not one, or a time without a time zone.
    """
    if isinstance(start, datetime):
        if start.tzinfo is None:
            raise IllegalArgument(f"start {start!r} has no time zone")
    elif start not in ("earliest", "latest"):
        raise IllegalArgument(f'start {start!r}: "earliest", "latest" or a datetime')
    return start


async def start_offsets(
    calls: BrokerCalls, broker: BrokerRoute, topic: str, start: StartPosition
) -> dict[MessageQueue, QueuePosition]:
    """The queue offset of a start position, for all queues of a topic on a broker.

    Raises:
        CallError: The broker refused or did not answer.
    """
    if isinstance(start, datetime):
        return await calls.queue_offsets_at(broker, topic, start, TIME_BOUNDARY_LOWER)
    bounds = await calls.queue_bounds(broker, topic)
    if start == "earliest":
        return {q: QueuePosition(entry.min_queue_offset, entry.log_epoch) for q, entry in bounds}
    return {q: QueuePosition(entry.max_queue_offset, entry.log_epoch) for q, entry in bounds}


async def position_of(
    calls: BrokerCalls, broker: BrokerRoute, queue: MessageQueue, start: StartPosition
) -> QueuePosition:
    """The queue offset of a start position in one queue.

    Raises:
        IllegalArgument: It is not a start position.
        QueueNotFound: The broker does not know the queue.
        CallError: The broker refused or did not answer.
    """
    offsets = await start_offsets(calls, broker, queue.topic, checked_start(start))
    if queue not in offsets:
        raise QueueNotFound(f"{queue} is not there now")
    return offsets[queue]
