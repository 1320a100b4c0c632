"""Where receiving groups stand: what they have in hand, and what they can have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ariane_broker.groups.consumer_groups import ConsumerGroups
from ariane_broker.groups.consumer_offsets import ConsumerOffsets
from ariane_broker.queue_key import QueueKey
from ariane_broker.receive.in_hand.receive_table import ReceiveTable
from ariane_broker.topics.topic_table import TopicTable
from ariane_storage.store import Store


@dataclass(frozen=True, slots=True)
class QueueStanding:
    """Where a group stands in one queue.

    Attributes:
        queue: The queue.
        consumer_offset: Everything before it is settled.
        unsettled_count: Messages that are not settled.
        in_flight_count: Those that somebody has in hand.
        delayed_count: Those that failed and wait.
    """

    queue: QueueKey
    consumer_offset: int
    unsettled_count: int
    in_flight_count: int
    delayed_count: int

    @property
    def ready_count(self) -> int:
        """Those that can be had."""
        return self.unsettled_count - self.in_flight_count - self.delayed_count


class Standings:
    """Counts what groups have in hand."""

    def __init__(
        self,
        store: Store,
        table: ReceiveTable,
        offsets: ConsumerOffsets,
        *,
        topics: TopicTable,
        groups: ConsumerGroups,
        now_ms: Callable[[], int],
    ) -> None:
        self._store = store
        self._table = table
        self._offsets = offsets
        self._topics = topics
        self._groups = groups
        self._now_ms = now_ms

    def of_queue(self, group: str, queue: QueueKey) -> QueueStanding | None:
        """Where a group stands in a queue; None while it has received nothing there."""
        window = self._table.window(group, queue)
        if window is None:
            return None
        low, high = self._store.queue_bounds(*queue)
        # Members that owned the queue may have come further.
        stored = self._offsets.find(group, queue) or 0
        floor = max(window.floor, int(low), min(int(stored), int(high)))
        rows = window.rows[np.searchsorted(window.rows["offset"], floor) :]
        hidden = rows["until_ms"] > self._now_ms()
        in_flight = int(np.count_nonzero(hidden & (rows["serial"] != 0)))
        delayed = int(np.count_nonzero(hidden)) - in_flight
        unsettled = len(rows) + max(0, int(high) - max(window.end, floor))
        return QueueStanding(queue, floor, unsettled, in_flight, delayed)

    def of_group(self, group: str, topic: str = "") -> list[QueueStanding]:
        """Where a group stands in all queues that it received from, or those of a topic.

        Raises:
            ServiceError: GROUP_NOT_FOUND, TOPIC_NOT_FOUND.
        """
        self._groups.get(group)
        if topic:
            self._topics.get(topic)
        queues = sorted(self._table.of_group(group))
        found = [self.of_queue(group, queue) for queue in queues if topic in {"", queue.topic}]
        return [standing for standing in found if standing is not None]
