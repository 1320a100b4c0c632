"""How fast a task reads: a backfill must leave brokers room for those who read what is new."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

CATCH_UP_S: Final = 1.0
"""A task that was slow, because of its data, may read faster than its rate for so long after."""


class Pace:
    """Of one task. A broker whose bytes are not taken reads no further ahead than some chunks."""

    def __init__(
        self,
        bytes_per_s: float | None,
        *,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Keep to a rate; ``None``: to none."""
        self._bytes_per_s = bytes_per_s
        self._sleep = sleep
        self._monotonic = monotonic
        self._due_s = monotonic()

    def keep(self, byte_count: int) -> None:
        """Wait until some bytes that have just come are due."""
        if self._bytes_per_s is None:
            return
        now_s = self._monotonic()
        self._due_s = max(self._due_s, now_s - CATCH_UP_S) + byte_count / self._bytes_per_s
        if self._due_s > now_s:
            self._sleep(self._due_s - now_s)
