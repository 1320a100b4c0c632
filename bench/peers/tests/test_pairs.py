import pytest
from hypothesis import given
from hypothesis import strategies as st
from peer_bench.pairs import compare

FIGURES = st.floats(min_value=1e-3, max_value=1e9)


def test_the_median_ratio_is_over_pairs_and_not_of_medians():
    # Machines drift: every pair here was twice as fast or as slow as the one before it.
    said = compare([(100, 50), (200, 100), (50, 25), (10, 10), (400, 100)])
    assert (said.ratio, said.ratio_min, said.ratio_max, said.pairs) == (2, 1, 4, 5)
    assert (said.ours, said.theirs) == (100, 50)


def test_an_even_number_of_pairs_has_the_middle_of_two():
    assert compare([(3, 1), (1, 1)]).ratio == 2


def test_where_less_is_better_the_ratio_is_theirs_over_ours():
    said = compare([(2, 10), (4, 10), (5, 10)], less_is_better=True)
    assert (said.ratio, said.ratio_min, said.ratio_max) == (2.5, 2, 5)


@pytest.mark.parametrize("pairs", [[], [(0, 1)], [(1, 1), (1, -1)]])
def test_what_cannot_be_compared_is_refused(pairs):
    with pytest.raises(ValueError, match=r"pairs|above zero"):
        compare(pairs)


@given(st.lists(st.tuples(FIGURES, FIGURES), min_size=1, max_size=9))
def test_a_median_lies_within_its_range_and_turns_over_with_the_sides(pairs):
    said = compare(pairs)
    assert said.ratio_min <= said.ratio <= said.ratio_max
    turned = compare([(theirs, ours) for ours, theirs in pairs], less_is_better=True)
    assert turned.ratio == said.ratio
    assert (turned.ours, turned.theirs) == (said.theirs, said.ours)
