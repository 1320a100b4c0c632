"""A clock that jumps: nothing is deleted for it, and delayed messages do not wait for it."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace

import numpy as np
import pytest

from ariane_record.names import DELAY_TOPIC
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_storage import OsDisk, RetentionReason, Store
from ariane_storage.keeping.keeper import ALIVE_MS
from ariane_storage.offline.closed_store import ClosedStore
from ariane_storage.offline.inspection import inspect
from ariane_storage.store_files import StoreFiles
from ariane_storage.testing import FixedClock, apply_retention, block_of, small_config

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@pytest.fixture
def any_hour(bench):
    """A store in which age alone decides: the disk is full enough for any hour."""
    bench.disk.used_ratio = 0.8
    return bench.open()


def fill(store, segments=4):
    while store.max_offset <= (segments - 1) * store.config.segment_bytes:
        store.append(block_of("flights", [b"x" * 900] * 2), 0)


def test_a_blip_deletes_nothing(bench, any_hour):
    fill(any_hour)
    bench.clock.jump(15 * DAY_MS)
    assert apply_retention(any_hour).deleted == ()
    assert any_hour.clock_doubt == (15 * DAY_MS, bench.clock.time_ms)
    bench.clock.jump(-15 * DAY_MS)
    assert apply_retention(any_hour).deleted == ()
    assert any_hour.clock_doubt is None
    bench.clock.advance(4 * DAY_MS)
    assert apply_retention(any_hour).deleted != ()
    any_hour.close()


def test_a_doubt_is_known_as_soon_as_somebody_asks(bench, any_hour):
    bench.clock.jump(15 * DAY_MS)
    assert any_hour.clock_doubt == (15 * DAY_MS, bench.clock.time_ms)
    bench.clock.jump(-15 * DAY_MS)
    assert any_hour.clock_doubt is None


def test_a_doubt_that_a_full_disk_cannot_note_keeps_nothing_from_being_deleted(bench, any_hour):
    fill(any_hour)
    any_hour.flush_derived()
    bench.clock.jump(15 * DAY_MS)
    bench.disk.used_ratio = 0.86
    bench.disk.error = errno.ENOSPC
    bench.disk.failing = range(bench.disk.steps + 1, bench.disk.steps + 2)
    assert apply_retention(any_hour).reason is RetentionReason.DISK_FORCE
    assert not any_hour.is_poisoned
    # The next turn notes it.
    apply_retention(any_hour)
    bench.disk = bench.disk.kill()
    assert bench.open().clock_doubt is not None


def test_a_jump_that_stands_as_long_as_messages_are_kept_is_believed(bench, any_hour):
    fill(any_hour)
    bench.clock.jump(15 * DAY_MS)
    for _ in range(71):
        assert apply_retention(any_hour).deleted == ()
        bench.clock.advance(HOUR_MS)
    assert any_hour.clock_doubt is not None
    bench.clock.advance(2 * HOUR_MS)
    assert apply_retention(any_hour).reason is RetentionReason.DISK_CLEAN
    assert any_hour.clock_doubt is None
    any_hour.close()


def test_what_is_old_by_the_steady_clock_goes_in_spite_of_a_doubt(bench, any_hour):
    fill(any_hour)
    bench.clock.advance(71 * HOUR_MS)
    bench.clock.jump(DAY_MS)
    assert apply_retention(any_hour).deleted == ()
    bench.clock.advance(2 * HOUR_MS)
    assert apply_retention(any_hour).deleted != ()
    assert any_hour.clock_doubt is not None
    any_hour.close()


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_a_restart_does_not_end_the_doubt(bench, any_hour, ending):
    fill(any_hour)
    bench.clock.jump(15 * DAY_MS)
    apply_retention(any_hour)
    if ending == "stop":
        any_hour.close()
    store = bench.open() if ending == "stop" else bench.reopen_after_kill()
    bench.disk.used_ratio = 0.8
    bench.clock.advance(HOUR_MS)
    assert apply_retention(store).deleted == ()
    assert store.clock_doubt.ahead_ms == 15 * DAY_MS
    bench.clock.advance(3 * DAY_MS)
    assert apply_retention(store).deleted != ()
    store.close()
    # The end of a doubt is written down, too.
    assert bench.open().clock_doubt is None


def test_a_clock_that_was_set_right_during_the_stop_is_believed(bench, any_hour):
    fill(any_hour)
    bench.clock.jump(15 * DAY_MS)
    apply_retention(any_hour)
    any_hour.close()
    bench.clock.jump(-15 * DAY_MS)
    store = bench.open()
    assert store.clock_doubt is None
    store.close()


def test_a_damaged_note_of_the_doubt_lets_nothing_grow_old(bench, any_hour):
    fill(any_hour)
    bench.clock.jump(15 * DAY_MS)
    apply_retention(any_hour)
    any_hour.close()
    bench.disk.write(StoreFiles(bench.root).clock_doubt, b"[]\n")
    bench.disk.remove(StoreFiles(bench.root).clock_doubt.with_suffix(".json.bak"))
    store = bench.open()
    assert apply_retention(store).deleted == ()
    store.close()


def test_a_clock_is_compared_with_the_files_of_the_store(tmp_path):
    """The process was not there when it jumped; a short stop is no reason to doubt."""
    config = replace(small_config(), disk_clean_ratio=0.001)
    begin_ms = OsDisk().modified_ms(tmp_path)
    clock = FixedClock(begin_ms)
    with Store.open(tmp_path / "store", config, clock=clock) as store:
        fill(store)
    for hours, doubted in ((10, False), (15 * 24, True)):
        clock = FixedClock(begin_ms + hours * HOUR_MS)
        with Store.open(tmp_path / "store", config, clock=clock) as store:
            assert apply_retention(store).deleted == ()
            assert (store.clock_doubt is not None) is doubted
            if doubted:
                clock.advance(73 * HOUR_MS)
                assert apply_retention(store).deleted != ()


def test_an_idle_store_keeps_its_files_young_so_that_the_next_start_believes_the_clock(tmp_path):
    clock, path = FixedClock(), tmp_path / "store"
    checkpoint = StoreFiles(path).checkpoint
    with Store.open(path, small_config(), clock=clock) as store:
        fill(store)
        store.flush_derived()
        os.utime(checkpoint, (0, 0))
        for _ in range(2):
            clock.advance(ALIVE_MS // 3)
            store.keeping.flush_due()
            assert OsDisk().modified_ms(checkpoint) == 0
        clock.advance(ALIVE_MS // 2)
        store.keeping.flush_due()
        assert OsDisk().modified_ms(checkpoint) > 0


def test_store_times_in_the_future_leave_the_age_to_the_files(tmp_path):
    config = replace(small_config(), disk_clean_ratio=0.001)
    clock = FixedClock(OsDisk().modified_ms(tmp_path))
    with Store.open(tmp_path / "store", config, clock=clock) as store:
        clock.jump(365 * DAY_MS)
        fill(store)
        clock.jump(-365 * DAY_MS)
        assert 364 * DAY_MS < store.stamp_ahead_ms <= 365 * DAY_MS
        clock.advance(71 * HOUR_MS)
        assert apply_retention(store).deleted == ()
        clock.advance(2 * HOUR_MS)
        assert apply_retention(store).deleted != ()


def test_a_file_that_was_written_to_lately_is_young(tmp_path):
    """Its records say 1970: the clock was set after the first of them."""
    config = replace(small_config(), disk_clean_ratio=0.001)
    clock = FixedClock(DAY_MS)
    with Store.open(tmp_path / "store", config, clock=clock) as store:
        fill(store)
        young_ms = OsDisk().modified_ms(store.root / "commitlog" / ("0" * 20))
        assert apply_retention(store, young_ms + HOUR_MS).deleted == ()
        for path in (store.root / "commitlog").iterdir():
            os.utime(path, (0, 0))
        assert apply_retention(store, young_ms + HOUR_MS).deleted != ()


def park(store, body):
    encoder = BlockEncoder(DELAY_TOPIC, size_bytes_max=1 << 12)
    encoder.add(body, properties={"DELAY": "1"}, born_timestamp_ms=1)
    return store.append(encoder.finish(), 0)


def due(store):
    entries = store.queue_entries(DELAY_TOPIC, 0, 0, max_count=99)
    return entries["tags_code"].astype(np.int64).tolist()


def test_what_is_parked_after_a_blip_is_due_by_the_clock(bench, store):
    park(store, b"before")
    bench.clock.jump(15 * DAY_MS)
    park(store, b"blip")
    bench.clock.jump(-15 * DAY_MS)
    bench.clock.advance(5)
    after = park(store, b"after")
    now_ms = bench.clock.time_ms
    assert due(store) == [now_ms - 5 + 1000, now_ms - 5 + 15 * DAY_MS + 1000, now_ms + 1000]
    assert after.store_timestamp_ms == now_ms - 5 + 15 * DAY_MS, "stamps never go back"
    store.close()
    with ClosedStore(bench.root, bench.disk) as closed:
        assert inspect(closed).is_sound, "what is due by the clock is no damage"


def test_the_note_of_a_doubt_says_what_it_is(bench, any_hour):
    bench.clock.jump(DAY_MS)
    apply_retention(any_hour)
    any_hour.close()
    content = json.loads(bench.disk.read(StoreFiles(bench.root).clock_doubt))
    assert content == {"ahead_ms": DAY_MS, "since_ms": bench.clock.time_ms}
