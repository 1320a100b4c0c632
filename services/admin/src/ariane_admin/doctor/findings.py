"""What the doctor finds, and how bad it is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    """How bad a finding is."""

    ERROR = "error"
    """Something does not work, or will lose or repeat messages."""

    WARNING = "warning"
    """It works, and somebody should look."""

    NOTE = "note"
    """So it is meant, or it passes by itself."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be."""

    severity: Severity
    subject: str
    finding: str
    advice: str
