"""Clock and chance, handed in so that tests need neither wait nor wonder."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from random import Random, SystemRandom
from typing import Protocol


class Clock(Protocol):
    """What the client asks of time."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch; may step back."""
        ...

    def monotonic_s(self) -> float:
        """Seconds that never run backwards, from an arbitrary start."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The clock of the machine."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch; may step back."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """Seconds that never run backwards, from an arbitrary start."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


def utc_now() -> datetime:
    """The machine's time, in UTC; may step back."""
    return datetime.now(UTC)


def new_random() -> Random:
    """Chance, seeded by the system; for spreading load, not for secrets."""
    return Random()  # noqa: S311 - not for secrets.


def fork_proof_random() -> Random:
    """Chance of the system: a process and its forks draw different numbers."""
    return SystemRandom()
