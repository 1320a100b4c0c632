"""Positions and their one form as JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_record import QueueOffset
from ariane_sdk import MessageQueue
from ariane_spark.positions.offsets import (
    EARLIEST,
    LATEST,
    OffsetsMalformed,
    from_json,
    parse_offsets,
    to_json,
)

names = st.text("abAB-_%09", min_size=1, max_size=4)
queues = st.builds(MessageQueue, names, names, st.integers(0, 20))
positions = st.dictionaries(queues, st.integers(0, 1 << 62).map(QueueOffset), max_size=12)


@given(positions)
def test_positions_survive_json(positions):
    assert from_json(json.loads(json.dumps(to_json(positions)))) == positions


@given(positions, st.randoms())
def test_equal_positions_have_equal_text(positions, shuffle):
    items = list(positions.items())
    shuffle.shuffle(items)

    assert json.dumps(to_json(dict(items))) == json.dumps(to_json(positions))


def test_queues_are_sorted_by_number():
    positions = {MessageQueue("t", "b", number): QueueOffset(0) for number in (10, 9, 0)}

    assert json.dumps(to_json(positions)) == '{"t": {"b": {"0": 0, "9": 0, "10": 0}}}'


def test_a_person_may_write_nested_or_flat():
    expected = {
        MessageQueue("orders", "broker-a", 0): 23,
        MessageQueue("orders", "broker-a", 1): LATEST,
        MessageQueue("orders", "broker-b", 7): EARLIEST,
    }

    nested = '{"orders": {"broker-a": {"0": 23, "1": -1}, "broker-b": {"7": -2}}}'
    flat = '{"orders/broker-a/0": 23, "orders/broker-a/1": -1, "orders/broker-b/7": -2}'

    assert parse_offsets(nested) == expected
    assert parse_offsets(flat) == expected


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        ("", "no JSON"),
        ("latest", "no JSON"),
        ("[]", "expected the form"),
        ("23", "expected the form"),
        ('{"orders": 23}', "orders: expected the form"),
        ('{"orders": {"broker-a": 23}}', "orders/broker-a: expected the form"),
        ('{"orders": {"broker-a": {"x": 23}}}', "'x' is no queue id"),
        ('{"orders": {"broker-a": {"-1": 23}}}', "'-1' is no queue id"),
        ('{"orders": {"broker-a": {"0": -3}}}', "-3 is no queue offset"),
        ('{"orders": {"broker-a": {"0": 1.5}}}', "1.5 is no queue offset"),
        ('{"orders": {"broker-a": {"0": true}}}', "True is no queue offset"),
        ('{"orders": {"broker-a": {"0": 1, "0": 2}}}', "a name comes twice"),
        ("[" * 100_000, "no JSON: maximum recursion depth"),
        ("9" * 5000, "no JSON: Exceeds the limit"),
        ('{"orders": {"broker-a": {"%s": 23}}}' % ("9" * 5000), "is no queue id"),
        ('{"orders/0": 23}', "a flat entry is named"),
        ('{"orders/a/0": 1, "orders/a/b/0": 2}', "a flat entry is named"),
    ],
)
def test_anything_else_is_refused_with_its_place(text, clause):
    with pytest.raises(OffsetsMalformed, match=clause):
        parse_offsets(text)
