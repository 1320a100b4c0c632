"""The bundles that wait for one broker: who comes first, and when another begins.

They are sent by turns, as all very many tiny batches are (``staggered_calls``)::

    waiting    [ 64 topics ][ 64 topics ][ 64 topics ][ 40 topics .. ]    all still take messages
                    |                                       |
    in flight  [ 64 topics ][ 64 topics ]              and topics that have no bundle here
"""

from __future__ import annotations

from collections import deque
from collections.abc import Set as AbstractSet
from typing import Final

from ariane_sdk.message import MessageQueue
from ariane_sdk.producer.batches.bundle import Bundle
from ariane_sdk.producer.sending.staggered_calls import turn_size

BATCHES_MIN: Final = 64
"""Fewer batches on their way have no need of bundles."""

BATCHES_LEFT_MIN: Final = 40
"""But as long as there are so many, what has come in bundles goes on to do so: to change from one
to the other means more and smaller calls for a while."""

ROWS_MIN: Final = 16
"""Topics that a bundle takes at least."""

ROWS_AT_FIRST: Final = 64
"""Topics that it takes before it is known how many there are."""


class WaitingBundles:
    """First come, first served.

    Attributes:
        line: Those that wait, in their order.
        wanted: Whether plain messages should come in bundles.
    """

    __slots__ = ("_rows_max", "line", "wanted")

    def __init__(self) -> None:
        """Have none."""
        self.wanted = False
        self.line: deque[Bundle] = deque()
        self._rows_max = ROWS_AT_FIRST

    @property
    def count(self) -> int:
        """Messages that wait."""
        return sum([bundle.count for bundle in self.line])

    @property
    def row_count(self) -> int:
        """Batches that they will be."""
        return sum([len(bundle.queues) for bundle in self.line])

    @property
    def first(self) -> Bundle:
        """The one that has waited longest; there is one."""
        return self.line[0]

    @property
    def is_first_full(self) -> bool:
        """Whether no other topic comes to the first one any more."""
        first = self.first
        return len(self.line) > 1 or first.full or len(first.queues) >= self._rows_max

    def plan(self, batch_count: int, *, tiny: bool) -> None:
        """See what there is before anything is sent."""
        enough = BATCHES_LEFT_MIN if self.wanted else BATCHES_MIN
        self.wanted = tiny and batch_count >= enough

    def joinable(self, size_bytes_max: int) -> Bundle | None:
        """The one that takes another topic, if it has no more bytes than these."""
        if not self.line:
            return None
        last = self.line[-1]
        takes_more = not last.full and len(last.queues) < self._rows_max
        return last if takes_more and last.size_bytes <= size_bytes_max else None

    def add(self, bundle: Bundle) -> None:
        """Have a bundle wait behind all others."""
        self.line.append(bundle)

    def take_first(self, held_queues: AbstractSet[MessageQueue], batch_count: int) -> Bundle | None:
        """The first one, which is sent now; None while one of its queues is held."""
        if not held_queues.isdisjoint(self.first.queues):
            return None
        turn = turn_size(self.row_count + batch_count, self._rows_max)
        self._rows_max = max(ROWS_MIN, turn)
        return self.line.popleft()

    def give_up(self) -> list[Bundle]:
        """Take all away."""
        bundles = list(self.line)
        self.line.clear()
        return bundles
