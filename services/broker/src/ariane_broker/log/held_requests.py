"""Requests that are held until something arrives: one mechanism for all of them.

Whoever may be held watches queues. Its watch remembers in which of them something arrived since it
last took them, whether it was waiting then or not, so that it looks at those and at no other,
however many it watches. Whoever looks at a queue and watches it in the same loop turn misses
nothing.

``wake`` is called in the loop turn in which something arrived and ends the wait of exactly those
that watch the queue: they run in the next turn, once, however many appends there were in this one.
A wait also ends when its hold time is over, when it is interrupted, when the broker stops, and with
the call that it belongs to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import Final

from ariane_broker.errors import held_pulls_exhausted
from ariane_broker.queue_key import QueueKey

HOLD_SECONDS_MAX: Final = 30.0


class Watch:
    """Some queues, and in which of them something arrived.

    Attributes:
        queues: All of them.
        arrived: Those in which something arrived; whoever looks at them takes them away.
    """

    __slots__ = ("_told", "_woken", "arrived", "queues")

    def __init__(
        self, queues: Collection[QueueKey], told: Callable[[], None] | None = None
    ) -> None:
        """Watch queues; ``told`` is called, if given, in the loop turn of each arrival."""
        self.queues = queues
        self.arrived: set[QueueKey] = set()
        self._told = told
        self._woken: asyncio.Future[None] | None = None

    def interrupt(self) -> None:
        """End the wait, if there is one, as if its time were over."""
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    async def wait(self, seconds: float) -> bool:
        """Wait until something arrives; whether it did."""
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
        """Something arrived in a queue."""
        self.arrived.add(queue)
        self.interrupt()
        if self._told is not None:
            self._told()


class HeldRequests:
    """Who watches what, and who waits."""

    def __init__(self, *, count_max: int) -> None:
        self._count_max = count_max
        self._waiting: set[Watch] = set()
        self._watches: dict[QueueKey, set[Watch]] = {}
        self._open = True

    @property
    def count(self) -> int:
        """How many wait now."""
        return len(self._waiting)

    @property
    def open(self) -> bool:
        """Whether anybody may still wait: until the broker stops."""
        return self._open

    def watch(self, queues: Iterable[QueueKey], told: Callable[[], None] | None = None) -> Watch:
        """Take note of what arrives in some queues, until it is forgotten.

        Args:
            queues: The queues.
            told: Called in the loop turn of each arrival; for those who wait for others.
        """
        watch = Watch(frozenset(queues), told)
        for queue in watch.queues:
            self._watches.setdefault(queue, set()).add(watch)
        return watch

    def forget(self, watch: Watch) -> None:
        """Take no note for it any longer."""
        for queue in watch.queues:
            watches = self._watches[queue]
            watches.discard(watch)
            if not watches:
                del self._watches[queue]

    async def wait(self, watch: Watch, seconds: float) -> bool:
        """Wait until something arrives that is watched.

        Args:
            watch: Says for what to wait.
            seconds: The longest wait.

        Returns:
            Whether something has arrived; False when the time was over, the wait was interrupted
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
        self._waiting.add(watch)
        try:
            return await watch.wait(min(seconds, HOLD_SECONDS_MAX))
        finally:
            self._waiting.discard(watch)

    def wake(self, queue: QueueKey) -> None:
        """Something arrived in the queue."""
        for watch in self._watches.get(queue, ()):
            watch.tell(queue)

    def wake_all(self, queues: Iterable[QueueKey]) -> None:
        """Something arrived in each of the queues."""
        if self._watches:
            for queue in self._watches.keys() & queues:
                self.wake(queue)

    def close(self) -> None:
        """End all waits, and let nobody wait any more."""
        self._open = False
        for watch in self._waiting:
            watch.interrupt()
