"""A rate: what was taken is paid by time, and who owes too much has to wait.

::

    now            paid_s
     |---- debt ----|          each second pays ``per_s``; a charge moves ``paid_s`` on

Up to ``BURST_S`` of rest are kept, so that what is even on the whole is never slowed.
"""

from __future__ import annotations

from typing import Final

BURST_S: Final = 1.0
"""Seconds of rest that a rate remembers."""

MEAN_S: Final = 10.0
"""Seconds that are counted together at least, to tell how much a second takes."""


class Rate:
    """Bytes or calls in a second; times are seconds of a monotonic clock."""

    __slots__ = ("_begun_s", "_mean", "_paid_s", "_taken", "per_s")

    def __init__(self, per_s: int, now_s: float) -> None:
        self.per_s = per_s
        """How much one second pays."""
        self._paid_s = now_s - BURST_S
        self._begun_s = now_s
        self._taken = 0
        self._mean: float | None = None

    def charge(self, amount: int, now_s: float) -> None:
        """Take an amount, whatever is owed already."""
        if now_s - self._begun_s >= MEAN_S:
            self._turn(now_s)
        self._taken += amount
        self._paid_s = max(self._paid_s, now_s - BURST_S) + amount / self.per_s

    def debt_s(self, now_s: float) -> float:
        """How long it takes until all is paid; 0 if nothing is owed."""
        return max(0.0, self._paid_s - now_s)

    def mean(self, now_s: float) -> float:
        """How much a second took, in the last ``MEAN_S`` that are over, or since the beginning."""
        if now_s - self._begun_s >= MEAN_S:
            self._turn(now_s)
        if self._mean is None:
            return self._taken / max(BURST_S, now_s - self._begun_s)
        return self._mean

    def _turn(self, now_s: float) -> None:
        self._mean = self._taken / (now_s - self._begun_s)
        self._begun_s, self._taken = now_s, 0
