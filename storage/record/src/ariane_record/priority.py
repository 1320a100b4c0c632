"""The priority of a message: a whole number of 32 bits, as text in a property."""

from __future__ import annotations

from typing import Final

_DIGITS_MAX: Final = 10
_END: Final = 1 << 31


def priority_of(text: str) -> int | None:
    """The priority in a property.

    Returns:
        The number; None if the text is not a number of 32 bits: such a message has no priority.
    """
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _DIGITS_MAX):
        return None
    priority = int(text)
    return priority if -_END <= priority < _END else None
