"""The time after a name server's start in which it cannot know all brokers yet."""

from __future__ import annotations

from ariane_servicekit import Clock


class WarmUp:
    """Whether brokers may be missing because the name server has just started.

    No event ends it early: a name server cannot know how many brokers exist, only that each one
    would have reported by now.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._began_s: float | None = None

    def begin(self) -> None:
        """Start the time: brokers can reach the name server from now on."""
        self._began_s = self._clock.monotonic()

    def lasts(self) -> bool:
        """Whether brokers may still be missing."""
        if self._began_s is None:
            return True
        return self._clock.monotonic() - self._began_s < self._seconds
