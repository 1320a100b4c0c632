"""Ranges of queues between two positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from ariane_record import QueueOffset
from ariane_sdk import MessageQueue


@dataclass(frozen=True, slots=True, order=True)
class QueueRange:
    """Messages of one queue, ``[begin, end)``."""

    queue: MessageQueue
    """The queue."""
    begin: QueueOffset
    """The first queue offset."""
    end: QueueOffset
    """The queue offset after the last."""
    log_epoch: int = 0
    """The epoch of the broker's log when the end was read; 0: nothing is checked."""

    @property
    def count(self) -> int:
        """The number of messages."""
        return self.end - self.begin

    def pieces(self, piece_count: int) -> Iterator[QueueRange]:
        """The same messages as a number of ranges of nearly equal size."""
        numbers = range(piece_count + 1)
        cuts = [self.begin + self.count * number // piece_count for number in numbers]
        for begin, end in pairwise(cuts):
            yield replace(self, begin=QueueOffset(begin), end=QueueOffset(end))

    def __str__(self) -> str:
        return f"{self.queue} [{self.begin}, {self.end})"


def ranges_between(
    start: Mapping[MessageQueue, QueueOffset],
    end: Mapping[MessageQueue, QueueOffset],
    log_epochs: Mapping[tuple[str, str], int],
) -> list[QueueRange]:
    """The ranges between two positions, by queue, without empty ones.

    Args:
        start: The start of each queue of ``end``, at least.
        end: The end of each queue; other queues are not read.
        log_epochs: The epochs in which the ends were read, by topic and broker.
    """
    return [
        QueueRange(
            queue, start[queue], end[queue], log_epochs.get((queue.topic, queue.broker_name), 0)
        )
        for queue in sorted(end)
        if start[queue] < end[queue]
    ]
