"""Where a rule does not hold, and why. Short, or the rule is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Exemption:
    """One rule that one file may break."""

    rule: str
    path: str
    reason: str


EXEMPTIONS: Final[tuple[Exemption, ...]] = ()
