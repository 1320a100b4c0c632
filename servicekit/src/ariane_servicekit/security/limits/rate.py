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


class Rate:
    """Bytes or calls in a second; times are seconds of a monotonic clock."""

    __slots__ = ("_paid_s", "per_s")

    def __init__(self, per_s: int, now_s: float) -> None:
        self.per_s = per_s
        """How much one second pays."""
        self._paid_s = now_s - BURST_S

    def charge(self, amount: int, now_s: float) -> None:
        """Take an amount, whatever is owed already."""
        self._paid_s = max(self._paid_s, now_s - BURST_S) + amount / self.per_s

    def debt_s(self, now_s: float) -> float:
        """How long it takes until all is paid; 0 if nothing is owed."""
        return max(0.0, self._paid_s - now_s)
