"""Sequence numbers of messages, by which brokers recognise a repeated row.

The messages of one producer to one queue are a sequence, numbered from 0. A row takes its numbers
when it is sent, and keeps numbers and queue as long as it may be stored under them. When the
producer gives up without knowing that, it cannot know which number the broker expects next: the
sequence begins anew with a larger epoch, and the broker refuses rows in flight under the old
one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from operator import add
from random import Random
from typing import Final

from ariane_record import ProducerSequence
from ariane_sdk.message_queue import MessageQueue

_as_sequence: Final[Callable[[tuple[int, int, int]], ProducerSequence]] = partial(
    tuple.__new__, ProducerSequence
)


PRODUCER_ID_MAX: Final = (1 << 63) - 1


class QueueSequences:
    """The sequences of one producer, one for each queue."""

    def __init__(self, producer_id: int) -> None:
        self._producer_id = producer_id
        # The place of the next row of each queue.
        self._next: dict[MessageQueue, ProducerSequence] = {}

    def take(self, queue: MessageQueue, count: int) -> ProducerSequence:
        """Take the numbers of a row that is about to be sent."""
        place = self._next.get(queue) or ProducerSequence(self._producer_id, 0, 0)
        producer_id, epoch, first = place
        self._next[queue] = ProducerSequence(producer_id, epoch, first + count)
        return place

    def take_all(
        self, queues: Sequence[MessageQueue], counts: Sequence[int]
    ) -> list[ProducerSequence]:
        """Take the numbers of rows that are sent together, each for a queue."""
        begin = ProducerSequence(self._producer_id, 0, 0)
        places = list(map(self._next.get, queues, repeat(begin)))
        producer_ids, epochs, firsts = zip(*places, strict=True)
        rows = zip(producer_ids, epochs, map(add, firsts, counts), strict=True)
        self._next.update(zip(queues, map(_as_sequence, rows), strict=True))
        return places

    def give_back(self, queue: MessageQueue, place: ProducerSequence) -> None:
        """Free the numbers of a row that was surely not stored, for the next row."""
        following = self._next[queue]
        if place.epoch == following.epoch and place.first_sequence < following.first_sequence:
            self._next[queue] = place

    def begin_anew(self, queue: MessageQueue, place: ProducerSequence) -> None:
        """Start a new epoch: the row may be stored, or the broker does not know the sequence."""
        if place.epoch == self._next[queue].epoch:
            self._next[queue] = ProducerSequence(self._producer_id, place.epoch + 1, 0)


def new_sequences(random: Random) -> QueueSequences:
    """Make the sequences of a new producer."""
    return QueueSequences(random.randint(1, PRODUCER_ID_MAX))
