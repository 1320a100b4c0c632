"""Whether a relay gets anywhere: what waits and does not move is to be told, and not for ever."""

from __future__ import annotations

from typing import NamedTuple

from ariane_sdk.runtime.clock import Clock


class Standstill(NamedTuple):
    """How long a relay has not got anywhere; of interest while something waits.

    Attributes:
        idle_s: Seconds since it last had a message stored or parked, or one refused that is parked
            after some more refusals; since its start, if it never had.
        error: The last failure in this time; None if nothing has failed.
    """

    idle_s: float
    error: Exception | None


class RelayPulse:
    """Is told of what moves and what fails."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._moved_s = clock.monotonic_s()
        self._error: Exception | None = None

    def moved(self) -> None:
        """Something was stored or parked, or came nearer to it."""
        self._moved_s = self._clock.monotonic_s()
        self._error = None

    def failed(self, error: Exception) -> None:
        """Something was tried in vain."""
        self._error = error

    def standstill(self) -> Standstill:
        """How long nothing has moved, and why."""
        return Standstill(self._clock.monotonic_s() - self._moved_s, self._error)
