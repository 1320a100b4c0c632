"""A clock that stands still until a test moves it."""

from __future__ import annotations

from typing import Final

_HOUR_MS: Final = 3_600_000


class FixedClock:
    """A clock that a test sets; its time zone is UTC."""

    def __init__(self, time_ms: int = 1_700_000_000_000) -> None:
        self.time_ms = time_ms
        """Milliseconds since the epoch."""
        self._steady_ms = 0

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return self.time_ms

    def steady_ms(self) -> int:
        """Milliseconds that have passed."""
        return self._steady_ms

    def advance(self, milliseconds: int) -> None:
        """Let time pass."""
        self.time_ms += milliseconds
        self._steady_ms += milliseconds

    def jump(self, milliseconds: int) -> None:
        """Set the clock, ahead or back, while no time passes."""
        self.time_ms += milliseconds

    def local_hour(self, now_ms: int) -> int:
        """Hour of the day."""
        return now_ms // _HOUR_MS % 24

    def file_stamp(self, now_ms: int) -> str:
        """A stamp of 17 digits that grows with time."""
        return f"{now_ms:017d}"
