"""Ranges of queues: what lies between two positions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from ariane_record import QueueOffset
from ariane_spark.offsets import Bounds, QueueName


@dataclass(frozen=True, slots=True, order=True)
class QueueRange:
    """Messages of one queue, ``[begin, end)``."""

    queue: QueueName
    begin: QueueOffset
    end: QueueOffset

    @property
    def count(self) -> int:
        """How many messages."""
        return self.end - self.begin

    def pieces(self, piece_count: int) -> Iterator[QueueRange]:
        """The same messages as so many ranges, as equal as can be."""
        numbers = range(piece_count + 1)
        cuts = [self.begin + self.count * number // piece_count for number in numbers]
        for begin, end in pairwise(cuts):
            yield replace(self, begin=QueueOffset(begin), end=QueueOffset(end))


def ranges_between(
    start: Mapping[QueueName, QueueOffset],
    end: Mapping[QueueName, QueueOffset],
    bounds_of: Callable[[QueueName], Bounds],
) -> list[QueueRange]:
    """What lies between two positions, without empty ranges, by queue.

    A queue that ``start`` does not know begins at its earliest offset. So does one that ended
    before it began: it was made anew in between.

    Args:
        start: Where each queue begins.
        end: Where each queue ends; queues that are not named here are not read.
        bounds_of: Asked only where ``start`` does not say where to begin.
    """
    ranges = []
    for queue in sorted(end):
        begin = start.get(queue)
        if begin is None or begin > end[queue]:
            begin = bounds_of(queue).earliest
        if begin < end[queue]:
            ranges.append(QueueRange(queue, begin, end[queue]))
    return ranges
