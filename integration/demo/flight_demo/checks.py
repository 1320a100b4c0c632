"""Totals against their closed form."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.table import Table

from flight_demo.errors import TotalsDiffer


class Promise(enum.Enum):
    """What stands behind a total."""

    EXACT = "exact"
    """Nothing lost and nothing twice: the design forbids it."""

    AT_LEAST_ONCE = "at least once"
    """Nothing lost. A repeat is allowed after a failure; in an undisturbed run none is expected."""

    AT_LEAST_ONCE_AFTER_A_FAILURE = "at least once, after a failure"
    """Nothing lost; there was a failure, so that there may be repeats."""


@dataclass(frozen=True, slots=True)
class Check:
    """One total."""

    name: str
    expected: int
    found: int
    promise: Promise = Promise.EXACT

    @property
    def holds(self) -> bool:
        """Whether the total is as it must be."""
        if self.promise is Promise.AT_LEAST_ONCE_AFTER_A_FAILURE:
            return self.found >= self.expected
        return self.expected == self.found


def totals_table(checks: Iterable[Check]) -> Table:
    """Return `checks` for people."""
    table = Table(title="Totals", title_justify="left", title_style="bold")
    table.add_column("total")
    table.add_column("closed form", justify="right")
    table.add_column("found", justify="right")
    table.add_column("promise")
    table.add_column("")
    for check in checks:
        table.add_row(
            check.name,
            f"{check.expected:,}",
            f"{check.found:,}",
            check.promise.value,
            "[green]holds[/]" if check.holds else "[bold red]DIFFERS[/]",
        )
    return table


def require(checks: Sequence[Check]) -> None:
    """Return if all of `checks` hold.

    Raises:
        TotalsDiffer: At least one does not.
    """
    broken = [check for check in checks if not check.holds]
    if broken:
        first = broken[0]
        raise TotalsDiffer(
            f"{len(broken)} of {len(checks)} totals do not hold, first: {first.name}:"
            f" expected {first.expected:,}, found {first.found:,}"
        )
