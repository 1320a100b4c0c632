"""Texts become numbers as Java's valueOf makes them."""

import math

import pytest

from ariane_sql92.numbers import double_keys, java_double, java_integer, number_keys
from ariane_sql92.syntax import NumberKind

INTEGERS = [
    ("0", 0), ("-0", 0), ("+7", 7), ("007", 7), ("2147483647", 2147483647),
    ("-2147483648", -2147483648), ("2147483648", None), ("-2147483649", None),
    ("", None), ("+", None), ("--1", None), (" 1", None), ("1 ", None), ("1\n", None),
    ("1_000", None), ("0x10", None), ("1.0", None), ("1e3", None), ("5L", None),
    ("\u0665", 5), ("\uff15", 5), ("\U0001d7dd", None), ("0" * 5000 + "9", 9), ("9" * 5000, None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), INTEGERS, ids=range(len(INTEGERS)))
def test_integers(text, value):
    assert java_integer(text, NumberKind.INTEGER) == value
    keys, numeric = number_keys([text, "5"], NumberKind.INTEGER)
    assert numeric.tolist() == [value is not None, True]
    assert keys.tolist() == [value or 0, 5] or not numeric[0]


def test_longs_are_wider():
    texts = ["9223372036854775807", "-9223372036854775808", "9223372036854775808", "4294967296"]
    keys, numeric = number_keys(texts, NumberKind.LONG)
    assert numeric.tolist() == [True, True, False, True]
    assert keys[numeric].tolist() == [(1 << 63) - 1, -(1 << 63), 1 << 32]


DOUBLES = [
    ("1", 1.0), ("-1.5", -1.5), ("5.", 5.0), (".5", 0.5), ("1e3", 1000.0), ("1E+3d", 1000.0),
    ("5F", 5.0), ("  7\t\n", 7.0), ("1e400", math.inf), ("1e-400", 0.0), ("Infinity", math.inf),
    ("-Infinity", -math.inf), ("0x1p3", 8.0), ("0x.8P1f", 1.0), ("0x1p99999", math.inf),
    ("", None), (".", None), ("e3", None), ("1e", None), ("inf", None), ("nan", None),
    ("infinity", None), ("1_0", None), ("0x1", None), ("\u0665", None), ("1 2", None), ("5L", None),
    ("\xa07", None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), DOUBLES, ids=range(len(DOUBLES)))
def test_doubles(text, value):
    assert java_double(text) == value
    keys, numeric = number_keys([text, "5"], NumberKind.DOUBLE)
    assert numeric.tolist() == [value is not None, True]
    assert keys.tolist() == double_keys([value or 0.0, 5.0]).tolist()


def test_keys_of_doubles_stand_in_javas_order():
    rising = [-math.inf, -1e300, -1.5, -5e-324, -0.0, 0.0, 5e-324, 1.0, 1e300, math.inf, math.nan]
    keys = double_keys(rising).tolist()
    assert keys == sorted(set(keys))
    assert math.isnan(java_double("NaN"))
    for texts in (["-0.0", "1"], ["-0.0", "x"]):
        assert number_keys(texts, NumberKind.DOUBLE)[0][0] == double_keys([-0.0])[0]
    assert double_keys([java_double("-NaN")]) == double_keys([math.nan])


def test_lines_within_texts_deceive_nobody():
    for text in ("5\n6", "5\n", "\n5", "\n"):
        for kind in NumberKind:
            _, numeric = number_keys([text, "1"], kind)
            assert numeric.tolist() == [kind is NumberKind.DOUBLE and text.strip() == "5", True]
