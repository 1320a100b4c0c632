"""Numbers of messages, so that brokers recognise a batch that comes again.

The messages of one producer to one queue are a stream, numbered from 0. A batch takes its numbers
when it is sent, and keeps them, and its queue, as long as it may be stored under them. When that
is given up without knowing, nobody can tell which number the broker expects next: the stream begins
anew with a larger epoch, and the broker refuses what may still be on its way under the old one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from operator import add
from random import Random
from typing import Final

from ariane_record import ProducerSequence
from ariane_sdk.message import MessageQueue

_as_sequence: Final[Callable[[tuple[int, int, int]], ProducerSequence]] = partial(
    tuple.__new__, ProducerSequence
)


PRODUCER_ID_MAX: Final = (1 << 63) - 1


class QueueStreams:
    """The streams of one producer."""

    def __init__(self, producer_id: int) -> None:
        self._producer_id = producer_id
        # The place of the next batch, for each queue.
        self._next: dict[MessageQueue, ProducerSequence] = {}

    def take(self, queue: MessageQueue, count: int) -> ProducerSequence:
        """The place of a batch that is sent."""
        place = self._next.get(queue) or ProducerSequence(self._producer_id, 0, 0)
        producer_id, epoch, first = place
        self._next[queue] = ProducerSequence(producer_id, epoch, first + count)
        return place

    def take_all(
        self, queues: Sequence[MessageQueue], counts: Sequence[int]
    ) -> list[ProducerSequence]:
        """The places of batches that are sent together, for a queue each."""
        begin = ProducerSequence(self._producer_id, 0, 0)
        places = list(map(self._next.get, queues, repeat(begin)))
        producer_ids, epochs, firsts = zip(*places, strict=True)
        rows = zip(producer_ids, epochs, map(add, firsts, counts), strict=True)
        self._next.update(zip(queues, map(_as_sequence, rows), strict=True))
        return places

    def give_back(self, queue: MessageQueue, place: ProducerSequence) -> None:
        """A batch was surely not stored at its place: the next one gets it."""
        following = self._next[queue]
        if place.epoch == following.epoch and place.first_sequence < following.first_sequence:
            self._next[queue] = place

    def begin_anew(self, queue: MessageQueue, place: ProducerSequence) -> None:
        """Nobody knows whether a batch was stored at its place, or the broker knows no stream."""
        if place.epoch == self._next[queue].epoch:
            self._next[queue] = ProducerSequence(self._producer_id, place.epoch + 1, 0)


def new_streams(random: Random) -> QueueStreams:
    """The streams of a producer that is new."""
    return QueueStreams(random.randint(1, PRODUCER_ID_MAX))
