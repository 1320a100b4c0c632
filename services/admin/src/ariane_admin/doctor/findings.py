"""The findings of the doctor, and their severity."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    """The severity of a finding."""

    ERROR = "error"
    """Something does not work, or will lose or repeat messages."""

    WARNING = "warning"
    """It works, but needs attention."""

    NOTE = "note"
    """It is intended, or ends by itself."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault of a cluster."""

    severity: Severity
    subject: str
    finding: str
    advice: str
