"""What the keeper does while appends go on, and when something runs out halfway."""

from __future__ import annotations

import errno
import os
import threading
from dataclasses import replace

import pytest

from ariane_storage import (
    Damage,
    DamageReason,
    RetentionReason,
    Store,
    StoreConfig,
    StoreFull,
    StorePoisoned,
)
from ariane_storage.log.quarantine import Quarantine
from ariane_storage.testing import FaultyDisk, apply_retention, block_of, small_config


def test_appends_during_a_checkpoint_do_not_cost_a_rebuild(bench, fill, monkeypatch):
    store = bench.open()
    fill(store, blocks=6)
    flush = store._parts.log.flush

    def flush_then_append() -> int:
        flushed = flush()
        monkeypatch.setattr(store._parts.log, "flush", flush)
        fill(store, blocks=3)
        return flushed

    end = store.max_offset
    monkeypatch.setattr(store._parts.log, "flush", flush_then_append)
    store.flush_derived()
    assert store.max_offset > end
    store = bench.reopen_after_kill()
    assert store.recovery.rebuilt == ()
    assert store.recovery.scanned_from == end
    assert len(store.query_by_key("flights", "N0")) == 9
    store.close()


def test_entries_do_not_count_before_it_is_known_where_their_records_end(bench, monkeypatch):
    """A write-out at any moment of an append sees no entry whose record is not durable."""
    store = bench.open()
    store.append(block_of("flights", [b"x"]), 0)
    store.flush_derived()
    queue = store._parts.queues.find("flights", 0)
    durable = store.flushed_offset
    seen = []

    class Watched(type(queue._tail)):
        def __setattr__(self, name, value):
            super().__setattr__(name, value)
            if name == "encoded":
                seen.append(queue.end_below(durable))

    tail = queue._tail
    queue._tail = Watched(tail.start, tail.encoded)
    seen.clear()
    store.append(block_of("flights", [b"y"]), 0)
    assert seen == [1]
    store.close()


def test_neither_appends_nor_queries_wait_for_the_disk_of_the_index(bench, fill, monkeypatch):
    store = bench.open()
    fill(store, blocks=3)
    index = store._parts.index
    index.settle()
    file = index._files[-1]
    in_flush, go_on = threading.Event(), threading.Event()
    flush = type(file).flush

    def slow_flush(self):
        in_flush.set()
        assert go_on.wait(60)
        flush(self)

    monkeypatch.setattr(type(file), "flush", slow_flush)
    keeper = threading.Thread(target=store.flush_derived)
    keeper.start()
    assert in_flush.wait(60)
    try:
        settled = threading.Thread(target=index.settle)
        settled.start()
        settled.join(5)
        assert not settled.is_alive()
    finally:
        go_on.set()
        keeper.join()
    store.close()


class ShortOfDescriptors(FaultyDisk):
    """Refuses to open one file more, once."""

    refusing = False

    def open(self, path, *, writable):
        if self.refusing and path.parent.parent.name == "delays":
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return super().open(path, writable=writable)


@pytest.mark.parametrize("seed", range(6))
def test_what_runs_out_halfway_poisons_nothing_and_loses_nothing(bench, read_all, seed):
    bench.disk = disk = ShortOfDescriptors()
    store = bench.open()
    for topic in ("arrivals", "delays", "flights"):
        store.append(block_of(topic, [b"x", b"y"], keys=[["k"], ["k"]]), 0)
    disk.refusing = True
    with pytest.raises(StoreFull, match="Too many open files"):
        store.flush_derived()
    assert not store.is_poisoned
    disk.refusing = False
    store.flush_derived()
    bench.disk = disk.lose_power(seed)
    store = bench.open()
    assert store.recovery.rebuilt == ()
    for topic in ("arrivals", "delays", "flights"):
        assert [m.body for m in read_all(store, topic, 0)] == [b"x", b"y"]
    store.close()


def test_a_segment_whose_age_nobody_knows_is_kept(bench, store):
    while store.max_offset <= 2 * store.config.segment_bytes:
        store.append(block_of("flights", [b"x" * 900] * 2), 0)
    bench.disk.used_ratio = 0.8
    far_future = bench.clock.time_ms + 1000 * 24 * 3_600_000
    for segment in store._parts.log.segments[1:]:
        bench.disk.flip_bit(segment.path, 4, 0)
    assert apply_retention(store, far_future).deleted == ()
    bench.disk.flip_bit(segment.path, 4, 0)
    report = apply_retention(store, far_future)
    assert (report.reason, report.deleted) == (RetentionReason.DISK_CLEAN, (0, 8192))


def test_segments_are_made_and_deleted_by_two_threads(tmp_path):
    config: StoreConfig = replace(
        small_config(segment_bytes=4096),
        disk_clean_ratio=1e-9,
        disk_force_ratio=1e-9,
        disk_refuse_ratio=1.0,
    )
    with Store.open(tmp_path / "s", config) as store:
        stop = threading.Event()

        def prepare() -> None:
            while not stop.is_set():
                store.keeping.prepare_next_segment()

        maker = threading.Thread(target=prepare)
        maker.start()
        try:
            for _ in range(150):
                store.append(block_of("flights", [b"x" * 1700] * 2), 0)
                apply_retention(store)
        finally:
            stop.set()
            maker.join()
        log = store._parts.log
        assert [segment.start for segment in log.segments] == log._starts
        low, high = store.queue_bounds("flights", 0)
        assert high == 300
        read = store.read_queue("flights", 0, low, max_count=9999, max_bytes=1 << 30)
        assert read.count == high - low > 0


def test_an_index_file_has_room_for_an_item():
    with pytest.raises(ValueError, match="index_items"):
        StoreConfig(index_items=1)


def test_a_full_disk_is_named_when_a_store_is_opened(bench):
    bench.disk = NothingFits()
    with pytest.raises(StoreFull, match="no space left to open the store"):
        bench.open()
    bench.disk = FaultyDisk()
    bench.open().close()


class NothingFits(FaultyDisk):
    """A full disk, small files included."""

    def write(self, path, content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def test_a_roll_allocates_nothing_that_was_prepared(bench, monkeypatch):
    store = bench.open()

    def not_on_the_loop(path, size_bytes):
        raise AssertionError(f"{path.name} was to be there already")

    rolls = 0
    while rolls < 4:
        store.keeping.prepare_next_segment()
        with monkeypatch.context() as patch:
            patch.setattr(bench.disk, "allocate", not_on_the_loop)
            for _ in range(2):
                before = store.max_offset // bench.config.segment_bytes
                store.append(block_of("flights", [b"x" * 900] * 2), 0)
                rolls += store.max_offset // bench.config.segment_bytes - before
    store.close()


@pytest.mark.parametrize("who", ["keeper", "checkpoint", "append"])
def test_a_full_index_file_that_cannot_be_flushed_poisons_the_store(bench, who):
    """Whoever files the keys: a flush that failed is never tried again into a success."""
    bench.config = replace(bench.config, index_backlog_keys=10)
    store = bench.open()
    keys = [(f"K{number}",) for number in range(bench.config.index_items - 1)]
    store.append(block_of("flights", [b"x"] * len(keys), keys=keys), 0)
    store.flush_derived()
    store.append(block_of("flights", [b"y"] * 20, keys=[("more",)] * 20), 0)
    bench.disk.flush_fails_at = bench.disk.flushes + 1
    steps = {
        "keeper": store.keeping.file_keys,
        "checkpoint": store.flush_derived,
        "append": lambda: store.append(block_of("flights", [b"z"]), 0),
    }
    with pytest.raises(StorePoisoned):
        steps[who]()
    assert store.is_poisoned
    with pytest.raises(StorePoisoned):
        store.keeping.file_keys()
    assert len(store.query_by_key("flights", "more")) == 20
    store.close()
    store = bench.reopen_after_kill()
    assert len(store.query_by_key("flights", "more")) == 20
    store.close()


def test_damage_that_is_found_while_the_list_is_saved_is_saved_the_next_time(bench, monkeypatch):
    store = bench.open()
    quarantine = store._parts.quarantine
    save = quarantine._file.save
    early, late = (Damage(begin, begin + 9, DamageReason.CHECKSUM) for begin in (0, 100))

    def save_and_find_more(state):
        save(state)
        quarantine.add(late)

    monkeypatch.setattr(quarantine._file, "save", save_and_find_more)
    quarantine.add(early)
    quarantine.save()
    monkeypatch.setattr(quarantine._file, "save", save)
    quarantine.save()
    found = Quarantine(bench.disk, bench.root / "quarantine.json")
    found.load()
    assert found.ranges == (early, late)
    store.close()


def test_a_queue_that_nothing_was_appended_to_is_none(bench, store):
    bench.disk.used_ratio = 0.0
    bench.disk.space_bytes = 1
    with pytest.raises(StoreFull):
        store.append(block_of("flights", [b"x" * 100]), 0)
    assert store.queues() == []
    bench.disk.space_bytes = None
