"""When a figure raises an alert, and when it ends. Pure.

::

    within bounds -- out of them for the patience --> stands -- within again, or gone --> ended
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Watched(NamedTuple):
    """A figure of one thing."""

    figure: int
    """``AlertFigure`` of the contract."""
    subject: str
    """The group or broker."""


@dataclass(frozen=True, slots=True)
class Turns:
    """The changes of one look."""

    raised: Mapping[Watched, float]
    """New alerts with their values."""
    ended: Collection[Watched]
    """Alerts that have ended."""
    standing: Mapping[Watched, float]
    """Alerts that continue, with their present values."""


class Bounds:
    """Keeps the time since which each figure is out of bounds.

    Args:
        thresholds: The greatest value within bounds, by figure; a figure without one is not
            watched.
        patience_s: Seconds that a figure must be out of bounds.
        standing: Present alerts.
    """

    def __init__(
        self,
        thresholds: Mapping[int, float],
        *,
        patience_s: float,
        standing: Collection[Watched] = (),
    ) -> None:
        self._thresholds = thresholds
        self._patience_s = patience_s
        self._standing = set(standing)
        self._since_s: dict[Watched, float] = {}

    @property
    def standing(self) -> frozenset[Watched]:
        """The present alerts."""
        return frozenset(self._standing)

    @property
    def remembered(self) -> frozenset[Watched]:
        """The present alerts, and figures that are out of bounds for less than the patience."""
        return frozenset(self._standing | set(self._since_s))

    def look(self, values: Mapping[Watched, float | None], at_s: float) -> Turns:
        """Compare figures with their bounds.

        Args:
            values: The value of each figure. None means unknown, and changes nothing; a missing
                figure is gone, and its alert ends.
            at_s: The time, by a clock that does not jump.
        """
        raised: dict[Watched, float] = {}
        going_on: dict[Watched, float] = {}
        ended = {one for one in self._standing if one not in values}
        for one, value in values.items():
            threshold = self._thresholds.get(one.figure)
            if value is None and threshold is not None:
                continue
            if value is None or threshold is None or value <= threshold:
                self._since_s.pop(one, None)
                if one in self._standing:
                    ended.add(one)
            elif one in self._standing:
                going_on[one] = value
            elif at_s - self._since_s.setdefault(one, at_s) >= self._patience_s:
                raised[one] = value
        self._since_s = {one: since for one, since in self._since_s.items() if one in values}
        self._standing = (self._standing - ended) | set(raised)
        return Turns(raised, ended, going_on)
