"""Queues whose entries were found to lead astray: asked for by reads, repaired beside them."""

from __future__ import annotations

import threading

from ariane_storage.queues.consume_queue import ConsumeQueue


class RepairRequests:
    """Where entries lead astray. Any thread.

    Attributes:
        stopped: Whether the store is about to be closed: repairs end as soon as they can.
    """

    def __init__(self) -> None:
        self.stopped = False
        self._lock = threading.Lock()
        self._asked: dict[ConsumeQueue, int] = {}
        self._running: frozenset[ConsumeQueue] = frozenset()

    def __bool__(self) -> bool:
        """Whether a repair is asked for that has not begun."""
        return bool(self._asked)

    def ask(self, queue: ConsumeQueue, queue_offset: int) -> None:
        """The entry of a queue offset leads astray."""
        with self._lock:
            if queue not in self._running:
                self._asked[queue] = min(queue_offset, self._asked.get(queue, queue_offset))

    def take(self) -> dict[ConsumeQueue, int]:
        """The lowest queue offset of each queue; nobody asks for them until they are done."""
        with self._lock:
            taken, self._asked = self._asked, {}
            self._running = frozenset(taken)
            return taken

    def done(self) -> None:
        """What was taken is repaired, or has failed: reads may ask again."""
        with self._lock:
            self._running = frozenset()
