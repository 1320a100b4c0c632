"""The offset at which a group begins in a queue: its stored offset, or else the start position."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from ariane.broker.v1.pull_service_pb2 import TIME_BOUNDARY_LOWER
from ariane_record.names import retry_topic
from ariane_sdk.client.broker_calls import BrokerCalls
from ariane_sdk.client.queue_position import QueuePosition
from ariane_sdk.consumer.offsets.offset_keeping import OffsetKeeping
from ariane_sdk.errors import IllegalArgument, QueueNotFound
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.routing.route import BrokerRoute, Route

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


class GroupStart:
    """The beginnings in queues that a group has never consumed."""

    def __init__(self, group: str, start: StartPosition, *, born_ms: int) -> None:
        self._returning = retry_topic(group)
        self._start = start
        self._born = datetime.fromtimestamp(born_ms / 1000, UTC)
        self._first_queues: dict[str, Collection[MessageQueue]] = {}

    def note_topics(
        self, topics: AbstractSet[str], cached_route: Callable[[str], Route | None]
    ) -> None:
        """Note the queues of topics that are new to this consumer."""
        for topic in topics - self._first_queues.keys():
            # All queues of a topic that does not exist yet are new later.
            route = cached_route(topic)
            self._first_queues[topic] = frozenset(route.read_queues if route is not None else ())

    def of(self, queue: MessageQueue) -> StartPosition:
        """The beginning in a queue.

        "latest" is as of the start of this consumer: a queue that is found later may have got
        messages meanwhile. Messages of the retry topic were the group's before, so all of them
        count.
        """
        if queue.topic == self._returning:
            return "earliest"
        if self._start == "latest" and queue not in self._first_queues.get(queue.topic, ()):
            return self._born
        return self._start


async def begin_offsets(
    calls: BrokerCalls,
    keeping: OffsetKeeping,
    broker: BrokerRoute,
    queues: Sequence[MessageQueue],
    start: Mapping[MessageQueue, StartPosition],
) -> tuple[dict[MessageQueue, QueuePosition], set[MessageQueue]]:
    """The offsets to begin at in queues of one broker.

    A stored offset of the group always counts. Unknown offsets are read from the broker, never
    guessed.

    Args:
        calls: Calls the broker.
        keeping: Has the stored offsets.
        broker: The broker.
        queues: The queues.
        start: The beginning in each queue without a stored offset.

    Returns:
        The queue offsets, and the queues whose offset was stored. A queue that the broker does not
        know is left out.

    Raises:
        CallError: The broker refused or did not answer.
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
