"""Conditions judge as the plain reference does, and as RocketMQ documents it."""

import threading

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from ariane_sql92 import ConditionInvalid, compile_condition
from ariane_sql92.batch import Batch
from ariane_sql92.testing import condition_texts, judge_plainly, property_maps


@given(condition_texts(), st.lists(property_maps(), min_size=1, max_size=8))
def test_a_batch_is_judged_as_one_message_after_the_other(columns_of, text, messages):
    try:
        condition = compile_condition(text)
    except ConditionInvalid:
        reject()
    mask = condition.mask(columns_of(messages))
    assert mask.dtype == np.bool_
    assert mask.tolist() == [judge_plainly(text, message) for message in messages]


# Condition, properties, whether it matches. After RocketMQ's page on SQL92 and the tests of its
# filter module; the rows about texts and numbers are what its broker does.
DOCUMENTED = [
    ("a > 5 AND b = 'abc'", {"a": "10", "b": "abc"}, True),
    ("a > 5 AND b = 'abc'", {"a": "1", "b": "abc"}, False),
    ("a BETWEEN 0 AND 3", {"a": "0"}, True),
    ("a BETWEEN 0 AND 3", {"a": "3"}, True),
    ("a between 2 and 10", {"a": "11"}, False),
    ("a not between 2 and 10", {"a": "11"}, True),
    ("a not between 2 and 10", {"a": "10"}, False),
    ("a=3 and b<>4 And c>5 AND d<=4", {"a": "3", "b": "5", "c": "6", "d": "1"}, True),
    ("a=3 or b<>4 Or c>5 OR d<=4", {"a": "4", "b": "4", "c": "3", "d": "2"}, True),
    ("a=3 or b<>4 Or c>5 OR d<=4", {"a": "4", "b": "4", "c": "3", "d": "10"}, False),
    ("a in ('3', '4', '5')", {"a": "4"}, True),
    ("a in ('3', '4', '5')", {"a": "8"}, False),
    ("a in ('3', '4', '5')", {}, False),
    ("a not in ('3', '4', '5')", {"a": "8"}, True),
    ("a not in ('3', '4', '5')", {}, False),
    ("a is null", {"abc": "2"}, True),
    ("a is null", {"a": "2"}, False),
    ("a is not null", {"a": "2"}, True),
    ("a is not null", {"abc": "2"}, False),
    ("a is null OR a='hello'", {}, True),
    ("a is null OR a='hello'", {"a": "abc"}, False),
    ("a=TRUE OR b=FALSE", {"a": "true", "b": "false"}, True),
    ("a=TRUE OR b=FALSE", {"a": "false", "b": "true"}, False),
    ("a = TRUE", {"a": "TrUe"}, True),
    ("a <> TRUE", {"a": "yes"}, True),
    ("TAGS is not null and TAGS='''''tag'''''", {"TAGS": "''tag''"}, True),
    ("TAGS IS NOT NULL AND TAGS IN ('TagA', 'TagB')", {"TAGS": "TagB"}, True),
    ("a > 3.1E10", {"a": "3.1415E10"}, True),
    ("a > 3.14", {"a": "3.1415"}, True),
    ("a > b", {"a": "10", "b": "9.5"}, True),
    ("a > b", {"a": "10", "b": "x"}, False),
    ("a = b", {"a": "3.14", "b": "3.14"}, True),
    ("a = b", {"a": "3.14", "b": "3.140"}, False),
    ("a CONTAINS 'xa'", {"a": "ax xax"}, True),
    ("a NOT CONTAINS 'xa'", {"a": "xxx"}, True),
    ("a NOT CONTAINS 'xa'", {}, False),
    ("a CONTAINS ''", {"a": "x"}, False),
    ("a STARTSWITH 'JF' AND a ENDSWITH 'K'", {"a": "JFK"}, True),
    ("a NOT STARTSWITH 'JF'", {"a": "LGA"}, True),
    ("a NOT ENDSWITH 'A'", {"a": "LGA"}, False),
    # An integer compares with texts of integers only, a number with a point with all numbers.
    ("a > 60", {"a": "61.0"}, False),
    ("NOT (a > 60)", {"a": "59.0"}, False),
    ("a > 60.0", {"a": "61"}, True),
    ("a = 5", {"a": "05"}, True),
    ("a = '5'", {"a": "05"}, False),
    ("a > 2147483646", {"a": "2147483648"}, False),
    ("a > 2147483648", {"a": "2147483649"}, True),
    # What cannot be compared ends the judgement there, whatever comes behind it.
    ("b = 'x' OR a > 5", {"a": "many", "b": "x"}, True),
    ("a > 5 OR b = 'x'", {"a": "many", "b": "x"}, False),
    ("a > 5 OR b = 'x'", {"b": "x"}, True),
    # Missing is unknown, and unknown is not delivered; but two that are missing are equal.
    ("a <> 'x'", {}, False),
    ("NOT (a = 'x')", {}, False),
    ("a = b", {}, True),
    ("a = b", {"b": "x"}, False),
    ("a <> b", {"a": "x"}, True),
    ("a AND TRUE", {"a": "true"}, False),
    ("NOT a", {"a": "anything"}, True),
    ("TRUE", {}, True),
    ("NULL IS NULL", {}, True),
    ("NULL", {}, False),
    # Comments, cases, blanks.
    ("a=/* the /* carrier */'UA' -- and nothing else\n", {"a": "UA"}, True),
    ("_a$1 = 'x'", {"_a$1": "x"}, True),
    ("A = 'x'", {"a": "x"}, False),
    ("ORDER = '1' AND ANDY = '2'", {"ORDER": "1", "ANDY": "2"}, True),
    ("a = 'Grüße'", {"a": "Grüße"}, True),
]


@pytest.mark.parametrize(("text", "properties", "expected"), DOCUMENTED)
def test_documented_cases(columns_of, text, properties, expected):
    columns = columns_of([properties, {"other": "value"}, properties])
    assert compile_condition(text).mask(columns)[[0, 2]].tolist() == [expected] * 2
    assert judge_plainly(text, properties) is expected


def test_a_batch_may_be_empty(columns_of):
    assert compile_condition("a = 'x' AND b > 1").mask(columns_of([])).tolist() == []


def test_many_messages_among_which_one_has_an_odd_number(columns_of):
    messages = [{"delay": str(number)} for number in range(3000)]
    messages[1500] = {"delay": "much"}
    mask = compile_condition("delay >= 1000").mask(columns_of(messages))
    assert np.flatnonzero(~mask).tolist() == [*range(1000), 1500]


def test_one_condition_judges_in_many_threads(columns_of):
    condition = compile_condition("a > 5 AND b CONTAINS 'x' OR c IN ('1', '2')")
    columns = [columns_of([{"a": str(n), "b": "axb"}, {"c": "2"}] * 500) for n in (5, 6, 7, 8)]
    expected = [condition.mask(each).tolist() for each in columns]
    found = [None] * len(columns)

    def judge(index):
        found[index] = condition.mask(columns[index]).tolist()

    threads = [threading.Thread(target=judge, args=(index,)) for index in range(len(columns))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == expected
    assert [sum(mask) for mask in found] == [500, 1000, 1000, 1000]


@pytest.mark.parametrize("begin", ["a=(", "TRUE=", "a>b=", "'true'=("])
def test_conditions_within_conditions_cost_no_more_than_their_length(
    columns_of, monkeypatch, begin
):
    """Each part is evaluated once: a condition of a hundred characters would hold up a broker."""
    asked = []

    def counted(name):
        real = getattr(Batch, name)

        def count(*arguments):
            asked.append(name)
            return real(*arguments)

        monkeypatch.setattr(Batch, name, count)

    for name in ("present", "numbers"):
        counted(name)
    depth = 12
    text = begin * depth + "c=d" + ")" * (depth * begin.count("("))
    mask = compile_condition(text).mask(columns_of([{"c": "1", "d": "1"}]))
    assert mask.shape == (1,)
    assert len(asked) <= 10 * depth
