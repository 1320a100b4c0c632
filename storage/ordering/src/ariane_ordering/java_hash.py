"""Java's hash of a text: ``sum(unit[i] * 31 ** (n - 1 - i))`` over n UTF-16 units, as an int."""

from __future__ import annotations

from operator import mul
from typing import Final

MULTIPLIER: Final = 31

_WORD_MASK: Final = 0xFFFFFFFF
_SIGN_BIT: Final = 0x80000000

# One C call per unit of a short text: powers from the highest to the lowest, so that the end of
# the table fits a text of any shorter length.
_SHORT_UNITS_MAX: Final = 256
_POWERS_DESCENDING: Final = tuple(
    pow(MULTIPLIER, exponent, 1 << 32) for exponent in range(_SHORT_UNITS_MAX - 1, -1, -1)
)


def java_string_hash(text: str) -> int:
    """``String.hashCode()``: signed 32 bits over the UTF-16 units of ``text``."""
    units: bytes | memoryview[int]
    if text.isascii():
        units = text.encode("ascii")
    else:
        units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    count = len(units)
    if count <= _SHORT_UNITS_MAX:
        powers = _POWERS_DESCENDING[_SHORT_UNITS_MAX - count :]
        return signed(sum(map(mul, units, powers)))
    word = 0
    for unit in units:
        word = (word * MULTIPLIER + unit) & _WORD_MASK
    return signed(word)


def signed(number: int) -> int:
    """The lowest 32 bits of a number, as Java's ``int``."""
    word = number & _WORD_MASK
    return word - (1 << 32) if word & _SIGN_BIT else word
