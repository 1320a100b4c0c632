"""A walk over all queues that an order may be served from, some in each turn of the loop.

It begins at a random queue, so that one with a deep backlog does not starve others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice, repeat
from typing import Final

from ariane_broker.queue_key import QueueKey
from ariane_servicekit import EXAMINED_MAX

QUEUES_MAX: Final = EXAMINED_MAX
"""Queues that a receive looks at in one turn of the loop; the next turn goes on behind them."""


# `tuple.__new__` by way of `partial`: no Python statement for each queue.
_new_queue_key = partial(tuple.__new__, QueueKey)


class QueueWalk:
    """The queues that are still to be looked at."""

    def __init__(self, counts: Mapping[str, int], first: int) -> None:
        """Begin with the ``first`` queue, counted over the topics from 0; all before it are last.

        Args:
            counts: The number of queues of each topic.
            first: Below their sum.
        """
        self._ahead: Iterator[QueueKey] = _queues_from(counts, first)
        self._first: deque[QueueKey] = deque()
        self._again: deque[QueueKey] = deque()

    def take(self) -> list[QueueKey]:
        """The next queues to look at, ``QUEUES_MAX`` at most; none at the end of the walk."""
        queues: list[QueueKey] = []
        while self._first and len(queues) < QUEUES_MAX:
            queues.append(self._first.popleft())
        queues += islice(self._ahead, QUEUES_MAX - len(queues))
        while self._again and len(queues) < QUEUES_MAX:
            queues.append(self._again.popleft())
        return queues

    def put_first(self, queues: Sequence[QueueKey]) -> None:
        """Look at some queues next that were taken and not looked at."""
        self._first.extendleft(reversed(queues))

    def put_back(self, queues: Iterable[QueueKey]) -> None:
        """Look at some queues again, behind all others."""
        self._again.extend(queues)


def _queues_from(counts: Mapping[str, int], first: int) -> Iterator[QueueKey]:
    behind, before = [], []
    for topic, count in counts.items():
        cut = min(max(0, first), count)
        behind.append(_queues(topic, cut, count))
        if cut:
            before.append(_queues(topic, 0, cut))
        first -= count
    return chain.from_iterable(behind + before)


def _queues(topic: str, begin: int, end: int) -> Iterator[QueueKey]:
    return map(_new_queue_key, zip(repeat(topic), range(begin, end), strict=False))
