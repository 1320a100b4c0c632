"""What one turn of the loop may examine of queues and their messages.

A queue with nothing counts as one thing, a few microseconds. A read of its messages counts as
several, however few they are: their records are checked, decoded, and compared by a filter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ariane_servicekit import EXAMINED_MAX
from ariane_storage.reading.filter import Filter
from ariane_storage.reading.queue_reader import LOOKED_AT_BYTES_MAX

READ_THINGS: Final = 4
"""What one read of messages counts."""

_FILTER_THINGS: Final = 1
_LOOKS_OF_THING: Final = 8
"""Comparisons of a filter that count as one thing, besides the one for the filter."""


@dataclass(slots=True)
class TurnBudget:
    """What is left for a turn; the last read may go beyond it."""

    things: int = EXAMINED_MAX
    """Queues, and what reads count."""
    bytes: int = LOOKED_AT_BYTES_MAX
    """Bytes of entries and records."""

    def is_spent(self) -> bool:
        """Whether the next turn goes on."""
        return self.things <= 0 or self.bytes <= 0

    def count_queues(self, count: int) -> None:
        """Count queues that were looked at, or began to be known for a group."""
        self.things -= count

    def count_read(self, looked_at_bytes: int, wanted: Filter | None) -> None:
        """Count a read of messages with a filter."""
        self.bytes -= looked_at_bytes
        self.things -= READ_THINGS
        if wanted is not None:
            self.things -= _FILTER_THINGS + wanted.looks_per_record // _LOOKS_OF_THING
