"""Requests that are held until something arrives: one mechanism for all of them.

A held request waits for one of its keys. A key is whatever may become ready; for pulls it is a
queue. ``wake`` is called in the loop turn in which something arrived and ends the wait of exactly
those that wait for the key: they run in the next turn, once, however many appends there were in
this one. A wait also ends when its hold time is over, when the broker stops, and with the call
that it belongs to.

Whoever waits looks first and waits in the same loop turn, so that nothing can arrive in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Hashable, Iterable
from typing import Final

from ariane_broker.errors import held_pulls_exhausted

HOLD_SECONDS_MAX: Final = 30.0


class HeldRequests:
    """Who waits for what."""

    def __init__(self, *, count_max: int) -> None:
        """Start with nobody waiting.

        Args:
            count_max: How many may wait at a time.
        """
        self._count_max = count_max
        self._count = 0
        self._waiting: dict[Hashable, set[asyncio.Future[bool]]] = {}
        self._open = True

    @property
    def count(self) -> int:
        """How many wait now."""
        return self._count

    @property
    def open(self) -> bool:
        """Whether anybody may still wait: until the broker stops."""
        return self._open

    async def wait(self, keys: Collection[Hashable], seconds: float) -> bool:
        """Wait until one of the keys is woken.

        Args:
            keys: What to wait for.
            seconds: The longest wait.

        Returns:
            Whether a key was woken; False when the time was over or the broker stops.

        Raises:
            ServiceError: HELD_PULLS_EXHAUSTED.
        """
        if not self._open or seconds <= 0:
            return False
        if self._count >= self._count_max:
            raise held_pulls_exhausted(self._count_max)
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[bool] = loop.create_future()
        timer = loop.call_later(min(seconds, HOLD_SECONDS_MAX), _end, woken, False)  # noqa: FBT003 - the result.
        for key in keys:
            self._waiting.setdefault(key, set()).add(woken)
        self._count += 1
        try:
            return await woken
        finally:
            self._count -= 1
            timer.cancel()
            for key in keys:
                self._forget(key, woken)

    def wake(self, key: Hashable) -> None:
        """Something arrived for the key."""
        for woken in self._waiting.pop(key, ()):
            _end(woken, True)  # noqa: FBT003 - the result.

    def wake_all(self, keys: Iterable[Hashable]) -> None:
        """Something arrived for each of the keys."""
        if self._waiting:
            for key in keys:
                self.wake(key)

    def close(self) -> None:
        """End all waits, and let nobody wait any more."""
        self._open = False
        for waiting in self._waiting.values():
            for woken in waiting:
                _end(woken, False)  # noqa: FBT003 - the result.
        self._waiting.clear()

    def _forget(self, key: Hashable, woken: asyncio.Future[bool]) -> None:
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.discard(woken)
            if not waiting:
                del self._waiting[key]


def _end(woken: asyncio.Future[bool], result: bool) -> None:
    if not woken.done():
        woken.set_result(result)
