"""Tells held pulls what may be read now.

Under asynchronous flush a record may be read when it is appended; under synchronous flush (and,
later, replication) only when it is confirmed. Both are one rule: a queue is woken when the
confirmed end of the log has passed what was appended to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from ariane_broker.log.held_requests import HeldRequests
from ariane_broker.queue_key import QueueKey
from ariane_storage.store import Store


class Arrivals:
    """What was appended and is not confirmed yet."""

    def __init__(self, log: Store, held: HeldRequests) -> None:
        self._log = log
        self._held = held
        self._pending: deque[tuple[int, QueueKey]] = deque()

    def appended(self, queue: QueueKey, next_commit_log_offset: int) -> None:
        """Records were appended to a queue; the last one ends at this commit-log offset."""
        if not self._pending and next_commit_log_offset <= self._log.confirmed_offset:
            self._held.wake(queue)
        else:
            self._pending.append((next_commit_log_offset, queue))

    def appended_at_once(
        self, queues: Sequence[QueueKey], next_commit_log_offsets: Sequence[int]
    ) -> None:
        """Records were appended to queues side by side; those of each end at such an offset."""
        if not self._pending and next_commit_log_offsets[-1] <= self._log.confirmed_offset:
            self._held.wake_all(queues)
        else:
            self._pending.extend(zip(next_commit_log_offsets, queues, strict=True))

    def confirm(self) -> None:
        """The confirmed end has moved: wake whoever waits for what lies before it."""
        confirmed = self._log.confirmed_offset
        while self._pending and self._pending[0][0] <= confirmed:
            self._held.wake(self._pending.popleft()[1])
