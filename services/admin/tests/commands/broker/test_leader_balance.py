"""Each set gets its preferred primary, and machines get as many primaries as one another."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ariane_admin.commands.broker.ha_balance import Move, SetStanding, moves_of

MACHINES = ("a", "b", "c")


def standing(name, primary_id, machines="ab", preferences=()):
    return SetStanding(
        name,
        primary_id,
        dict(enumerate(machines)),
        {one: 0 for one, _ in enumerate(machines)} | dict(preferences),
    )


def test_primaries_of_one_machine_are_levelled_with_few_moves():
    sets = [standing(name, 0) for name in "wxyz"]
    assert moves_of(sets) == [Move("w", 0, 1, "a", "b"), Move("x", 0, 1, "a", "b")]
    assert moves_of([standing("x", 0), standing("y", 1), standing("z", 0)]) == []


def test_a_preferred_broker_leads_whatever_its_machine_has():
    sets = [standing(name, 0, preferences={1: 5}) for name in "xyz"]
    assert [move.to_id for move in moves_of(sets)] == [1, 1, 1]
    # One that is free to move makes up for it.
    free = standing("free", 1)
    assert Move("free", 1, 0, "b", "a") in moves_of([*sets, free])


@st.composite
def set_lists(draw):
    sets = []
    for number in range(draw(st.integers(0, 8))):
        machines = draw(st.permutations(MACHINES))[: draw(st.integers(1, 3))]
        ids = st.integers(0, len(machines) - 1)
        preferences = draw(st.dictionaries(ids, st.integers(0, 1)))
        sets.append(standing(f"s{number}", draw(ids), machines, preferences))
    return sets


@given(set_lists())
def test_no_further_move_would_level_more(sets):
    moves = {move.broker: move for move in moves_of(sets)}
    after = {each.name: each.primary_id for each in sets}
    after |= {name: move.to_id for name, move in moves.items()}
    assert all(after[each.name] in each.best for each in sets)
    assert all(move.from_id != move.to_id for move in moves.values())
    load = Counter(each.machines[after[each.name]] for each in sets)
    for each in sets:
        own = load[each.machines[after[each.name]]]
        assert all(own - load[each.machines[other]] <= 1 for other in each.best)
