"""A page that is lost from what was flushed costs its own records, and none behind them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ariane_storage import FlushMode, Store
from ariane_storage.testing import block_of, small_config

PAGE = 1024


def append(store, count, begin=0):
    return [
        store.append(block_of("flights", [b"%04d" % number * 30]), 0)
        for number in range(begin, begin + count)
    ]


def zero_page(bench, begin):
    path = bench.segment_path(0)
    content = bytearray(bench.disk.read(path))
    content[begin : begin + PAGE] = bytes(PAGE)
    bench.disk.write(path, bytes(content))


def numbers(messages):
    return [int(message.body[:4]) for message in messages]


@pytest.fixture
def synchronous(bench):
    bench.config = small_config(flush_mode=FlushMode.SYNC)
    return bench


@pytest.mark.parametrize("page", [0, 1, 2, 3])
def test_a_page_of_what_was_flushed_costs_its_own_records_only(synchronous, read_all, page):
    bench = synchronous
    store = bench.open()
    appended = append(store, 20)
    store.flush()
    end = store.max_offset
    bench.disk = bench.disk.kill()
    begin = page * PAGE
    zero_page(bench, begin)
    hit = {
        number
        for number, one in enumerate(appended)
        if one.first_commit_log_offset < begin + PAGE and one.next_commit_log_offset > begin
    }
    assert 0 < len(hit) < 15
    for _ in range(2):
        store = bench.open()
        assert store.recovery.cut_reason is None
        assert numbers(read_all(store, "flights", 0)) == [n for n in range(20) if n not in hit]
        assert store.queue_bounds("flights", 0)[1] == 20
        assert store.max_offset == end
        (damage,) = store.damage
        assert damage.begin == appended[min(hit)].first_commit_log_offset
        bench.disk = bench.disk.kill()
    store = bench.open()
    assert append(store, 1)[0].first_queue_offset == 20
    store.close()


def test_the_last_page_of_what_was_flushed_is_damage_and_no_torn_tail(synchronous, read_all):
    bench = synchronous
    store = bench.open()
    append(store, 20)
    store.flush()
    end = store.max_offset
    bench.disk = bench.disk.kill()
    zero_page(bench, end - end % 512)
    store = bench.open()
    assert (store.max_offset, store.recovery.cut_reason) == (end, None)
    assert [damage.end for damage in store.damage] == [end]
    assert append(store, 1)[0].first_commit_log_offset == end
    store.close()


@pytest.mark.parametrize("flushed", [0, 7])
def test_a_hole_in_what_was_not_flushed_ends_the_log_and_tells_how_many_went_with_it(
    bench, read_all, flushed
):
    store = bench.open()
    append(store, flushed)
    store.flush()
    appended = append(store, 20 - flushed, flushed)
    bench.disk = bench.disk.kill()
    zero_page(bench, 2 * PAGE)
    store = bench.open()
    whole = [one for one in appended if one.first_commit_log_offset >= 3 * PAGE]
    kept = read_all(store, "flights", 0)
    assert numbers(kept) == list(range(len(kept)))
    assert len(kept) >= flushed
    assert store.recovery.cut_reason is not None
    assert store.recovery.cut_records == len(whole)
    store.close()


def test_the_mark_outlives_no_power_cut_with_more_than_was_true(synchronous):
    """Power is lost with the mark on the disk or not: nobody takes an unflushed hole for damage."""
    bench = synchronous
    for seed in range(40):
        store = bench.open()
        count = store.queue_bounds("flights", 0)[1]
        append(store, 3)
        store.flush()
        append(store, 3)
        bench.disk = bench.disk.lose_power(seed)
        store = bench.open()
        assert store.queue_bounds("flights", 0)[1] >= count + 3, seed
        assert store.damage == (), seed
        bench.disk = bench.disk.kill()


def test_a_closed_store_holds_no_file_open(tmp_path):
    store = Store.open(tmp_path / "s", small_config(flush_mode=FlushMode.SYNC))
    append(store, 3)
    store.flush()
    assert open_files_below(tmp_path / "s")
    store.close()
    assert open_files_below(tmp_path / "s") == []


def open_files_below(folder):
    descriptors = Path("/proc/self/fd").iterdir()
    paths = [str(path.readlink()) for path in descriptors if path.is_symlink()]
    return [path for path in paths if path.startswith(str(folder))]


def test_no_space_for_the_mark_is_no_failed_flush(bench, monkeypatch):
    store = bench.open()
    append(store, 1)

    def full(_file, _offset):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ariane_storage.log.checkpoint.CheckpointFile.mark", full)
    assert store.flush() == store.max_offset
    assert not store.is_poisoned
    monkeypatch.undo()
    assert store.flush() == store.max_offset
    bench.disk = bench.disk.kill()
    zero_page(bench, 0)
    store = bench.open()
    assert store.recovery.cut_reason is None
    store.close()
