"""The first moments of a name server, in which it cannot know all brokers yet."""

from __future__ import annotations

from ariane_servicekit import Clock


class WarmUp:
    """Whether brokers may be missing because the name server has just started.

    Nothing ends it early: a name server never learns how many brokers there are, only that each
    would have spoken by now.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._began_s: float | None = None

    def begin(self) -> None:
        """Brokers can reach the name server from now on."""
        self._began_s = self._clock.monotonic()

    def lasts(self) -> bool:
        """Whether it is not over."""
        if self._began_s is None:
            return True
        return self._clock.monotonic() - self._began_s < self._seconds
