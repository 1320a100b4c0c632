"""Records of the log by queue, and what consume queues and index say of them, by column."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_record import tag_code
from ariane_record.layout import RECORD_BYTES_MIN
from ariane_storage.log.record_search import even_run
from ariane_storage.queues.record_rows import Rows
from ariane_storage.testing import block_of

BLOCKS = [
    # Topics of one length side by side; one queue more than once; properties of many lengths.
    ("aa", 0, 3),
    ("bb", 0, 2),
    ("bb", 1, 1),
    ("aa", 0, 12),
    ("long-topic", 1, 1),
    ("aa", 1, 2),
]


@pytest.fixture
def rows(bench):
    bench.config = replace(bench.config, segment_bytes=1 << 20, scan_entries_max=1000)
    store = bench.open()
    for topic, queue_id, count in BLOCKS:
        tags = ["", "b", "ccc", "dddddd", "eeeeeeee", "ffffffffff", "gggggggggggg", "h" * 20]
        tags += ["i" * 30, "j" * 40, "k" * 50, "l" * 60]
        block = block_of(topic, [b"x"] * count, tags=tags, unique_ids=["id"] * count)
        store.append(block, queue_id)
    [stretch] = store.stretches(0)
    yield Rows.of(stretch)
    store.close()


def test_rows_are_found_by_queue_in_the_order_of_the_log(rows):
    expected, first = {}, 0
    for topic, queue_id, count in BLOCKS:
        expected.setdefault((topic, queue_id), []).extend(range(first, first + count))
        first += count
    assert {name: found.tolist() for name, found in rows.groups().items()} == expected


def test_tags_and_keys_are_those_of_each_row(rows):
    for found in rows.groups().values():
        tags = [rows._properties(row).partition(b"TAGS\1")[2] for row in found.tolist()]
        codes = [tag_code(tag.partition(b"\2")[0].decode()) for tag in tags]
        assert rows.tag_hashes(found).tolist() == codes
        key_counts = [2 if tag else 1 for tag in tags]  # Unique id, and tag.
        owners = np.repeat(found, key_counts).tolist()
        wanted = np.zeros(len(rows.sizes), np.bool_)
        wanted[found] = True
        assert rows.keys(wanted).owners.tolist() == owners


@given(
    st.lists(st.integers(RECORD_BYTES_MIN, RECORD_BYTES_MIN + 1), min_size=1, max_size=12),
    st.integers(0, 60),
)
def test_records_of_one_size_are_counted_at_once(sizes, beyond):
    content = b"".join(size.to_bytes(4, "big") + b"kind" + b"?" * (size - 8) for size in sizes)
    content += b"?" * beyond
    whole = sum(sizes)
    place = done = 0
    while done < len(sizes):
        count = even_run(memoryview(content), place, sizes[done], whole)
        assert sizes[done : done + count] == [sizes[done]] * count
        assert done + count == len(sizes) or sizes[done + count] != sizes[done]
        place, done = place + count * sizes[done], done + count
    assert place == whole
