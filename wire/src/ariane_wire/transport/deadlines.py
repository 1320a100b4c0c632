"""Deadlines of calls, without a timer for each.

Time is cut into ticks, and each tick that has deadlines has a table of them, in order. One timer
waits for the earliest table. A call that ends in time is taken out of its table, which touches no
timer.
"""

from __future__ import annotations

import asyncio
from heapq import heappop, heappush
from typing import Final, Protocol

TICKS_PER_S: Final = 128
"""A deadline is noticed up to 8 ms late, and never early."""


class Expiring(Protocol):
    """Something with a deadline."""

    def expire(self) -> None:
        """The deadline has passed."""


class Deadlines:
    """The deadlines of one loop's calls."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._members: dict[int, dict[Expiring, None]] = {}
        self._ticks: list[int] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_tick = 0

    def add(self, when_s: float, what: Expiring) -> dict[Expiring, None]:
        """Have something expire.

        Args:
            when_s: By the loop's clock.
            what: What expires; it takes itself out of the returned table if it ends before.
        """
        tick = int(when_s * TICKS_PER_S) + 1
        members = self._members.get(tick)
        if members is None:
            members = self._members[tick] = {}
            heappush(self._ticks, tick)
            if self._timer is None or tick < self._timer_tick:
                self._arm(tick)
        members[what] = None
        return members

    def close(self) -> None:
        """Forget all deadlines."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._members.clear()
        self._ticks.clear()

    def _arm(self, tick: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_tick = tick
        self._timer = self._loop.call_at(tick / TICKS_PER_S, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now_tick = self._loop.time() * TICKS_PER_S
        while self._ticks:
            tick = self._ticks[0]
            members = self._members[tick]
            # Tables whose calls have all ended are dropped on the way to the next that has some.
            if members and tick > now_tick + 0.5:
                self._arm(tick)
                return
            heappop(self._ticks)
            del self._members[tick]
            for member in list(members):
                member.expire()
