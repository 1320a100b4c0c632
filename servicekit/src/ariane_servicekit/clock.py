"""The clock seam: everything that asks for the time or waits for it takes a ``Clock``.

Tests and the simulation give a ``VirtualClock`` (``ariane_servicekit.testing``).
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time and waits."""

    def now_ms(self) -> int:
        """Return wall-clock time, milliseconds since 1970 UTC. It may jump."""
        ...

    def monotonic(self) -> float:
        """Return seconds since an arbitrary point. It never goes back: measure spans with it."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for a span; 0 lets other tasks run."""
        ...


class SystemClock:
    """The clock of the machine."""

    def now_ms(self) -> int:
        """Return wall-clock time, milliseconds since 1970 UTC."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Return seconds since an arbitrary point."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait for a span."""
        await asyncio.sleep(seconds)
