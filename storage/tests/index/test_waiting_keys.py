"""Keys that wait: found as if they were filed, filed by anyone, by nobody in the way of others."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_record.checksums.java_hash import key_hash
from ariane_storage.index.index import Index
from ariane_storage.index.waiting_keys import Keys, WaitingKeys
from ariane_storage.testing import FaultyDisk, FixedClock, block_of

SLOTS, ITEMS = 7, 30
KEYS = [f"k{number}" for number in range(5)]


def new_index(disk: FaultyDisk | None = None) -> Index:
    return Index(disk or FaultyDisk(), Path("/index"), FixedClock(), slots=SLOTS, items=ITEMS)


def keys_of(names, first_offset, timestamp=5000):
    return (
        np.array([key_hash("t", name) for name in names], np.int32),
        np.arange(first_offset, first_offset + len(names)),
        np.full(len(names), timestamp),
    )


def found(index, key):
    found = index.find("t", key, begin_ms=0, end_ms=1 << 60)
    return [offset for offset in found if offset is not None]


STEPS = st.lists(
    st.one_of(
        st.lists(st.sampled_from(KEYS), max_size=20),
        st.sampled_from(["settle", "file some", "flush"]),
    ),
    max_size=60,
)


@given(steps=STEPS)
def test_what_is_found_does_not_depend_on_who_has_filed_what(steps):
    index, offsets = new_index(), {key: [] for key in KEYS}
    end = 0
    for step in steps:
        if step == "settle":
            index.settle()
            assert index.pending_keys == 0
        elif step == "file some":
            index.file_some()
        elif step == "flush":
            below = end // 2
            assert index.flush(below) == sum(o < below for of in offsets.values() for o in of)
        else:
            index.add(*keys_of(step, end))
            for offset, key in enumerate(step, end):
                offsets[key].insert(0, offset)
            end += len(step)
        assert index.item_count + index.pending_keys == end
    for key in KEYS:
        assert found(index, key) == offsets[key]
    index.settle()
    for key in KEYS:
        assert found(index, key) == offsets[key]


@given(
    sizes=st.lists(st.integers(0, 6), max_size=30),
    drops=st.lists(st.integers(1, 9), max_size=20),
    end=st.integers(0, 120),
)
def test_what_waits_is_a_queue(sizes, drops, end):
    waiting, model = WaitingKeys(), []
    for size in sizes:
        columns = keys_of(["k"] * size, len(model))
        waiting.add(Keys(*columns))
        model += columns[1].tolist()
    for drop in drops:
        oldest = waiting.oldest(drop)
        assert (oldest is None) == (not model)
        if oldest is not None:
            assert oldest.commit_log_offsets.tolist() == model[:drop]
            waiting.drop(len(oldest))
            del model[:drop]
        assert waiting.count == len(model)
        hashed = key_hash("t", "k")
        assert waiting.find(hashed, begin_ms=0, end_ms=9999) == model[::-1]
    waiting.keep_below(end)
    kept = waiting.oldest(1000)
    assert ([] if kept is None else kept.commit_log_offsets.tolist()) == [
        offset for offset in model if offset < end
    ]
    assert waiting.count == (0 if kept is None else len(kept))


def test_a_query_at_any_moment_of_filing_finds_all(monkeypatch):
    """Before, between and after: items, their number, slots, and what waits."""
    index = new_index()
    index.add(*keys_of(KEYS * 2, 0))
    index.settle()
    file = index._files[0]
    moments = []

    def look():
        moments.append([sorted(found(index, key)) for key in KEYS])

    class Watched(np.ndarray):
        def __setitem__(self, place, value):
            look()
            super().__setitem__(place, value)
            look()

    class WatchedFile(type(file)):
        def __setattr__(self, name, value):
            super().__setattr__(name, value)
            look()

    class WatchedWrites:
        def __init__(self, written):
            self.written = written

        def __getattr__(self, name):
            return getattr(self.written, name)

        def write_at(self, position, content):
            look()
            self.written.write_at(position, content)
            look()

    file._slots = file._slots.view(Watched)
    file._file = WatchedWrites(file._file)
    file.__class__ = WatchedFile
    index.add(*keys_of(KEYS * 3, 10))
    index.settle()
    look()
    assert len(moments) > 8
    wanted = [list(range(number, 25, 5)) for number in range(5)]
    assert [moment for moment in moments if moment != wanted] == []


class SlowToAllocate(FaultyDisk):
    """Stops where an index file is allocated, until it may go on."""

    def __init__(self):
        super().__init__()
        self.in_allocate, self.go_on = threading.Event(), threading.Event()
        self.slow = False

    def allocate(self, path, size_bytes):
        if self.slow and path.parent.name == "index":
            self.in_allocate.set()
            assert self.go_on.wait(60)
        super().allocate(path, size_bytes)


def test_neither_appends_nor_queries_wait_while_an_index_file_is_made(bench):
    bench.disk = disk = SlowToAllocate()
    store = bench.open()
    keys = [("same",)] * bench.config.index_items
    store.append(block_of("flights", [b"x"] * len(keys), keys=keys), 0)
    disk.slow = True
    filer = threading.Thread(target=store.keeping.file_keys)
    filer.start()
    try:
        assert disk.in_allocate.wait(60)
        store.append(block_of("flights", [b"new"], keys=[("same",)]), 0)
        newest = store.query_by_key("flights", "same", max_count=1)
        assert [message.body for message in newest] == [b"new"]
        assert len(store.query_by_key("flights", "same", max_count=99)) == len(keys) + 1
    finally:
        disk.go_on.set()
        filer.join()
    assert len(store.query_by_key("flights", "same", max_count=99)) == len(keys) + 1
    store.close()


def test_queries_find_all_while_a_thread_files(tmp_path):
    """The real thing, for a moment: threads switch wherever they please."""
    index = new_index()
    stop, failures = threading.Event(), []

    def file_on():
        try:
            while not stop.is_set():
                index.file_some()
        except BaseException as error:
            failures.append(error)
            raise

    filer = threading.Thread(target=file_on)
    filer.start()
    try:
        for number in range(300):
            index.add(*keys_of(["a", "b"], 2 * number))
            assert found(index, "a") == list(range(2 * number, -1, -2))
    finally:
        stop.set()
        filer.join()
    assert failures == []


def test_without_a_thread_beside_the_backlog_is_bounded_and_close_files_the_rest(bench):
    bench.config = replace(bench.config, index_backlog_keys=6)
    store = bench.open()
    for number in range(40):
        store.append(block_of("flights", [b"x"] * 4, keys=[("k", f"n{number}")] * 4), 0)
        assert store.keeping.waiting_keys <= 6 + 8
        assert len(store.query_by_key("flights", "k", max_count=999)) == 4 * (number + 1)
    assert store.keeping.waiting_keys
    store.close()
    store = bench.open()
    assert store.recovery.rebuilt == ()
    assert store.recovery.records == 0
    assert store._parts.index.item_count == 320
    assert len(store.query_by_key("flights", "n39")) == 4
    store.close()


@pytest.mark.parametrize("filed", ["nothing", "half", "all", "all and more appended"])
def test_a_crash_with_keys_that_wait_loses_none(bench, filed):
    store = bench.open()

    def append(count):
        for _ in range(count):
            store.append(block_of("flights", [b"x"] * 2, keys=[("k",)] * 2), 0)

    append(10)
    store.flush_derived()
    append(10)
    if filed == "half":
        hashes = store._parts.index._waiting.oldest(10)
        file = store._parts.index._files[-1]
        file.insert(hashes.hashes.astype(np.int64), hashes.commit_log_offsets, hashes.timestamps)
    elif filed != "nothing":
        store.keeping.file_keys()
    if filed == "all and more appended":
        append(5)
    expected = [m.queue_offset for m in store.query_by_key("flights", "k", max_count=999)]
    store = bench.reopen_after_kill()
    assert store.recovery.rebuilt == ()
    again = [m.queue_offset for m in store.query_by_key("flights", "k", max_count=999)]
    assert again == expected
    assert store._parts.index.item_count == len(expected)
    store.close()


def test_a_request_is_not_kept_for_its_keys():
    index = new_index()
    hashes, offsets, stamps = keys_of(["a"] * 3, 0)
    index.add(hashes, offsets, stamps)
    hashes[:] = 0
    assert found(index, "a") == [2, 1, 0]
