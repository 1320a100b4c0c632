"""How late delayed messages are delivered."""

from __future__ import annotations

from typing import Final

import numpy as np

from ariane_storage.log.records.fields import Int64s

TIME_MS_MIN: Final = 1_000_000_000_000
"""A smaller number (before the year 2001) is no time: a hash of a tag, or a note."""


class Lateness:
    """Sums over all messages delivered since the start.

    A message sent after its time counts as late from then on; a message without a time in its entry
    is not counted.
    """

    def __init__(self) -> None:
        self.sum_ms = 0
        """The lateness of all messages together."""
        self.max_ms = 0
        """The largest lateness."""
        self.message_count = 0
        """Number of messages counted."""

    def delivered(self, due_ms: Int64s, parked_ms: Int64s, now_ms: int) -> None:
        """Count delivered messages."""
        timed = due_ms >= TIME_MS_MIN
        late_ms = np.maximum(0, now_ms - np.maximum(due_ms, parked_ms)[timed])
        if len(late_ms):
            self.sum_ms += int(late_ms.sum())
            self.max_ms = max(self.max_ms, int(late_ms.max()))
            self.message_count += len(late_ms)
