"""Records of a block that is refused: as many as can be stored are, in their order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_broker.log.refused_records import append_in_parts
from ariane_record.errors import RecordTooLarge
from ariane_storage.errors import BlockRejected, StoreFull


class Shelf:
    """Takes blocks of limited size, and some records in none."""

    def __init__(self, size_max, bad):
        self.stored, self.size_max, self.bad = [], size_max, bad

    def append(self, records):
        if not self.bad.isdisjoint(records):
            raise RecordTooLarge("a bad one")
        if len(records) > self.size_max:
            raise BlockRejected("too large")
        self.stored += records


@given(st.integers(1, 60), st.integers(1, 60), st.sets(st.integers(0, 59)))
def test_only_those_are_refused_that_no_block_takes(count, size_max, bad):
    shelf = Shelf(size_max, bad)
    refused = append_in_parts(range(count), shelf.append)
    assert shelf.stored == [record for record in range(count) if record not in bad]
    assert [record for record, _ in refused] == [each for each in range(count) if each in bad]
    assert {type(error) for _, error in refused} <= {RecordTooLarge}


def test_a_store_that_is_full_is_not_asked_again(tmp_path):
    asked = []

    def append(records):
        asked.append(records)
        raise StoreFull(tmp_path, "no room")

    with pytest.raises(StoreFull):
        append_in_parts([1, 2, 3], append)
    assert asked == [[1, 2, 3]]
