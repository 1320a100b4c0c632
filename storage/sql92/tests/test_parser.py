"""What is no condition is refused, with the character that is to blame."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_sql92 import (
    CONDITION_BYTES_MAX,
    CONDITION_COMPARISONS_MAX,
    CONDITION_DEPTH_MAX,
    ConditionInvalid,
    compile_condition,
)

# Text, position, and a word of the reason.
REFUSED = [
    ("", 0, "empty"),
    (" \t\n", 3, "empty"),
    ("a = ", 4, "too early"),
    ("(a = 1", 6, "too early"),
    ("a = 1 b = 2", 6, "'b'"),
    ("a and between 2 and 10", 6, "'between'"),
    ("a LIKE 'J%'", 2, "CONTAINS"),
    ("a > 1 + 2", 6, "arithmetic"),
    ("a != 'x'", 2, "<>"),
    ('a = "x"', 4, "single quotes"),
    ("a = 'x", 4, "not closed"),
    ("a = 1 /* x", 6, "not closed"),
    ("a IN ()", 6, "')'"),
    ("a IN (1, 2)", 6, "'1'"),
    ("'x' IN ('x')", 0, "property"),
    ("a > 'x'", 4, "larger or smaller"),
    ("TRUE < a", 0, "larger or smaller"),
    ("NOT a > 5", 4, "NOT ("),
    ("a > 5 > 3", 0, "larger or smaller"),
    ("a = NULL", 4, "IS NULL"),
    ("NULL <> a", 0, "IS NULL"),
    ("TRUE = 5", 7, "truth"),
    ("5 AND a = 1", 0, "condition is needed"),
    ("a = 1 OR 'x'", 9, "condition is needed"),
    ("-a", 1, "condition is needed"),
    ("a BETWEEN 10 AND 0", 10, "first end"),
    ("a BETWEEN 'a' AND 'b'", 10, "larger or smaller"),
    ("a > 9223372036854775808", 4, "9223372036854775807"),
    ("a > 1e400", 4, "larger than any"),
    ("a > 007", 5, "'0'"),
    ("a = 1\x00", 5, "'\\x00'"),
    ("a = '\ud800'", 5, "Unicode"),
    ("NOT " * (CONDITION_DEPTH_MAX + 1) + "a", None, "deep"),
    ("a = 1 = TRUE" + " = TRUE" * CONDITION_DEPTH_MAX, 0, "deep"),
    (" OR ".join(["a = 1"] * (CONDITION_COMPARISONS_MAX + 1)), None, "100 comparisons"),
    (" AND ".join(["a BETWEEN 1 AND 2"] * 51), None, "100 comparisons"),
    ("a" * (CONDITION_BYTES_MAX + 1), CONDITION_BYTES_MAX, "bytes long"),
    ("ä" * CONDITION_BYTES_MAX, None, "bytes long"),
]


@pytest.mark.parametrize(("text", "position", "word"), REFUSED, ids=[t[0][:30] for t in REFUSED])
def test_refused_with_reason_and_position(text, position, word):
    with pytest.raises(ConditionInvalid) as refused:
        compile_condition(text)
    assert word in refused.value.reason
    if position is not None:
        assert refused.value.position == position
        assert f"character {position + 1}: " in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "NOT " * (CONDITION_DEPTH_MAX - 1) + "a",
        "(" * 2000 + "a = 1" + ")" * 2000,
        " OR ".join(["a = 1"] * CONDITION_COMPARISONS_MAX),
        "a IN (" + ", ".join(f"'{number}'" for number in range(500)) + ")",
        "- " * 1500 + "a = 1",
    ],
    ids=["nots", "parentheses", "ors", "texts", "signs"],
)
def test_large_conditions_within_the_limits_are_taken(text):
    assert len(text) <= CONDITION_BYTES_MAX
    assert compile_condition(text).text == text


@given(st.text(max_size=30) | st.text("aAnNdDoOrRtT ()'<>=-+/*1.eE,$_\n", max_size=40))
def test_any_text_is_a_condition_or_refused_within_itself(text):
    position = 0
    try:
        compile_condition(text)
    except ConditionInvalid as error:
        position = error.position
    assert 0 <= position <= len(text)
