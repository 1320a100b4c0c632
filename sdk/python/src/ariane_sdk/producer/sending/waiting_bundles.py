"""The bundles that wait for one broker, in their order; they are sent in turns.

The turns are those of all very many tiny batches (``staggered_calls``)::

    waiting    [ 64 topics ][ 64 topics ][ 64 topics ][ 40 topics .. ]    all still take messages
                    |                                       |
    in flight  [ 64 topics ][ 64 topics ]              and topics that have no bundle here
"""

from __future__ import annotations

from collections import deque
from collections.abc import Set as AbstractSet
from typing import Final

from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer.batches.bundle import Bundle
from ariane_sdk.producer.sending.staggered_calls import turn_size

BATCHES_MIN: Final = 64
"""With fewer batches on their way, there are no bundles."""

BATCHES_LEFT_MIN: Final = 40
"""With at least so many, bundles that are in use stay in use: a change from bundles to batches
means more and smaller calls for a while."""

ROWS_MIN: Final = 16
"""The least number of topics in a full bundle."""

ROWS_AT_FIRST: Final = 64
"""The number of topics in a full bundle before the number of topics is known."""


class WaitingBundles:
    """A line of bundles: the oldest is sent first.

    Attributes:
        line: The bundles in their order.
        wanted: Whether plain messages should be bundled.
    """

    __slots__ = ("_rows_max", "line", "wanted")

    def __init__(self) -> None:
        self.wanted = False
        self.line: deque[Bundle] = deque()
        self._rows_max = ROWS_AT_FIRST

    @property
    def count(self) -> int:
        """Number of messages that wait."""
        return sum([bundle.count for bundle in self.line])

    @property
    def row_count(self) -> int:
        """Number of batches in the bundles."""
        return sum([len(bundle.queues) for bundle in self.line])

    @property
    def first(self) -> Bundle:
        """The bundle that has waited longest; the line must not be empty."""
        return self.line[0]

    @property
    def is_first_full(self) -> bool:
        """Whether the first bundle takes no other topic."""
        first = self.first
        return len(self.line) > 1 or first.full or len(first.queues) >= self._rows_max

    def plan(self, batch_count: int, *, tiny: bool) -> None:
        """Decide whether messages are bundled, before anything is sent."""
        enough = BATCHES_LEFT_MIN if self.wanted else BATCHES_MIN
        self.wanted = tiny and batch_count >= enough

    def joinable(self, size_bytes_max: int) -> Bundle | None:
        """Return a bundle of at most this size that takes another topic, or None."""
        if not self.line:
            return None
        last = self.line[-1]
        takes_more = not last.full and len(last.queues) < self._rows_max
        return last if takes_more and last.size_bytes <= size_bytes_max else None

    def add(self, bundle: Bundle) -> None:
        """Add a bundle at the end."""
        self.line.append(bundle)

    def take_first(self, held_queues: AbstractSet[MessageQueue], batch_count: int) -> Bundle | None:
        """Take the first bundle to be sent now; None while one of its queues is held."""
        if not held_queues.isdisjoint(self.first.queues):
            return None
        turn = turn_size(self.row_count + batch_count, self._rows_max)
        self._rows_max = max(ROWS_MIN, turn)
        return self.line.popleft()

    def give_up(self) -> list[Bundle]:
        """Take all bundles away."""
        bundles = list(self.line)
        self.line.clear()
        return bundles
