"""Watches of readers that want what a filter passes: each filter looks once, for all of them.

::

    queue        ... | x x x | y x |          x: the filter leaves it out, y: it passes
                 ^ the readers wait here
    arrival 1        [looked at]              nobody is notified
    arrival 2                [looked at]      all readers with this filter are notified

Filters look at what has arrived in the loop turn behind the arrival, a few in each. What one has
left out, the readers with this filter need not look at: their reads begin behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from ariane_broker.log.watcher import Watcher, notify_all
from ariane_broker.queue_key import QueueKey
from ariane_broker.turn_budget import TurnBudget
from ariane_storage.disk.cold import IN_MEMORY, BytesCold
from ariane_storage.errors import StorageError
from ariane_storage.reading.filter import Filter
from ariane_storage.store import Store

LOOKS_MAX: Final = 16
"""Looks of filters in one turn of the loop, some 200 us each, and fewer of filters that compare
much (``TurnBudget``); the next turn goes on."""

LOOKED_AT_MAX: Final = 1024
"""Messages of one look at most."""

LOOKED_AT_BYTES_MAX: Final = 1 << 20
"""Bytes of records of one look, about."""


@dataclass(slots=True)
class Judged:
    """What one filter has seen of a queue, and who waits for what it passes."""

    clear_from: int
    """From this queue offset up to ``clear_to`` it passes nothing."""
    clear_to: int
    seen_to: int
    """It has looked at messages before this queue offset, or their readers were notified."""
    watches: dict[Watcher, None] = field(default_factory=dict)
    """Who waits for messages that it passes."""

    def passes_nothing_before(self, queue_offset: int) -> None:
        """Go on to a queue offset; nothing of what it has looked at passes."""
        if self.clear_to != self.seen_to:
            self.clear_from = self.seen_to
        self.clear_to = self.seen_to = queue_offset


class FilteredWatches:
    """The filters that readers of queues wait with, and their watches."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.queues: dict[QueueKey, dict[Filter, Judged]] = {}
        """By queue: the filters that readers wait with, and what each has seen."""
        # In order of arrival.
        self._due: dict[tuple[QueueKey, Filter], None] = {}
        self._called = False

    def add(self, queue: QueueKey, wanted: Filter, watch: Watcher) -> None:
        """Tell a watch of messages that a filter passes, from the queue's present end on."""
        judged = self.queues.setdefault(queue, {})
        if wanted not in judged:
            end = self._end(queue)
            judged[wanted] = Judged(end, end, end)
        judged[wanted].watches[watch] = None

    def remove(self, queue: QueueKey, wanted: Filter, watch: Watcher) -> None:
        """Tell a watch no more."""
        judged = self.queues[queue]
        watches = judged[wanted].watches
        watches.pop(watch, None)
        if not watches:
            del judged[wanted]
            self._due.pop((queue, wanted), None)
        if not judged:
            del self.queues[queue]

    def watches(self, queue: QueueKey) -> list[Watcher]:
        """All watches of a queue."""
        return [each for one in self.queues.get(queue, {}).values() for each in one.watches]

    def arrived(self, queue: QueueKey) -> None:
        """Have the filters look at what arrived in a queue, in the next turn of the loop."""
        for wanted in self.queues.get(queue, ()):
            self._due[queue, wanted] = None
        self._call()

    def passed_over(self, queue: QueueKey, wanted: Filter, queue_offset: int) -> int:
        """Where a read with a filter may begin: behind what the filter is known to leave out."""
        judged = self.queues.get(queue)
        one = None if judged is None else judged.get(wanted)
        if one is None or not one.clear_from <= queue_offset < one.clear_to:
            return queue_offset
        return max(queue_offset, min(one.clear_to, self._end(queue)))

    def begin_anew(self, topics: Collection[str]) -> Iterator[None]:
        """Queues of topics were deleted: what filters saw of them says nothing of later ones.

        Yields once for each queue and filter that is examined; later ones do not exist before.
        """
        for queue in list(self.queues):
            if queue.topic in topics:
                for one in list(self.queues.get(queue, {}).values()):
                    one.clear_from = one.clear_to = one.seen_to = self._end(queue)
                    yield None
            yield None

    def _call(self) -> None:
        if self._due and not self._called:
            self._called = True
            asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        self._called = False
        budget = TurnBudget()
        for queue, wanted in tuple(islice(self._due, LOOKS_MAX)):
            if budget.is_spent():
                break
            one = self.queues[queue][wanted]
            del self._due[queue, wanted]
            if not self._is_done(queue, wanted, one, budget):
                self._due[queue, wanted] = None
        self._call()

    def _is_done(self, queue: QueueKey, wanted: Filter, one: Judged, budget: TurnBudget) -> bool:
        """Look once; tell the readers if something passes. Returns whether nothing is left."""
        try:
            with IN_MEMORY:
                read = self._store.read_queue(
                    *queue,
                    one.seen_to,
                    max_count=LOOKED_AT_MAX,
                    max_bytes=LOOKED_AT_BYTES_MAX,
                    wanted=wanted,
                )
        except (BytesCold, StorageError):
            read = None  # The readers find out.
        budget.count_read(0 if read is None else read.looked_at_bytes, wanted)
        if read is not None and not read.count and not len(read.lost_offsets):
            one.passes_nothing_before(read.next_queue_offset)
            return read.next_queue_offset >= read.max_queue_offset
        one.seen_to = self._end(queue)
        notify_all(tuple(one.watches), queue)
        return True

    def _end(self, queue: QueueKey) -> int:
        try:
            return self._store.queue_bounds(*queue)[1]
        except StorageError:
            return 0  # Closed.
