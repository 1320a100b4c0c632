"""Spans put back to back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_record.decoding.spans import gather_spans

BUFFER = bytes(range(256)) * 4
SPANS = st.tuples(st.integers(0, 900), st.integers(0, 124))


def joined(spans):
    return b"".join(BUFFER[start : start + length] for start, length in spans)


def gathered(spans, buffer=BUFFER):
    columns = np.array(spans, np.int64).reshape(-1, 2)
    return gather_spans(buffer, columns[:, 0], columns[:, 1])


@given(st.lists(SPANS, max_size=100))
def test_spans_are_put_back_to_back(spans):
    assert gathered(spans) == joined(spans)


@pytest.mark.parametrize("count", [1, 60])
def test_few_and_many_lengths_are_gathered_alike(count):
    spans = [(number * 3, number % count + 1) for number in range(200)]
    assert gathered(spans) == gathered(spans, memoryview(BUFFER)) == joined(spans)


def test_spans_may_reach_to_the_end():
    spans = [(1023, 1), (1020, 4), (0, 1024), (1024, 0)]
    assert gathered(spans) == joined(spans)
