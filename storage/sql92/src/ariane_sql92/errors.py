"""The error of an illegal condition.

::

    (ValueError)
    +-- ConditionInvalid   a text that is not a condition, with the place and the fault
"""

from __future__ import annotations


class ConditionInvalid(ValueError):
    """A text that is not a condition."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(f"SQL92 condition, character {position + 1}: {reason}")
        self.reason = reason
        """The fault, one short clause."""
        self.position = position
        """The character with the fault, 0 for the first; the length of the text if it ends too
        early."""
