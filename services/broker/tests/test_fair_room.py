"""Who gives up how much of a full table."""

from hypothesis import given
from hypothesis import strategies as st

from ariane_broker.fair_room import given_up


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
    assert sum(going.values()) >= wanted
    # Who gives up nothing has no more than is left to any who gives up.
    level = {left[owner] for owner in going}
    assert len(level) == 1
    assert max(left.values()) == level.pop()
    # No more than one each goes beyond what is wanted.
    assert sum(going.values()) - wanted < len(going)
