"""The recent failures of a filter version, whichever of its workers failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

STRIKES_MAX: Final = 3
STRIKE_S: Final = 600.0
"""Age at which a strike is forgotten."""


class Strikes:
    """Counts failures, and forgets old ones."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._times: list[float] = []

    @property
    def count(self) -> int:
        """The number of recent failures, at most ``STRIKES_MAX``."""
        since = self._monotonic() - STRIKE_S
        return sum(time > since for time in self._times)

    def add(self) -> None:
        """Count a failure."""
        self._times = [*self._times[1 - STRIKES_MAX :], self._monotonic()]

    def clear(self) -> None:
        """Forget all."""
        self._times.clear()
