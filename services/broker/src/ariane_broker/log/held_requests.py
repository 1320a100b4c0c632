"""Requests that are held until messages arrive: one mechanism for all of them.

A request that may be held has a watch on its queues. The watch remembers in which queues messages
arrived since the request last took that set, also while the request was not waiting. The request
then looks at these queues only, however many it watches. A request that looks at a queue and begins
to watch it in the same turn of the event loop misses no arrival.

``wake`` is called in the loop turn in which messages arrived in a queue, and ends the wait of the
requests that watch this queue. They run in the next turn, once, however many appends there were in
this one. A wait also ends when its hold time is over, when it is interrupted, when the broker
stops, and with the call that it belongs to.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from ariane_broker.errors.public_errors import held_pulls_exhausted
from ariane_broker.queue_key import QueueKey
from ariane_storage.store import Store

HOLD_SECONDS_MAX: Final = 30.0


class Watch:
    """The queues that a request watches, and those of them in which messages arrived.

    Attributes:
        queues: All watched queues.
        arrived: Queues in which messages arrived, in order; the request removes those that it
            looks at.
    """

    __slots__ = ("_on_arrival", "_woken", "arrived", "queues")

    def __init__(
        self, queues: Collection[QueueKey], on_arrival: Callable[[], None] | None = None
    ) -> None:
        """Watch queues; ``on_arrival`` is called, if given, in the loop turn of each arrival."""
        self.queues = queues
        self.arrived: dict[QueueKey, None] = {}
        self._on_arrival = on_arrival
        self._woken: asyncio.Future[None] | None = None

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

    def tell(self, queue: QueueKey) -> None:
        """Note that messages arrived in a watched queue, and end the wait."""
        self.arrived[queue] = None
        self.interrupt()
        if self._on_arrival is not None:
            self._on_arrival()


class HeldRequests:
    """The watches of all requests, by queue, and the requests that wait now."""

    def __init__(self, *, count_max: int) -> None:
        self._count_max = count_max
        # In order, so that those who came first are told first.
        self._waiting: dict[Watch, None] = {}
        self._watches: dict[QueueKey, dict[Watch, None]] = {}
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
        self, queues: Iterable[QueueKey], on_arrival: Callable[[], None] | None = None
    ) -> Watch:
        """Make a watch on some queues; it notes arrivals until ``forget``.

        Args:
            queues: The queues.
            on_arrival: Called in the loop turn of each arrival, if the caller does not ``wait``.
        """
        watch = Watch(dict.fromkeys(queues), on_arrival)
        for queue in watch.queues:
            self._watches.setdefault(queue, {})[watch] = None
        return watch

    def forget(self, watch: Watch) -> None:
        """End a watch."""
        for queue in watch.queues:
            watches = self._watches[queue]
            watches.pop(watch, None)
            if not watches:
                del self._watches[queue]

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

    def wake(self, queue: QueueKey) -> None:
        """Notify all watches on a queue that messages arrived in it."""
        for watch in self._watches.get(queue, ()):
            watch.tell(queue)

    def wake_all(self, queues: Iterable[QueueKey]) -> None:
        """Notify all watches on some queues that messages arrived in them."""
        if self._watches:
            for queue in filter(self._watches.__contains__, dict.fromkeys(queues)):
                self.wake(queue)

    def close(self) -> None:
        """End all waits; requests that come later do not wait."""
        self._open = False
        for watch in self._waiting:
            watch.interrupt()


class Arrivals:
    """Appended records that are not confirmed yet."""

    def __init__(self, store: Store, held: HeldRequests) -> None:
        self._store = store
        self._held = held
        self._pending: deque[tuple[int, QueueKey]] = deque()

    def appended(self, queue: QueueKey, next_commit_log_offset: int) -> None:
        """Note records appended to a queue; the last one ends at this commit-log offset."""
        if not self._pending and next_commit_log_offset <= self._store.confirmed_offset:
            self._held.wake(queue)
        else:
            self._pending.append((next_commit_log_offset, queue))

    def appended_at_once(
        self, queues: Sequence[QueueKey], next_commit_log_offsets: Sequence[int]
    ) -> None:
        """Records were appended to queues side by side; those of each end at such an offset."""
        if not self._pending and next_commit_log_offsets[-1] <= self._store.confirmed_offset:
            self._held.wake_all(queues)
        else:
            self._pending.extend(zip(next_commit_log_offsets, queues, strict=True))

    def confirm(self) -> None:
        """The confirmed end has moved: wake the requests that wait for messages before it."""
        confirmed = self._store.confirmed_offset
        while self._pending and self._pending[0][0] <= confirmed:
            self._held.wake(self._pending.popleft()[1])
