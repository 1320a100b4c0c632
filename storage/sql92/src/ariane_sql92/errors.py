"""What can be wrong with a condition.

::

    (ValueError)
    +-- ConditionInvalid   a text that is no condition; says where, and what is wrong there
"""

from __future__ import annotations


class ConditionInvalid(ValueError):
    """A text that is no condition.

    Attributes:
        reason: What is wrong, one short clause.
        position: Which character of the text is to blame, 0 for the first; its length where the
            text ends too early.
    """

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(f"SQL92 condition, character {position + 1}: {reason}")
        self.reason = reason
        self.position = position
