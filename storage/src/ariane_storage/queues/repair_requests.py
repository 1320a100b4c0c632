"""Queues with wrong entries: reads request repairs, which run beside them."""

from __future__ import annotations

import threading

from ariane_storage.queues.consume_queue import ConsumeQueue


class RepairRequests:
    """Requested repairs. Any thread."""

    def __init__(self) -> None:
        self.stopped = False
        """Whether the store is about to be closed."""
        self._lock = threading.Lock()
        self._asked: dict[ConsumeQueue, int] = {}
        self._running: frozenset[ConsumeQueue] = frozenset()

    @property
    def needed(self) -> bool:
        """Whether there are requests that no repair has taken."""
        return bool(self._asked)

    def stop(self) -> None:
        """End a repair as soon as possible, and begin no other: the store is about to be closed."""
        self.stopped = True

    def ask(self, queue: ConsumeQueue, queue_offset: int) -> None:
        """Request a repair: the entry at a queue offset is wrong."""
        with self._lock:
            if queue not in self._running:
                self._asked[queue] = min(queue_offset, self._asked.get(queue, queue_offset))

    def take(self) -> dict[ConsumeQueue, int]:
        """Take all requests, the lowest queue offset of each queue; no new ones until ``done``."""
        with self._lock:
            taken, self._asked = self._asked, {}
            self._running = frozenset(taken)
            return taken

    def done(self) -> None:
        """End the repair, done or failed: reads may request again."""
        with self._lock:
            self._running = frozenset()
