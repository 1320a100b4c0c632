"""The progress of a relay: how long it has stood still, and the last error."""

from __future__ import annotations

from typing import NamedTuple

from ariane_sdk.runtime.clock import Clock


class Standstill(NamedTuple):
    """How long a relay has made no progress; of interest while messages wait."""

    idle_s: float
    """Seconds since a message was last stored or parked, or refused on its way to being parked;
    since the relay's start, if never."""
    error: Exception | None
    """The last failure in this time; None without one."""


class RelayPulse:
    """Records the relay's progress and failures."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._moved_s = clock.monotonic_s()
        self._error: Exception | None = None

    def moved(self) -> None:
        """Note progress: a message was stored or parked, or came nearer to it."""
        self._moved_s = self._clock.monotonic_s()
        self._error = None

    def failed(self, error: Exception) -> None:
        """Note a failure."""
        self._error = error

    def standstill(self) -> Standstill:
        """How long there was no progress, and the last failure."""
        return Standstill(self._clock.monotonic_s() - self._moved_s, self._error)
