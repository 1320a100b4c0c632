"""Clock and random numbers, passed in so that tests need not wait and are repeatable."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from random import Random, SystemRandom
from typing import Protocol


class Clock(Protocol):
    """The clock that the client uses."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch; may step back."""
        ...

    def monotonic_s(self) -> float:
        """Seconds that never go back, from an arbitrary start."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The clock of the machine."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch; may step back."""
        return time.time_ns() // 1_000_000

    # The function itself: a listener that is called for each message asks twice for each.
    monotonic_s = staticmethod(time.monotonic)
    """Seconds that never go back, from an arbitrary start."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


def utc_now() -> datetime:
    """The machine's time, in UTC; may step back."""
    return datetime.now(UTC)


def new_random() -> Random:
    """Random numbers, seeded by the system; for spreading load, not for secrets."""
    return Random()  # noqa: S311 - not for secrets.


def fork_proof_random() -> Random:
    """Random numbers of the system: a process and its forks draw different ones."""
    return SystemRandom()
