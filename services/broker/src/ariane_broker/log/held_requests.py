"""Requests that are held until messages arrive: one mechanism for all of them.

A request that may be held has a watch on its queues. The watch remembers in which queues messages
arrived since the request last took that set, also while the request was not waiting. The request
then looks at these queues only, however many it watches. A request that looks at a queue and begins
to watch it in the same turn of the event loop misses no arrival.

``wake`` is called in the loop turn in which messages arrived in a queue, and ends the wait of the
requests that watch this queue. They run in the next turn, once, however many appends there were in
this one. A watch of a reader that wants some tags only learns of messages with the hashes of these
tags, and of those whose hashes are not known; one that waits with a filter, of messages that it
passes (see ``filtered_watches``). A wait also ends when its hold time is over, when it
is interrupted, when the broker stops, and with the call that it belongs to.

Who watches thousands of queues begins with some in each turn of the loop (``watch_also``), and his
watch ends in as many turns. Where thousands watch a queue, they are notified in as many
(``watcher``).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from ariane_broker.errors.public_errors import held_pulls_exhausted
from ariane_broker.interest import Interest
from ariane_broker.log.filtered_watches import FilteredWatches
from ariane_broker.log.watcher import notify_all
from ariane_broker.queue_key import QueueKey
from ariane_storage.store import Store

HOLD_SECONDS_MAX: Final = 30.0

FORGOTTEN_MAX: Final = 256
"""Queues of a watch that are forgotten in one turn of the loop, up to 2 us each."""


class Watch:
    """The queues that a request watches, and those of them in which messages arrived."""

    __slots__ = ("_on_arrival", "_woken", "arrived", "queues")

    def __init__(self, on_arrival: Callable[[], None] | None = None) -> None:
        """Watch no queue yet; ``on_arrival`` is called in the loop turn of each arrival."""
        self.queues: dict[QueueKey, Interest | None] = {}
        """All watched queues, each with the messages that matter; None: all do."""
        self.arrived: dict[QueueKey, None] = {}
        """Queues in which messages arrived, in order; the request removes those that it looks
        at."""
        self._on_arrival = on_arrival
        self._woken: asyncio.Future[None] | None = None

    def end(self) -> None:
        """Call nobody any more."""
        self._on_arrival = None

    def interrupt(self) -> None:
        """End the wait, if there is one, as if its time were over."""
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    async def wait(self, seconds: float) -> bool:
        """Wait until messages arrive in a watched queue; return whether they did."""
        loop = asyncio.get_running_loop()
        self._woken = loop.create_future()
        timer = loop.call_later(seconds, self.interrupt)
        try:
            await self._woken
        finally:
            self._woken = None
            timer.cancel()
        return bool(self.arrived)

    def notify(self, queue: QueueKey) -> None:
        """Note that messages arrived in a watched queue, and end the wait."""
        self.arrived[queue] = None
        self.interrupt()
        if self._on_arrival is not None:
            self._on_arrival()


class HeldRequests:
    """The watches of all requests, by queue, and the requests that wait now."""

    def __init__(self, filtered: FilteredWatches, *, count_max: int) -> None:
        self.filtered = filtered
        """The watches that wait with filters."""
        self._count_max = count_max
        # In order, so that those who came first are notified first.
        self._waiting: dict[Watch, None] = {}
        self._watches: dict[QueueKey, dict[Watch, None]] = {}
        self._tagged: dict[QueueKey, dict[int, dict[Watch, None]]] = {}
        self._open = True

    @property
    def count(self) -> int:
        """The number of requests that wait now."""
        return len(self._waiting)

    @property
    def open(self) -> bool:
        """Whether requests may still wait; False once the broker stops."""
        return self._open

    def watch(
        self,
        queues: Mapping[QueueKey, Interest | None],
        on_arrival: Callable[[], None] | None = None,
    ) -> Watch:
        """Make a watch on some queues; it notes arrivals until ``forget``.

        Args:
            queues: The queues, each with the messages that matter; None: all do.
            on_arrival: Called in the loop turn of each arrival, if the caller does not ``wait``.
        """
        watch = Watch(on_arrival)
        self.watch_also(watch, queues)
        return watch

    def watch_also(self, watch: Watch, queues: Mapping[QueueKey, Interest | None]) -> None:
        """Have a watch note arrivals in more queues."""
        watch.queues.update(queues)
        for queue, interest in queues.items():
            if interest is None:
                self._watches.setdefault(queue, {})[watch] = None
                continue
            for code in interest.tag_codes:
                self._tagged.setdefault(queue, {}).setdefault(code, {})[watch] = None
            for wanted in interest.filters:
                self.filtered.add(queue, wanted, watch)

    def forget(self, watch: Watch) -> None:
        """End a watch, of many queues by and by."""
        watch.end()  # It may yet be told of what has arrived.
        self._forget(watch, tuple(watch.queues))

    def _forget(self, watch: Watch, queues: Sequence[QueueKey]) -> None:
        for queue in queues[:FORGOTTEN_MAX]:
            interest = watch.queues[queue]
            if interest is None:
                _remove(self._watches, queue, watch)
                continue
            tagged = self._tagged.get(queue, {})
            for code in interest.tag_codes:
                _remove(tagged, code, watch)
            if not tagged:
                self._tagged.pop(queue, None)
            for wanted in interest.filters:
                self.filtered.remove(queue, wanted, watch)
        left = queues[FORGOTTEN_MAX:]
        if left:
            asyncio.get_running_loop().call_soon(self._forget, watch, left)

    async def wait(self, watch: Watch, seconds: float) -> bool:
        """Wait until messages arrive in a queue of a watch.

        Args:
            watch: The watch.
            seconds: The longest wait.

        Returns:
            Whether messages have arrived; False when the time was over, the wait was interrupted
            or the broker stops.

        Raises:
            ServiceError: HELD_PULLS_EXHAUSTED.
        """
        if watch.arrived:
            return True
        if not self._open or seconds <= 0:
            return False
        if len(self._waiting) >= self._count_max:
            raise held_pulls_exhausted(self._count_max)
        self._waiting[watch] = None
        try:
            return await watch.wait(min(seconds, HOLD_SECONDS_MAX))
        finally:
            self._waiting.pop(watch, None)

    @property
    def any_tags(self) -> bool:
        """Whether any reader wants messages with some tags only."""
        return bool(self._tagged)

    def wants_tags(self, queue: QueueKey) -> bool:
        """Whether it matters which tags messages of a queue have."""
        return queue in self._tagged

    def wake(self, queue: QueueKey) -> None:
        """Notify all watches on a queue: there may be something for them."""
        self._notify(queue, None)
        notify_all(tuple(dict.fromkeys(self.filtered.watches(queue))), queue)

    def arrived(self, queue: QueueKey, tag_codes: Collection[int] | None = None) -> None:
        """Notify the watches on a queue for which it matters that messages arrived in it.

        Args:
            queue: The queue.
            tag_codes: Hashes of the tags of the messages; None if they are not known.
        """
        if queue in self._watches or queue in self._tagged:
            self._notify(queue, tag_codes)
        if queue in self.filtered.queues:
            self.filtered.arrived(queue)

    def _notify(self, queue: QueueKey, tag_codes: Collection[int] | None) -> None:
        watches = self._watches.get(queue)
        if watches:
            notify_all(tuple(watches), queue)
        tagged = self._tagged.get(queue)
        if tagged:
            codes = tagged if tag_codes is None else tagged.keys() & set(tag_codes)
            wanted = dict.fromkeys(chain.from_iterable(tagged[code] for code in codes))
            notify_all(tuple(wanted), queue)

    def wake_all(self, queues: Iterable[QueueKey]) -> None:
        """Notify all watches on some queues."""
        for queue in dict.fromkeys(queues):
            self.wake(queue)

    def arrived_in(self, arrivals: Iterable[tuple[QueueKey, Collection[int] | None]]) -> None:
        """Messages arrived in some queues; the watches on each are notified once.

        Args:
            arrivals: Queues, the same one perhaps several times, each with hashes of tags as with
                ``arrived``.
        """
        filtered = self.filtered.queues
        if not (self._watches or self._tagged or filtered):
            return
        codes_of: dict[QueueKey, set[int] | None] = {}
        for queue, codes in arrivals:
            if queue in self._watches or queue in self._tagged or queue in filtered:
                known = codes_of.setdefault(queue, set())
                if codes is None:
                    codes_of[queue] = None
                elif known is not None:
                    known.update(codes)
        for queue, wanted in codes_of.items():
            self.arrived(queue, wanted)

    def close(self) -> None:
        """End all waits; requests that come later do not wait."""
        self._open = False
        for watch in self._waiting:
            watch.interrupt()


KeyT = TypeVar("KeyT")


def _remove(watches: dict[KeyT, dict[Watch, None]], key: KeyT, watch: Watch) -> None:
    of_key = watches.get(key, {})
    of_key.pop(watch, None)
    if not of_key:
        watches.pop(key, None)


TAGS_PASSED_MAX: Final = 64
"""With more different tags in one row, all watches are notified: some tag will be wanted."""


class Arrivals:
    """Appended records that are not confirmed yet."""

    def __init__(self, store: Store, held: HeldRequests) -> None:
        self._store = store
        self._held = held
        self._pending: deque[tuple[int, QueueKey, Collection[int] | None]] = deque()

    def appended(
        self,
        queues: Sequence[QueueKey],
        next_commit_log_offsets: Sequence[int],
        tag_codes: NDArray[np.int32] | None = None,
        counts: Sequence[int] = (),
    ) -> None:
        """Note records appended to queues side by side.

        Args:
            queues: The queue of each row of records.
            next_commit_log_offsets: Where the last record of each row ends.
            tag_codes: Hash of the tag of each record, row after row; None if they are not known.
            counts: Number of records of each row, where their tags are known.
        """
        codes: Sequence[Collection[int] | None] = [None] * len(queues)
        if tag_codes is not None and self._held.any_tags:
            codes = self._codes_of_rows(queues, tag_codes, counts)
        if self._pending or next_commit_log_offsets[-1] > self._store.confirmed_offset:
            self._pending.extend(zip(next_commit_log_offsets, queues, codes, strict=True))
        elif len(queues) == 1:
            self._held.arrived(queues[0], codes[0])
        else:
            self._held.arrived_in(zip(queues, codes, strict=True))

    def confirm(self) -> None:
        """The confirmed end has moved: wake the requests that wait for messages before it."""
        confirmed = self._store.confirmed_offset
        come: list[tuple[QueueKey, Collection[int] | None]] = []
        while self._pending and self._pending[0][0] <= confirmed:
            come.append(self._pending.popleft()[1:])
        if come:
            self._held.arrived_in(come)

    def _codes_of_rows(
        self, queues: Sequence[QueueKey], tag_codes: NDArray[np.int32], counts: Sequence[int]
    ) -> list[Collection[int] | None]:
        """The different hashes of each row's tags; None where they do not matter, or are many."""
        found: list[Collection[int] | None] = []
        end = 0
        for queue, count in zip(queues, counts, strict=True):
            begin, end = end, end + count
            if not self._held.wants_tags(queue):
                found.append(None)
                continue
            codes = tag_codes[begin:end]
            if count > TAGS_PASSED_MAX:
                codes = np.unique(codes)
            found.append(codes.tolist() if len(codes) <= TAGS_PASSED_MAX else None)
        return found
