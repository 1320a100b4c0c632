r"""How far the messages of one queue of parked records are delivered.

::

    queue offsets   0 ------------- begin ----------------------- end of the queue
                    all delivered   |x.xx..x.|  nothing marked
                                     \_ marks: x is delivered

Queues of a delay level are delivered in order and have hardly any marks; the timer topic is
delivered by time.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable
from operator import attrgetter, itemgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_storage.log.records.fields import Int64s

_MARKS_MAX: Final = 1 << 33
"""Documents with more marks are refused, since they would take all memory."""


class QueueProgress:
    """Which parked records of a queue are delivered."""

    def __init__(self, begin: int = 0, marks: NDArray[np.bool_] | None = None) -> None:
        """All records below ``begin`` are delivered; ``marks`` tell of those from there on."""
        self.begin = begin
        """The oldest queue offset that is not delivered."""
        self._marks = np.zeros(0, np.bool_) if marks is None else marks
        self._settle()

    def mark(self, queue_offsets: Int64s) -> None:
        """Mark records as done: delivered, or never to be."""
        places = queue_offsets[queue_offsets >= self.begin] - self.begin
        if not len(places):
            return
        needed = int(places.max()) + 1
        if needed > len(self._marks):
            grown = np.zeros(needed + needed // 4, np.bool_)
            grown[: len(self._marks)] = self._marks
            self._marks = grown
        self._marks[places] = True
        self._settle()

    def pending(self, queue_offsets: Int64s) -> NDArray[np.bool_]:
        """Which queue offsets are not delivered."""
        places = queue_offsets - self.begin
        pending: NDArray[np.bool_] = places >= 0
        known = np.flatnonzero(pending & (places < len(self._marks)))
        pending[known] = ~self._marks[places[known]]
        return pending

    def pending_count(self, end: int) -> int:
        """Number of queue offsets below ``end`` that are not delivered."""
        known = self._marks[: max(0, end - self.begin)]
        return max(0, end - self.begin) - int(np.count_nonzero(known))

    def raise_begin(self, queue_offset: int) -> None:
        """Note that no record below a queue offset is kept any more."""
        if queue_offset > self.begin:
            self._marks = self._marks[queue_offset - self.begin :]
            self.begin = queue_offset
            self._settle()

    def lower_end(self, end: int) -> None:
        """Note that the queue ends at a queue offset: nothing behind it was delivered."""
        self._marks = self._marks[: max(0, end - self.begin)]
        self.begin = min(self.begin, end)

    @classmethod
    def decoded(cls, begin: int, count: int, encoded: str) -> QueueProgress:
        """Restore progress from what ``encoded_marks`` made.

        Raises:
            ValueError: The values do not fit together.
        """
        packed = np.frombuffer(b64decode(encoded, validate=True), np.uint8)
        if begin < 0 or not 0 <= count <= min(len(packed) * 8, _MARKS_MAX):
            raise ValueError("marks that do not add up")
        return cls(begin, np.unpackbits(packed, count=count).view(np.bool_).copy())

    def _settle(self) -> None:
        """Move ``begin`` to the oldest queue offset that is not delivered."""
        marks = self._marks
        if not len(marks) or not marks[0]:
            return
        first = int(np.argmin(marks))
        if marks[first]:
            first = len(marks)
        self.begin += first
        self._marks = marks[first:].copy()


_begin_and_marks: Final = attrgetter("begin", "_marks")


def copied_marks(queues: Iterable[QueueProgress]) -> list[tuple[int, bytes]]:
    """Copy ``begin`` and the marks of each queue, a byte for each mark: all in C."""
    begins_and_marks = list(map(_begin_and_marks, queues))
    begins, marks = map(itemgetter(0), begins_and_marks), map(itemgetter(1), begins_and_marks)
    return list(zip(begins, map(bytes, marks), strict=True))


def encoded_marks(begin: int, marks: bytes) -> tuple[int, int, str]:
    """Begin, number of marks, and the marks as text, of what ``copied_marks`` copied."""
    packed = np.packbits(np.frombuffer(marks, np.bool_))
    return begin, len(marks), b64encode(packed.tobytes()).decode()
