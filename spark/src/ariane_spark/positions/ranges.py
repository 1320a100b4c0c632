"""Ranges of queues between two positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from ariane_record import QueueOffset
from ariane_sdk import MessageQueue


@dataclass(frozen=True, slots=True, order=True)
class QueueRange:
    """Messages of one queue, ``[begin, end)``.

    Attributes:
        queue: The queue.
        begin: The first.
        end: Behind the last.
        log_epoch: The epoch of the broker's log that the end was learnt in; 0: nothing is checked.
    """

    queue: MessageQueue
    begin: QueueOffset
    end: QueueOffset
    log_epoch: int = 0

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

    def __str__(self) -> str:
        return f"{self.queue} [{self.begin}, {self.end})"


def ranges_between(
    start: Mapping[MessageQueue, QueueOffset],
    end: Mapping[MessageQueue, QueueOffset],
    log_epochs: Mapping[tuple[str, str], int],
) -> list[QueueRange]:
    """The ranges between two positions, by queue, without empty ones.

    Args:
        start: Where each queue of ``end`` begins, at least.
        end: Where each queue ends; queues that are not named here are not read.
        log_epochs: The epochs that the ends were learnt in, by topic and broker.
    """
    return [
        QueueRange(
            queue, start[queue], end[queue], log_epochs.get((queue.topic, queue.broker_name), 0)
        )
        for queue in sorted(end)
        if start[queue] < end[queue]
    ]
