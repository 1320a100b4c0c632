"""The store's seam to time."""

from __future__ import annotations

import time
from typing import Final, Protocol

# Only Linux has a clock that also runs while the machine sleeps.
_STEADY: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """The clocks that the store uses."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        ...

    def steady_ms(self) -> int:
        """Milliseconds of a clock that cannot be set, and also runs while the machine sleeps."""
        ...

    def local_hour(self, now_ms: int) -> int:
        """Hour of the day, 0 to 23, in the broker's time zone."""
        ...

    def file_stamp(self, now_ms: int) -> str:
        """Local time as ``yyyyMMddHHmmssSSS``: the name of an index file."""
        ...


class SystemClock:
    """The clock of the machine."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def steady_ms(self) -> int:
        """Milliseconds since the machine started."""
        return time.clock_gettime_ns(_STEADY) // 1_000_000

    def local_hour(self, now_ms: int) -> int:
        """Hour of the day in the machine's time zone."""
        return time.localtime(now_ms / 1000).tm_hour

    def file_stamp(self, now_ms: int) -> str:
        """Local time of the machine as ``yyyyMMddHHmmssSSS``."""
        seconds, milliseconds = divmod(now_ms, 1000)
        return time.strftime("%Y%m%d%H%M%S", time.localtime(seconds)) + f"{milliseconds:03d}"
