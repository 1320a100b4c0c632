import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ariane_storage.queues.consume_queue_entry import ENTRY, HOLE_SIZE
from ariane_storage.reading.selection import select
from ariane_storage.testing import Tagged

TAG = 7


def entries_of(sizes):
    entries = np.zeros(len(sizes), ENTRY)
    entries["size"] = sizes
    entries["commit_log_offset"] = np.cumsum([0, *sizes])[:-1]
    entries["tags_code"] = TAG
    return entries


SIZES = st.one_of(st.integers(1, 300), st.just(HOLE_SIZE), st.just(0))


@given(
    st.one_of(
        st.lists(st.integers(1, 300), min_size=1, max_size=12),
        st.lists(SIZES, min_size=1, max_size=12),
    ),
    st.integers(0, 1000),
    st.integers(1, 14),
    st.integers(0, 2000),
)
def test_entries_are_chosen_alike_with_and_without_a_filter_that_all_pass(
    sizes, queue_offset, max_count, max_bytes
):
    entries = entries_of(sizes)

    plain, filtered = (
        select(entries, queue_offset, max_count=max_count, max_bytes=max_bytes, wanted=wanted)
        for wanted in (None, Tagged(TAG))
    )

    assert plain.next_queue_offset == filtered.next_queue_offset
    for name in ("queue_offsets", "commit_log_offsets", "sizes"):
        assert getattr(plain, name).tolist() == getattr(filtered, name).tolist()


def test_one_message_is_chosen_however_large_and_no_more_than_fit():
    entries = entries_of([300, 100, 100])

    for max_bytes, count in ((1, 1), (300, 1), (399, 1), (400, 2), (500, 3)):
        chosen = select(entries, 5, max_count=9, max_bytes=max_bytes, wanted=None)
        assert chosen.queue_offsets.tolist() == list(range(5, 5 + count))
        assert chosen.next_queue_offset == 5 + count
