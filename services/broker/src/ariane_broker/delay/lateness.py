"""How late delayed messages are delivered."""

from __future__ import annotations

from typing import Final

import numpy as np

from ariane_storage.log.records.fields import Int64s

TIME_MS_MIN: Final = 1_000_000_000_000
"""An entry with less, the year 2001, has no time but the hash of a tag, or is a note."""


class Lateness:
    """Sums over all messages delivered since the start.

    A message that was sent after its time is late from then on; one that says no time in its entry
    is not counted.

    Attributes:
        sum_ms: Of all of them.
        max_ms: Of the latest.
        message_count: How many are counted.
    """

    def __init__(self) -> None:
        """Nothing was delivered yet."""
        self.sum_ms = 0
        self.max_ms = 0
        self.message_count = 0

    def delivered(self, due_ms: Int64s, parked_ms: Int64s, now_ms: int) -> None:
        """Messages were delivered.

        Args:
            due_ms: When each was due.
            parked_ms: When each was parked.
            now_ms: When that was.
        """
        timed = due_ms >= TIME_MS_MIN
        late_ms = np.maximum(0, now_ms - np.maximum(due_ms, parked_ms)[timed])
        if len(late_ms):
            self.sum_ms += int(late_ms.sum())
            self.max_ms = max(self.max_ms, int(late_ms.max()))
            self.message_count += len(late_ms)
