"""The clock interface: code that reads the time or waits takes a ``Clock``.

Tests and the simulation pass a ``VirtualClock`` (``ariane_testkit.virtual_clock``).
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

# Only Linux has a clock that also runs while the machine sleeps: a lease must not outlast that.
_STEADY: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """Returns the time, and waits."""

    def now_ms(self) -> int:
        """Return wall-clock time, milliseconds since 1970 UTC. It may jump."""
        ...

    def monotonic(self) -> float:
        """Return seconds since an arbitrary point. It never goes back: measure spans with it.

        It also runs while the machine sleeps.
        """
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for a span; 0 lets other tasks run."""
        ...


class SystemClock:
    """The clock of the machine."""

    def now_ms(self) -> int:
        """Return wall-clock time, milliseconds since 1970 UTC."""
        return time.time_ns() // 1_000_000

    # Asked several times a call: without a step in Python.
    monotonic = staticmethod(partial(time.clock_gettime, _STEADY))
    """Return seconds since an arbitrary point."""

    async def sleep(self, seconds: float) -> None:
        """Wait for a span."""
        await asyncio.sleep(seconds)


async def sleep_until_woken(clock: Clock, seconds: float, woken: asyncio.Event) -> None:
    """Wait for a span, or until an event is set, whichever comes first.

    Args:
        clock: Measures the span.
        seconds: How long at most.
        woken: The event; it stays as it is.
    """
    if isinstance(clock, SystemClock):
        # A timer of the loop, instead of two tasks and a wait for either.
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await woken.wait()
        return
    sleeper = asyncio.ensure_future(clock.sleep(seconds))
    waker = asyncio.ensure_future(woken.wait())
    try:
        await asyncio.wait((sleeper, waker), return_when=asyncio.FIRST_COMPLETED)
    finally:
        sleeper.cancel()
        waker.cancel()
