"""One fault of a plan."""

from __future__ import annotations

from typing import NamedTuple


class Fault(NamedTuple):
    """One fault."""

    at_s: float
    """When."""
    kind: str
    """Its name in ``KINDS``."""
    target: str
    """The role that it befalls, or one of ``steps.PARTS``."""
    other: str
    """Another role, for what lies between two; for an ambush: what it waits for."""
    seconds: float
    """How long it lasts."""
    amount: float
    """How bad it is, 0 to 1."""

    def __str__(self) -> str:
        return (
            f"{self.at_s:8.3f} s  {self.kind:<16} {self.target:<12} {self.other:<12} "
            f"{self.seconds:5.2f} s  {self.amount:.3f}"
        )
