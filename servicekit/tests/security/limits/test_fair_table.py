"""A table of so many entries, which none of their owners fills for the others."""

import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_servicekit.security.limits.fair_table import FairTable


class Model:
    """The same, by a search."""

    def __init__(self, count_max):
        self.count_max = count_max
        self.entries = []
        """Owner and key, the one unused for longest first."""

    def add(self, entry):
        if entry in self.entries:
            self.entries.remove(entry)
        self.entries.append(entry)

    def most(self):
        counts = Counter(owner for owner, _ in self.entries)
        most = max(counts.values())
        return {owner for owner, count in counts.items() if count == most}


@given(
    st.integers(1, 6),
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5)), max_size=60),
)
def test_the_owner_with_most_loses_its_entry_unused_for_longest(count_max, steps):
    table, model = FairTable(count_max), Model(count_max)
    for entry in steps:
        owner, _ = entry
        if table.use(owner, entry) is None:
            table.add(owner, entry, entry)
        model.add(entry)
        if len(model.entries) > count_max:
            [lost] = set(model.entries) - {key for key, _ in table.items()}
            assert lost[0] in model.most()
            assert lost == next(each for each in model.entries if each[0] == lost[0])
            model.entries.remove(lost)
        assert {key for key, _ in table.items()} == set(model.entries)
        assert all(table.get(each) == each for each in model.entries)
        assert len(table) == len(model.entries)


def test_where_all_have_one_the_oldest_goes():
    table = FairTable(3)
    for number in range(5):
        table.add(f"u{number}", number, "x")
    assert [key for key, _ in table.items()] == [2, 3, 4]


@pytest.mark.parametrize("owners", [1, 2, 100, 5_000])
def test_one_more_takes_as_little_of_a_full_table_as_of_one_with_room(owners):
    """By count: however many have nearly as much as the one that brings ever new ones."""
    table = FairTable(10_000)

    def calls_of(keys):
        calls = [0]
        sys.setprofile(lambda *_: calls.__setitem__(0, calls[0] + 1))
        for key in keys:
            table.add(f"u{key % owners}", key, "x")
        sys.setprofile(None)
        return calls[0]

    with_room = calls_of(range(1_000))
    for key in range(1_000, 10_000):
        table.add(f"u{key % owners}", key, "x")
    full = calls_of(range(10_000, 11_000))
    assert full <= 3 * with_room
