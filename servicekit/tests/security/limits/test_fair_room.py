"""Who gives up how much of a full table."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_servicekit.security.limits.fair_room import given_up, outgoing


@given(
    st.dictionaries(st.integers(), st.integers(1, 50), min_size=1).flatmap(
        lambda counts: st.tuples(st.just(counts), st.integers(1, sum(counts.values())))
    )
)
def test_those_who_have_most_come_down_to_one_level(case):
    counts, wanted = case
    going = given_up(counts, wanted)
    left = {owner: count - going.get(owner, 0) for owner, count in counts.items()}
    assert all(0 < number <= counts[owner] for owner, number in going.items())
    assert sum(going.values()) == wanted
    # Nobody has more than those who gave something up, but for what cannot be divided.
    assert max(left.values()) <= min(left[owner] for owner in going) + 1


@given(st.lists(st.integers(0, 5), min_size=1, max_size=80), st.integers(1, 79))
def test_room_is_made_and_who_has_no_more_than_a_share_makes_it_only_where_nobody_has_more(
    owners, count_max
):
    places = list(outgoing(owners, count_max))
    over = max(0, len(owners) - count_max)
    assert len(places) == len(set(places))
    assert over <= len(places) <= (over + count_max // 10 if over else 0)
    counts = Counter(owners)
    share = -(-count_max // len(counts))
    taken = Counter(owners[place] for place in places)
    if sum(max(0, count - share) for count in counts.values()) >= over:
        assert all(counts[owner] - number >= share for owner, number in taken.items())
    # Of each the oldest.
    for owner, number in taken.items():
        theirs = [place for place, each in enumerate(owners) if each == owner]
        assert theirs[:number] == [place for place in places if owners[place] == owner]


@pytest.mark.parametrize(("honest", "each"), [(4_600, 4), (18_500, 1), (19_999, 1)])
def test_who_brings_ever_new_ones_takes_none_of_the_many_others(honest, each):
    count_max = 20_000
    others = [number for number in range(honest) for _ in range(each)]
    owners = others + [-1] * (count_max + 1 - len(others))
    going = {owners[place] for place in outgoing(owners, count_max)}
    assert going == {-1}


def test_where_all_have_one_the_oldest_go():
    assert list(outgoing(range(20_001), 20_000)) == list(range(2_001))
