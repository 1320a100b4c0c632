"""Counts of receiving groups: messages in flight, delayed, and ready to be received."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass

import numpy as np

from ariane_broker.groups.consumer_groups import ConsumerGroups
from ariane_broker.groups.consumer_offsets import ConsumerOffsets
from ariane_broker.queue_key import QueueKey
from ariane_broker.receive.in_hand.receive_table import ReceiveTable
from ariane_broker.topics.topic_table import TopicTable
from ariane_storage.store import Store


@dataclass(frozen=True, slots=True)
class QueueStanding:
    """The counts of a group in one queue."""

    queue: QueueKey
    """The queue."""
    consumer_offset: int
    """Everything before it is settled."""
    unsettled_count: int
    """Messages that are not settled."""
    in_flight_count: int
    """Messages that members hold."""
    delayed_count: int
    """Failed messages that wait for their next attempt."""

    @property
    def ready_count(self) -> int:
        """Messages that can be received now."""
        return self.unsettled_count - self.in_flight_count - self.delayed_count


@dataclass(frozen=True, slots=True, eq=False)
class Standings:
    """Counts the messages of groups by state."""

    store: Store
    table: ReceiveTable
    offsets: ConsumerOffsets
    _: KW_ONLY
    topics: TopicTable
    groups: ConsumerGroups
    now_ms: Callable[[], int]

    def of_queue(self, group: str, queue: QueueKey) -> QueueStanding | None:
        """The counts of a group in a queue; None before it has received from the queue."""
        window = self.table.window(group, queue)
        if window is None:
            return None
        low, high = self.store.queue_bounds(*queue)
        # Members that owned the queue may have stored a later offset.
        stored = self.offsets.find(group, queue) or 0
        floor = max(window.floor, int(low), min(int(stored), int(high)))
        rows = window.rows[np.searchsorted(window.rows["offset"], floor) :]
        hidden = rows["until_ms"] > self.now_ms()
        in_flight = int(np.count_nonzero(hidden & (rows["serial"] != 0)))
        delayed = int(np.count_nonzero(hidden)) - in_flight
        unsettled = len(rows) + max(0, int(high) - max(window.end, floor))
        return QueueStanding(queue, floor, unsettled, in_flight, delayed)

    def walk(self, group: str, topic: str = "") -> Iterator[QueueStanding | None]:
        """The counts of a group in all queues that it has received from, or in a topic's queues.

        Yields once for each queue that is examined: None for one without counts.

        Raises:
            ServiceError: GROUP_NOT_FOUND, TOPIC_NOT_FOUND.
        """
        self.groups.get(group)
        if topic:
            self.topics.get(topic)
        known = self.table.of_group(group)
        for name in [topic] if topic else sorted(known):
            for queue_id in sorted(known.get(name, ())):
                yield self.of_queue(group, QueueKey(name, queue_id))
