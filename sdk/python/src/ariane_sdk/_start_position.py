"""Where a group begins to consume a queue: where it was, or else where the consumer says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, TypeAlias

from ariane.broker.v1.pull_service_pb2 import TIME_BOUNDARY_LOWER
from ariane_sdk._broker_calls import BrokerCalls
from ariane_sdk._message import MessageQueue
from ariane_sdk._offset_keeping import OffsetKeeping
from ariane_sdk._route import BrokerRoute
from ariane_sdk.errors import IllegalArgument, QueueNotFound

StartPosition: TypeAlias = Literal["earliest", "latest"] | datetime
"""The oldest message that is kept, the next to come, or the first stored at or after a time."""


def checked_start(start: StartPosition) -> StartPosition:
    """Return a start position if it is one.

    Raises:
        IllegalArgument: It is none, or a time without a time zone.
    """
    if isinstance(start, datetime):
        if start.tzinfo is None:
            raise IllegalArgument(f"start {start!r} has no time zone")
    elif start not in ("earliest", "latest"):
        raise IllegalArgument(f'start {start!r}: "earliest", "latest" or a datetime')
    return start


async def begin_offsets(
    calls: BrokerCalls,
    keeping: OffsetKeeping,
    broker: BrokerRoute,
    queues: Sequence[MessageQueue],
    start: Mapping[MessageQueue, StartPosition],
) -> tuple[dict[MessageQueue, int], set[MessageQueue]]:
    """Where to begin in queues of one broker.

    An offset that the group has stored always wins. What is not known is asked for, never guessed.

    Args:
        calls: Asks the broker.
        keeping: Knows the stored offsets.
        broker: The broker.
        queues: The queues.
        start: Where to begin in each queue if it has no stored offset.

    Returns:
        The queue offsets, and the queues whose offset was stored. A queue that the broker does not
        know is left out.

    Raises:
        CallError: The broker did not tell.
    """
    offsets = await keeping.load(broker, queues)
    stored = set(offsets)
    missing = [queue for queue in queues if queue not in stored]
    for topic, position in {(queue.topic, start[queue]) for queue in missing}:
        found = await start_offsets(calls, broker, topic, position)
        offsets |= {
            queue: found[queue]
            for queue in missing
            if queue in found and (queue.topic, start[queue]) == (topic, position)
        }
    return offsets, stored


async def start_offsets(
    calls: BrokerCalls, broker: BrokerRoute, topic: str, start: StartPosition
) -> dict[MessageQueue, int]:
    """The queue offset that a start position means, for all queues of a topic on a broker.

    Raises:
        CallError: The broker did not tell.
    """
    if isinstance(start, datetime):
        return await calls.queue_offsets_at(broker, topic, start, TIME_BOUNDARY_LOWER)
    bounds = await calls.queue_bounds(broker, topic)
    if start == "earliest":
        return {queue: entry.min_queue_offset for queue, entry in bounds}
    return {queue: entry.max_queue_offset for queue, entry in bounds}


async def offset_of(
    calls: BrokerCalls, broker: BrokerRoute, queue: MessageQueue, start: StartPosition
) -> int:
    """The queue offset that a start position means in one queue.

    Raises:
        IllegalArgument: It is no start position.
        QueueNotFound: The broker does not know the queue.
        CallError: The broker did not tell.
    """
    offsets = await start_offsets(calls, broker, queue.topic, checked_start(start))
    if queue not in offsets:
        raise QueueNotFound(f"{queue} is not there now")
    return offsets[queue]
