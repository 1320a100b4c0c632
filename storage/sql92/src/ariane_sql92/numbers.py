"""Reads texts as numbers, exactly like Java, as keys with the order of Java's numbers.

A key is an int64. The key of an integer is the number itself. The key of a double is its bits,
inverted for negative numbers, so that keys have the order of ``Double.compareTo``: -0.0 before 0.0,
and NaN, equal to itself, after everything.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ariane_sql92.syntax import Number, NumberKind

Keys: TypeAlias = NDArray[np.int64]

_BITS: Final = {NumberKind.INTEGER: 31, NumberKind.LONG: 63}
_TURNED: Final = np.int64((1 << 63) - 1)

# All texts of a batch, one per line, in the usual form: matched by one call.
_PLAIN_INTEGERS: Final = re.compile(r"(?:[+-]?[0-9]{1,18}\n)*+")
_PLAIN_DOUBLES: Final = re.compile(
    r"(?:[+-]?(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?\n)*+"
)

_INTEGER: Final = re.compile(r"([+-]?)(\d+)")
_DOUBLE: Final = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<special>NaN|Infinity)"
    r"|(?P<decimal>(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?)[fFdD]?"
    r"|(?P<hex>0[xX](?:[0-9a-fA-F]++\.?[0-9a-fA-F]*+|\.[0-9a-fA-F]++)[pP][+-]?[0-9]++)[fFdD]?)"
)
_TRIMMED: Final = "".join(map(chr, range(0x21)))
_LONG_DIGITS_MAX: Final = 19
_BMP_END: Final = "\uffff"


def number_keys(texts: Sequence[str], kind: NumberKind) -> tuple[Keys, NDArray[np.bool_]]:
    """Texts as numbers of one kind.

    Returns:
        The key of each, and whether it is such a number; the key of others is 0.
    """
    joined = "\n".join(texts) + "\n"
    plain = _PLAIN_DOUBLES if kind is NumberKind.DOUBLE else _PLAIN_INTEGERS
    all_plain = joined.count("\n") == len(texts) and plain.fullmatch(joined)
    if kind is NumberKind.DOUBLE:
        if all_plain:
            return double_keys(list(map(float, texts))), np.ones(len(texts), np.bool_)
        doubles = list(map(java_double, texts))
        known = np.array([value is not None for value in doubles], np.bool_)
        return double_keys([0.0 if value is None else value for value in doubles]), known
    if all_plain:
        keys = np.array(list(map(int, texts)), np.int64)
        shift = _BITS[kind]
        return keys, (keys >> shift) == (keys >> _BITS[NumberKind.LONG])
    integers = [java_integer(text, kind) for text in texts]
    known = np.array([value is not None for value in integers], np.bool_)
    return np.array([value or 0 for value in integers], np.int64), known


def key_of(number: Number, kind: NumberKind) -> np.int64:
    """The key of a number, as a kind that can hold it."""
    if kind is NumberKind.DOUBLE:
        key: np.int64 = double_keys([float(number.value)])[0]
        return key
    return np.int64(number.value)


def double_keys(values: Sequence[float]) -> Keys:
    """The keys of doubles."""
    doubles = np.array(values, np.float64)
    doubles[np.isnan(doubles)] = np.nan  # With one sign, independent of their origin.
    bits = doubles.view(np.int64)
    return bits ^ (bits >> 63 & _TURNED)


def java_integer(text: str, kind: NumberKind) -> int | None:
    """The result of ``Integer.valueOf`` or ``Long.valueOf``; ``None`` where they throw."""
    found = _INTEGER.fullmatch(text)
    if not found or max(text) > _BMP_END:
        return None
    sign, digits = found.groups()
    # Digits of any script count, and any number of zeros before them.
    plain = "".join([str(unicodedata.decimal(digit)) for digit in digits]).lstrip("0") or "0"
    if len(plain) > _LONG_DIGITS_MAX:
        return None
    value = -int(plain) if sign == "-" else int(plain)
    end = 1 << _BITS[kind]
    return value if -end <= value < end else None


def java_double(text: str) -> float | None:
    """The result of ``Double.valueOf``; ``None`` where it throws."""
    found = _DOUBLE.fullmatch(text.strip(_TRIMMED))
    if not found:
        return None
    if found["special"]:
        value = math.nan if found["special"] == "NaN" else math.inf
    elif found["decimal"]:
        value = float(found["decimal"])
    else:
        try:
            value = float.fromhex(found["hex"])
        except OverflowError:
            value = math.inf
    return -value if found["sign"] == "-" else value
