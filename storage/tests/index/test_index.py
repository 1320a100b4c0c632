"""The index: what is filed is found, newest first, as RocketMQ would have filed it."""

from __future__ import annotations

import errno
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_record.checksums.java_hash import key_hash
from ariane_storage import StoreFormatError, StoreFull
from ariane_storage.index import index_file
from ariane_storage.index.index import PENDING_KEYS_MAX, Index
from ariane_storage.index.index_file import IndexFile, index_file_bytes
from ariane_storage.testing import FaultyDisk, FixedClock

SLOTS, ITEMS = 7, 30
PATH = Path("/20231114221320000")


class ReferenceIndexFile:
    """RocketMQ's ``IndexFile.putKey``, one key at a time."""

    def __init__(self):
        self.slots = [0] * SLOTS
        self.items = [(0, 0, 0, 0)]
        self.begin = self.end = (0, 0)
        self.used = 0

    def put(self, hashed, offset, timestamp):
        slot = hashed % SLOTS
        previous = self.slots[slot]
        if len(self.items) == 1:
            self.begin = (timestamp, offset)
        seconds = max(0, (timestamp - self.begin[0]) // 1000)
        self.items.append((hashed, offset, seconds, previous))
        self.slots[slot] = len(self.items) - 1
        self.used += previous == 0
        self.end = (timestamp, offset)

    def encode(self):
        header = struct.pack(
            ">qqqqii",
            *(self.begin[0], self.end[0], self.begin[1], self.end[1]),
            *(self.used, len(self.items)),
        )
        slots = struct.pack(f">{SLOTS}i", *self.slots)
        items = b"".join(struct.pack(">iqii", *item) for item in self.items)
        return (header + slots + items).ljust(index_file_bytes(SLOTS, ITEMS), b"\0")


def new_file(disk: FaultyDisk) -> IndexFile:
    disk.allocate(PATH, index_file_bytes(SLOTS, ITEMS))
    return IndexFile(disk, PATH, slots=SLOTS, items=ITEMS)


STEPS = st.lists(
    st.lists(st.tuples(st.integers(0, 20), st.integers(1, 50), st.integers(0, 3000)), max_size=9),
    max_size=6,
)


@given(batches=STEPS)
def test_batches_make_the_same_bytes_as_one_key_at_a_time(batches):
    disk, reference = FaultyDisk(), ReferenceIndexFile()
    file = new_file(disk)
    offset, timestamp = 0, 1_000_000
    for batch in batches:
        columns = []
        for hashed, step, pause in batch[: file.room]:
            offset, timestamp = offset + step, timestamp + pause
            reference.put(hashed, offset, timestamp)
            columns.append((hashed, offset, timestamp))
        if columns:
            file.insert(*(np.array(column, np.int64) for column in zip(*columns, strict=True)))
    if len(reference.items) > 1:
        file.flush()
        assert disk.read(PATH) == reference.encode()
    for hashed in range(21):
        assert [item[0] for item in file.find(hashed) if item is not None] == [
            item[1] for item in reversed(reference.items[1:]) if item[0] == hashed
        ]


@given(batches=STEPS, share=st.floats(0, 1))
def test_what_lies_above_an_offset_is_forgotten_as_if_it_had_never_been(batches, share):
    disk, whole, kept = FaultyDisk(), ReferenceIndexFile(), ReferenceIndexFile()
    file = new_file(disk)
    offset, timestamp = 0, 1_000_000
    entries = [entry for batch in batches for entry in batch][: ITEMS - 1]
    rows = []
    for hashed, step, _ in entries:
        offset += step
        rows.append((hashed, offset, timestamp))
    end = int(offset * share)
    for row in rows:
        whole.put(*row)
        if row[1] < end:
            kept.put(*row)
    if rows:
        file.insert(*(np.array(column, np.int64) for column in zip(*rows, strict=True)))
    file.keep_below(end)
    assert file.item_count == len(kept.items) - 1
    for hashed in range(21):
        assert [item[0] for item in file.find(hashed) if item is not None] == [
            item[1] for item in reversed(kept.items[1:]) if item[0] == hashed
        ]


def new_index(disk: FaultyDisk, clock: FixedClock | None = None) -> Index:
    return Index(disk, Path("/index"), clock or FixedClock(), slots=SLOTS, items=ITEMS)


def add(index, keys, first_offset, timestamp=5000):
    hashes = np.array([key_hash("t", key) for key in keys], np.int32)
    offsets = np.arange(first_offset, first_offset + len(keys))
    index.add(hashes, offsets, np.full(len(keys), timestamp))


def found(index, key, begin=0, end=1 << 60):
    found = index.find("t", key, begin_ms=begin, end_ms=end)
    return [offset for offset in found if offset is not None]


def test_files_roll_and_are_searched_newest_first():
    disk = FaultyDisk()
    index = new_index(disk)
    add(index, ["a", "b"] * 50, 0)
    assert found(index, "a") == list(range(98, -1, -2))
    index.settle()
    assert found(index, "a") == list(range(98, -1, -2))
    names = disk.names(Path("/index"))
    assert names == sorted(names)
    assert len(names) == 4
    index.flush(1 << 40)
    again = new_index(disk)
    again.load()
    assert found(again, "b") == list(range(99, 0, -2))
    assert again.item_count == 100
    # A new file begins where the one before ended.
    first, second = (
        IndexFile(disk, Path("/index") / n, slots=SLOTS, items=ITEMS) for n in names[:2]
    )
    assert second.begin_offset == first.end_offset + 1


def test_names_grow_even_if_the_clock_goes_back():
    disk, clock = FaultyDisk(), FixedClock()
    index = new_index(disk, clock)
    add(index, ["a"] * 29, 0)
    index.settle()
    clock.advance(-10_000)
    add(index, ["a"] * 5, 29)
    index.settle()
    assert found(index, "a") == list(range(33, -1, -1))
    assert disk.names(Path("/index"))[0] == f"{FixedClock().time_ms:017d}"


def test_times_limit_the_search():
    index = new_index(FaultyDisk())
    for number in range(40):
        add(index, ["a"], number, timestamp=10_000 * number)
        if number == 15:
            index.settle()
    assert found(index, "a", 100_000, 200_000) == list(range(20, 9, -1))
    index.settle()
    assert found(index, "a", 100_000, 200_000) == list(range(20, 9, -1))


def test_old_files_go_with_the_log():
    disk = FaultyDisk()
    index = new_index(disk)
    add(index, ["a"] * 100, 0)
    index.settle()
    index.remove_below(59)
    assert len(disk.names(Path("/index"))) == 2
    index.remove_below(1000)
    assert len(disk.names(Path("/index"))) == 1


def test_a_full_disk_leaves_the_keys_waiting():
    disk = FaultyDisk(space_bytes=index_file_bytes(SLOTS, ITEMS))
    index = new_index(disk)
    add(index, ["a"] * 40, 0)
    with pytest.raises(StoreFull, match="index file"):
        index.settle()
    assert index.pending_keys == 11
    assert found(index, "a") == list(range(39, -1, -1))
    disk.space_bytes = None
    index.settle()
    assert found(index, "a") == list(range(39, -1, -1))
    assert index.pending_keys == 0


def test_slots_that_a_full_disk_refused_are_written_with_the_next_flush():
    disk = FaultyDisk()
    file = new_file(disk)
    file.insert(np.array([3, 5]), np.array([100, 200]), np.array([1000, 2000]))
    disk.error, disk.failing = errno.ENOSPC, range(disk.steps + 1, disk.steps + 2)
    with pytest.raises(OSError, match="No space left"):
        file.flush()
    file.flush()
    again = IndexFile(disk.lose_power(1), PATH, slots=SLOTS, items=ITEMS)
    assert [item[0] for item in again.find(5) if item is not None] == [200]


def test_a_chain_that_runs_in_circles_ends():
    disk = FaultyDisk()
    file = new_file(disk)
    file.insert(*(np.array(column) for column in ([3, 3, 3], [1, 2, 3], [5, 5, 5])))
    items = 40 + SLOTS * 4
    disk.open(PATH, writable=True).write_at(items + 20 + 16, (3).to_bytes(4, "big"))
    assert len(list(file.find(3))) == 3


def test_files_of_other_lengths_are_refused():
    disk = FaultyDisk()
    disk.make_folders(Path("/index"))
    disk.write(Path("/index") / ("1" * 17), b"short")
    with pytest.raises(StoreFormatError, match="5 bytes long"):
        new_index(disk).load()


def test_there_is_an_end_to_what_may_wait():
    assert PENDING_KEYS_MAX >= 1000


@pytest.mark.parametrize("chunk_bytes", [20, 60, 1 << 22])
def test_items_that_no_chain_reaches_are_counted_however_many_are_read_at_once(
    monkeypatch, chunk_bytes
):
    monkeypatch.setattr(index_file, "_CHUNK_BYTES", chunk_bytes)
    disk = FaultyDisk()
    file = new_file(disk)
    # The chains: items 1, 3 and 5 of slot 1; 2 and 6 of slot 2; 4 of slot 3.
    file.insert(np.array([1, 2, 8, 3, 15, 9]), np.arange(10, 16), np.full(6, 1000))
    file.flush()
    assert IndexFile(disk, PATH, slots=SLOTS, items=ITEMS).count_unfound() == 0
    content = disk.open(PATH, writable=True)
    content.write_at(file.item_position(5) + 16, struct.pack(">i", 1))
    assert IndexFile(disk, PATH, slots=SLOTS, items=ITEMS).count_unfound() == 1
    content.write_at(40 + 4 * 2, struct.pack(">i", 2))
    assert IndexFile(disk, PATH, slots=SLOTS, items=ITEMS).count_unfound() == 2
    # The newest of its slot is wrong in itself and is not in the slot: it counts once.
    content.write_at(40 + 4 * 1, struct.pack(">i", 3))
    assert IndexFile(disk, PATH, slots=SLOTS, items=ITEMS).count_unfound() == 2
