"""A running clock that can be moved forward."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress


class ForwardClock:
    """A clock as fast as the machine's, and further ahead of it with each ``advance``.

    So clients and broker work together as always, and a test can make a timer of hours due. Any
    thread may move the clock; sleepers wake on their own loop.
    """

    def __init__(self) -> None:
        self._ahead_s = 0.0
        self._lock = threading.Lock()
        self._sleepers: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    def now_ms(self) -> int:
        """Return wall-clock time, milliseconds since 1970 UTC."""
        return time.time_ns() // 1_000_000 + round(self._ahead_s * 1000)

    def monotonic(self) -> float:
        """Return seconds since an arbitrary point."""
        return time.monotonic() + self._ahead_s

    async def sleep(self, seconds: float) -> None:
        """Wait for a span of this clock."""
        due = self.monotonic() + seconds
        sleeper = (asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            self._sleepers.add(sleeper)
        try:
            while (rest := due - self.monotonic()) > 0:
                with suppress(TimeoutError):
                    await asyncio.wait_for(sleeper[1].wait(), rest)
                sleeper[1].clear()
        finally:
            with self._lock:
                self._sleepers.discard(sleeper)

    def advance(self, seconds: float) -> None:
        """Move the clock forward; sleepers that are due wake at once.

        Raises:
            ValueError: ``seconds`` is negative.
        """
        if seconds < 0:
            raise ValueError("time does not go back")
        with self._lock:
            self._ahead_s += seconds
            for loop, moved in self._sleepers:
                loop.call_soon_threadsafe(moved.set)
