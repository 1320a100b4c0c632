"""What failed messages and dead letters are read from, and how much in one turn of the loop."""

from __future__ import annotations

from typing import Final, Protocol

from ariane_storage.reading.read import QueueRead

SLICE_COUNT: Final = 128
"""Messages that are taken back, or sent back, in one turn of the loop: some milliseconds."""

SLICE_BYTES: Final = 4 << 20
"""Bytes that are read for them."""


class QueueLog(Protocol):
    """What is asked of the store."""

    def read_queue(
        self, topic: str, queue_id: int, queue_offset: int, *, max_count: int, max_bytes: int
    ) -> QueueRead:
        """Read messages of a queue, in order."""
        ...

    def queue_bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Oldest queue offset that is kept, and the readable end."""
        ...
