"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from typing import Final

_TURNS: Final = 20
"""Turns of the loop that woken tasks get before time goes on."""


class VirtualClock:
    """A ``Clock`` that stands still until it is moved. Monotonic time begins at 0."""

    def __init__(self, now_ms: int = 1_767_225_600_000) -> None:
        self._begin_ms = now_ms
        self._elapsed_s = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now_ms(self) -> int:
        """Return wall-clock time, milliseconds since 1970 UTC."""
        return self._begin_ms + round(self._elapsed_s * 1000)

    def monotonic(self) -> float:
        """Return seconds since the clock was made."""
        return self._elapsed_s

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock was moved so far."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed_s + seconds, next(self._order), woken))
        await woken

    def advance(self, seconds: float) -> None:
        """Move time at once, for code that does not sleep; wakes whoever is due."""
        self._elapsed_s += seconds
        while self._sleepers and self._sleepers[0][0] <= self._elapsed_s:
            self._wake_next()

    def jump(self, seconds: float) -> None:
        """Move wall-clock time alone, as whoever sets the machine's clock does."""
        self._begin_ms += round(seconds * 1000)

    async def elapse(self, seconds: float) -> None:
        """Move time from sleeper to sleeper, letting each run before time goes on."""
        end_s = self._elapsed_s + seconds
        await self._settle()
        while self._sleepers and self._sleepers[0][0] <= end_s:
            self._elapsed_s = max(self._elapsed_s, self._sleepers[0][0])
            self._wake_next()
            await self._settle()
        self._elapsed_s = end_s

    def _wake_next(self) -> None:
        _, _, woken = heapq.heappop(self._sleepers)
        if not woken.done():
            woken.set_result(None)

    async def _settle(self) -> None:
        for _ in range(_TURNS):
            await asyncio.sleep(0)
