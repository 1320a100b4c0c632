"""Callbacks that wait for the commit log up to an offset, each until a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from ariane_servicekit.errors import ServiceError

OnDone: TypeAlias = Callable[[ServiceError | None], None]
"""A callback, called once: with None when a condition holds, with the error when it may not."""


class OffsetWaits:
    """Callbacks that wait for the log up to an offset. Lives on one event loop."""

    def __init__(self, seconds_max: float, error: Callable[[], ServiceError]) -> None:
        """``error`` makes the error for a callback that has waited for ``seconds_max``."""
        self._seconds_max = seconds_max
        self._error = error
        # Offset, deadline by the clock of the event loop, and callback; by deadline.
        self._waits: list[tuple[int, float, OnDone]] = []
        self._alarm: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waits)

    def add(self, commit_log_offset: int, on_done: OnDone) -> None:
        """Keep a callback; unless it is taken before its deadline, it is called with the error."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._seconds_max
        self._waits.append((commit_log_offset, deadline_s, on_done))
        if self._alarm is None:
            self._alarm = loop.call_at(deadline_s, self._expire)

    def oldest_s(self, commit_log_offset: int) -> float:
        """Seconds that the oldest callback has waited; 0 if it waits for a later offset."""
        if not self._waits or self._waits[0][0] > commit_log_offset:
            return 0.0
        return self._seconds_max - (self._waits[0][1] - asyncio.get_running_loop().time())

    def take_up_to(self, commit_log_offset: int) -> list[OnDone]:
        """Remove and return the callbacks that wait for this offset or an earlier one, in order."""
        taken = [on_done for end, _, on_done in self._waits if end <= commit_log_offset]
        if taken:
            self._waits = [wait for wait in self._waits if wait[0] > commit_log_offset]
        return taken

    def take_all(self) -> list[OnDone]:
        """Remove and return all callbacks, in order."""
        waits, self._waits = self._waits, []
        return [on_done for _, _, on_done in waits]

    def _expire(self) -> None:
        """Call the callbacks whose deadline has passed."""
        self._alarm = None
        loop = asyncio.get_running_loop()
        # A timer may fire a little before its time by the loop's clock.
        now_s = loop.time() + 0.001
        late = [on_done for _, deadline_s, on_done in self._waits if deadline_s <= now_s]
        self._waits = self._waits[len(late) :]
        if self._waits:
            self._alarm = loop.call_at(self._waits[0][1], self._expire)
        for on_done in late:
            on_done(self._error())
