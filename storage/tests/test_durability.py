"""Flushing and its failures, a full disk, retention: what is promised, and what is refused."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from ariane_storage import (
    FlushMode,
    QueueOffsetOutOfRange,
    RecordNotFound,
    RetentionReason,
    StoreFull,
    StorePoisoned,
)
from ariane_storage.log.flush import FlushSchedule
from ariane_storage.testing import FaultyDisk, apply_retention, block_of, small_config

HOUR_MS = 3_600_000


@pytest.mark.parametrize("k", range(1, 6))
@pytest.mark.parametrize("ends", ["by a kill", "by a loss of power"])
def test_a_block_that_was_half_written_is_none(bench, read_all, k, ends):
    bench.config = small_config(flush_mode=FlushMode.SYNC)
    store = bench.open()
    bench.disk.write_fails_at = bench.disk.writes + k
    acknowledged: list[bytes] = []

    def bodies(opened):
        return [message.body for message in read_all(opened, "flights", 0)]

    def append_some():
        for number in range(k + 1):
            body = b"%d" % number + b"x" * 700
            store.append(block_of("flights", [body] * 5), 0)
            store.flush()
            acknowledged.extend([body] * 5)

    with pytest.raises(StorePoisoned, match="Input/output error"):
        append_some()
    # The filler at the end of a segment is a write of its own.
    assert len(acknowledged) <= 5 * (k - 1)
    # Nothing of the block is to be seen, and nothing is written behind it.
    assert bodies(store) == acknowledged
    with pytest.raises(StorePoisoned):
        store.append(block_of("flights", [b"never"]), 0)
    store.close()
    after = bench.disk.kill() if ends == "by a kill" else bench.disk.lose_power(k)
    survivor = replace(bench, disk=after)
    again = survivor.open()
    # Whole records of the half may have come back: a producer was told that nothing is known.
    found = bodies(again)
    assert found[: len(acknowledged)] == acknowledged
    assert len(found) <= len(acknowledged) + 5
    again.append(block_of("flights", [b"goes on"]), 0)
    again.flush()
    assert bodies(again) == [*found, b"goes on"]
    again.close()


@pytest.mark.parametrize("k", range(1, 8))
def test_a_failed_flush_poisons_the_store_for_ever(bench, read_all, k):
    bench.config = small_config(flush_mode=FlushMode.SYNC)
    store = bench.open()
    acknowledged = 0
    bench.disk.flush_fails_at = bench.disk.flushes + k

    def append_and_flush():
        appended = store.append(block_of("flights", [b"x" * 500] * 3), 0)
        store.flush()
        return appended.next_commit_log_offset

    while not store.is_poisoned:
        try:
            acknowledged = append_and_flush()
        except StorePoisoned as error:
            assert "Input/output error" in str(error)  # noqa: PT017 - the k-th flush, not the first.
    assert store.flushed_offset == acknowledged
    for step in (store.flush, store.flush_derived, store.keeping.prepare_next_segment):
        with pytest.raises(StorePoisoned):
            step()
    with pytest.raises(StorePoisoned):
        store.append(block_of("flights", [b"never"]), 0)
    # What was confirmed is still served.
    count = len(read_all(store, "flights", 0))
    store.close()
    assert bench.disk.size_of(bench.root / "abort") is not None
    survivor = replace(bench, disk=bench.disk.lose_power(k))
    again = survivor.open()
    assert again.max_offset >= acknowledged
    assert len(read_all(again, "flights", 0)) >= count
    again.close()


def test_what_is_appended_during_a_flush_is_not_acknowledged_by_it(bench, monkeypatch):
    bench.config = small_config(flush_mode=FlushMode.SYNC)
    store = bench.open()
    before = store.append(block_of("flights", [b"before"]), 0).next_commit_log_offset
    file = store._parts.log.segment_at(0).file()
    sync = type(file).flush

    def append_in_the_middle(self):
        sync(self)  # The pages are on the disk; the call has not returned yet.
        monkeypatch.undo()
        store.append(block_of("flights", [b"too late"]), 0)

    monkeypatch.setattr(type(file), "flush", append_in_the_middle)
    assert store.flush() == before == store.flushed_offset == store.confirmed_offset
    assert store.queue_bounds("flights", 0) == (0, 1)
    assert store.flush() == store.max_offset > before
    store.close()


def test_synchronous_flush_hides_what_is_not_durable(bench, read_all):
    bench.config = small_config(flush_mode=FlushMode.SYNC)
    store = bench.open()
    first = store.append(block_of("flights", [b"a"], keys=[["k"]]), 0)
    assert store.confirmed_offset == 0
    assert store.queue_bounds("flights", 0) == (0, 0)
    assert store.query_by_key("flights", "k") == []
    with pytest.raises(RecordNotFound):
        store.message_at(first.first_commit_log_offset)
    assert store.flush() == store.confirmed_offset == first.next_commit_log_offset
    store.append(block_of("flights", [b"b"]), 0)
    assert [m.body for m in read_all(store, "flights", 0)] == [b"a"]
    assert len(store.query_by_key("flights", "k")) == 1
    store.close()


def test_a_caller_may_lower_the_readable_end_but_not_raise_it(store):
    ends = [store.append(block_of("flights", [b"x"]), 0).next_commit_log_offset for _ in range(30)]
    store.flush_derived()
    for count, end in enumerate(ends, 1):
        assert store.queue_bounds("flights", 0, readable_end=end) == (0, count)
        assert store.queue_bounds("flights", 0, readable_end=end - 1) == (0, count - 1)
    assert store.queue_bounds("flights", 0, readable_end=1 << 50) == (0, 30)
    with pytest.raises(QueueOffsetOutOfRange):
        store.read_queue("flights", 0, 5, max_count=1, max_bytes=1, readable_end=ends[2])


def test_group_flush_beside_appends(tmp_path):
    from ariane_storage import Store  # noqa: PLC0415 - the real disk, and only here.

    with Store.open(tmp_path / "s", small_config(segment_bytes=1 << 16)) as store:
        stop, seen = threading.Event(), []

        def keep_flushing():
            while not stop.is_set():
                seen.append(store.flush())
                store.flush_derived()
                store.keeping.prepare_next_segment()

        flusher = threading.Thread(target=keep_flushing)
        flusher.start()
        try:
            for number in range(600):
                store.append(block_of("flights", [b"%d" % number] * 5), number % 7)
        finally:
            stop.set()
            flusher.join()
        assert seen == sorted(seen)
        for queue_id in range(7):
            low, high = store.queue_bounds("flights", queue_id)
            read = store.read_queue("flights", queue_id, low, max_count=9999, max_bytes=1 << 30)
            assert read.count == high - low
    assert sum(store.queue_bounds("flights", q)[1] for q in range(7)) == 3000


def test_a_full_disk_refuses_appends_until_there_is_space(bench, read_all):
    bench.disk = FaultyDisk(space_bytes=90_000)
    store = bench.open()
    appended = 0
    with contextlib.suppress(StoreFull):
        while appended < 1000:
            store.append(block_of("flights", [b"x" * 1000] * 3), 0)
            appended += 3
    assert 0 < appended < 1000
    assert len(read_all(store, "flights", 0)) == appended
    with pytest.raises(StoreFull, match="no space left"):
        store.append(block_of("flights", [b"x" * 1000] * 3), 0)
    with pytest.raises(StoreFull):
        store.keeping.prepare_next_segment()
    assert not store.is_poisoned
    bench.disk.space_bytes = None
    assert store.append(block_of("flights", [b"on"]), 0).first_queue_offset == appended
    store.close()
    store = bench.open()
    assert len(read_all(store, "flights", 0)) == appended + 1
    store.close()


def test_asynchronous_flush_keeps_its_intervals(bench):
    schedule = FlushSchedule(bench.config, log_flushed_ms=10_000, derived_flushed_ms=10_000)
    enough = bench.config.flush_least_pages * 4096
    assert not schedule.log_due(10_499, enough)
    assert schedule.log_due(10_500, enough)
    assert not schedule.log_due(10_500, enough - 1)
    assert not schedule.log_due(19_999, enough - 1)
    assert schedule.log_due(20_000, 1)
    assert not schedule.log_due(99_999, 0)
    assert schedule.log_due(9_000, enough)  # The clock went back: better now than late.
    assert not schedule.derived_due(10_999)
    assert schedule.derived_due(11_000)
    schedule.derived_took_ms = 500
    assert not schedule.derived_due(14_999)
    assert schedule.derived_due(15_000)
    schedule.derived_took_ms = 60_000
    assert schedule.derived_due(70_000)


def test_flush_due_does_what_the_clock_says(bench, store):
    store.append(block_of("flights", [b"x" * 900] * 4), 0)
    bench.clock.advance(bench.config.derived_interval_ms)
    store.keeping.flush_due()
    assert store.flushed_offset == store.max_offset
    store.append(block_of("flights", [b"x"]), 0)
    store.keeping.flush_due()
    assert store.flushed_offset < store.max_offset


def test_a_store_in_which_nothing_happens_leaves_the_disk_alone(bench, store):
    store.append(block_of("flights", [b"x"] * 3, keys=[["k"]] * 3), 0)
    store.flush_derived()
    steps, flushes = bench.disk.steps, bench.disk.flushes
    for _ in range(3):
        bench.clock.advance(bench.config.derived_interval_ms)
        assert store.keeping.is_flush_due
        store.keeping.flush_due()
        assert not store.keeping.is_flush_due
    assert (bench.disk.steps, bench.disk.flushes) == (steps, flushes)
    store.append(block_of("flights", [b"y"], keys=[["k"]]), 0)
    bench.clock.advance(bench.config.derived_interval_ms)
    store.keeping.flush_due()
    assert bench.disk.flushes > flushes
    again = replace(bench, disk=bench.disk.copy().lose_power(1)).open()
    assert [found.body for found in again.query_by_key("flights", "k")] == [b"y"] + [b"x"] * 3
    again.close()


def fill_segments(bench, store, count):
    while store.max_offset <= (count - 1) * store.config.segment_bytes:
        store.append(block_of("flights", [b"x" * 900] * 2, keys=[["k"], ["k"]]), 0)
        bench.clock.advance(HOUR_MS)


def test_old_segments_go_at_the_hour_for_it(bench, store):
    fill_segments(bench, store, 30)
    bench.disk.used_ratio = 0.1
    now = bench.clock.time_ms
    at_four = now - now % (24 * HOUR_MS) + 28 * HOUR_MS
    assert apply_retention(store, at_four - HOUR_MS).deleted == ()
    report = apply_retention(store, at_four)
    assert report.reason is RetentionReason.AGE
    assert report.min_offset == store.min_offset > 0
    low, high = store.queue_bounds("flights", 0)
    first = store.read_queue("flights", 0, low, max_count=1, max_bytes=1)
    assert first.count == 1
    with pytest.raises(QueueOffsetOutOfRange) as caught:
        store.read_queue("flights", 0, low - 1, max_count=1, max_bytes=1)
    assert caught.value.min_queue_offset == low
    assert len(store.query_by_key("flights", "k", max_count=9999)) == high - low
    oldest = store.store_timestamp_at(store.min_offset)
    assert at_four - oldest <= bench.config.retention_ms + 8 * HOUR_MS


def test_ratios_decide_what_goes_and_what_is_refused(bench, store):
    fill_segments(bench, store, 12)
    now = bench.clock.time_ms - bench.clock.time_ms % (24 * HOUR_MS) + 12 * HOUR_MS
    bench.disk.used_ratio = 0.8
    young = apply_retention(store, now - 10 * 24 * HOUR_MS)
    assert young.deleted == ()
    old = apply_retention(store, now + 10 * 24 * HOUR_MS)
    assert old.reason is RetentionReason.DISK_CLEAN
    assert len(old.deleted) == bench.config.delete_batch_max
    bench.disk.used_ratio = 0.95
    forced = apply_retention(store, now)
    assert forced.reason is RetentionReason.DISK_FORCE
    assert store.max_offset - store.min_offset <= store.config.segment_bytes
    with pytest.raises(StoreFull, match="95% full"):
        store.append(block_of("flights", [b"x"]), 0)
    bench.disk.used_ratio = 0.2
    apply_retention(store, now)
    assert store.append(block_of("flights", [b"x"]), 0).count == 1


@pytest.mark.parametrize(
    ("hour", "age_hours", "ratio", "reason"),
    [
        (4, 73, 0.10, RetentionReason.AGE),
        (4, 71, 0.10, None),
        (3, 73, 0.74, None),
        (5, 73, 0.74, None),
        (5, 73, 0.75, RetentionReason.DISK_CLEAN),
        (5, 71, 0.84, None),
        (5, 1, 0.85, RetentionReason.DISK_FORCE),
    ],
)
def test_the_borders_of_retention(bench, store, hour, age_hours, ratio, reason):
    assert (bench.config.retention_ms, bench.config.delete_at_hour) == (72 * HOUR_MS, 4)
    for _ in range(12):  # Three segments, all of one hour.
        store.append(block_of("flights", [b"x" * 900] * 2), 0)
    stored = store.store_timestamp_at(0)
    now = stored + age_hours * HOUR_MS
    bench.clock.local_hour = lambda now_ms: hour
    bench.disk.used_ratio = ratio
    report = apply_retention(store, now)
    assert report.reason is reason
    assert bool(report.deleted) == (reason is not None)
    assert store.min_offset == report.min_offset


def test_by_hand_all_that_is_old_enough_goes_at_any_hour_and_nothing_else(bench, store):
    fill_segments(bench, store, 30)
    bench.disk.used_ratio = 0.1
    bench.clock.local_hour = lambda _now_ms: bench.config.delete_at_hour + 1
    bench.clock.advance(bench.config.retention_ms - 30 * HOUR_MS)
    now = bench.clock.time_ms
    assert store.keeping.plan_retention(now).segments == ()
    plan = store.keeping.plan_retention(now, by_hand=True)
    assert bench.config.delete_batch_max < len(plan.segments) < 29
    assert plan.reason is RetentionReason.AGE
    assert now - plan.stored_until_ms > bench.config.retention_ms
    assert sum(each.end - each.begin for each in plan.ranges) > 0
    assert (
        now - store.store_timestamp_at(plan.min_offset) <= bench.config.retention_ms + 8 * HOUR_MS
    )


@pytest.mark.parametrize(("ratio", "refused"), [(0.899, False), (0.9, True), (1.0, True)])
def test_writes_are_refused_from_ninety_percent_on(bench, store, ratio, refused):
    bench.disk.used_ratio = ratio
    apply_retention(store)
    if refused:
        with pytest.raises(StoreFull, match="writes stop at 90%"):
            store.append(block_of("flights", [b"x"]), 0)
    else:
        store.append(block_of("flights", [b"x"]), 0)


def test_what_leads_to_deleted_segments_goes_with_them(bench, store):
    fill_segments(bench, store, 12)
    store.flush_derived()

    def files(folder):
        return set(bench.disk.names(bench.root / folder))

    queue_files, index_files = files("consumequeue/flights/0"), files("index")
    bench.disk.used_ratio = 0.86
    apply_retention(store)
    assert files("consumequeue/flights/0") < queue_files
    assert files("index") < index_files
    low, _ = store.queue_bounds("flights", 0)
    assert low > 0
    with pytest.raises(QueueOffsetOutOfRange, match=rf"outside \[{low}, "):
        store.read_queue("flights", 0, 0, max_count=1, max_bytes=1)


def test_views_of_deleted_segments_stay_readable(bench, store):
    fill_segments(bench, store, 4)
    read = store.read_queue("flights", 0, 0, max_count=4, max_bytes=1 << 20)
    before = b"".join(read.chunks)
    bench.disk.used_ratio = 0.9
    assert apply_retention(store).deleted
    assert b"".join(read.chunks) == before


def test_views_outlive_the_mapping_on_the_real_disk(tmp_path):
    from ariane_storage import Store  # noqa: PLC0415 - the real disk, and only here.

    store = Store.open(tmp_path / "s", small_config())
    store.append(block_of("flights", [b"still there"]), 0)
    read = store.read_queue("flights", 0, 0, max_count=1, max_bytes=1)
    store.close()
    assert b"still there" in bytes(read.chunks[0])


KILLED = """
import sys
from pathlib import Path
from ariane_storage import Store
from ariane_storage.testing import block_of, small_config
store = Store.open(Path(sys.argv[1]), small_config(segment_bytes=1 << 16))
number = store.queue_bounds("flights", 0)[1]
while True:
    bodies = [b"%d" % n for n in range(number, number + 7)]
    store.append(block_of("flights", bodies), 0)
    number += 7
    if number % 5 == 0:
        store.flush_derived()
    print(number, flush=True)
"""


def test_kill_9_loses_nothing_that_was_appended(tmp_path):
    from ariane_storage import Store  # noqa: PLC0415 - the real disk, and only here.

    root, said = tmp_path / "s", 0
    for lines in (3, 40, 7, 90, 1):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(root)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for _ in range(lines):
            said = int(process.stdout.readline())
        process.kill()
        rest = process.stdout.read().split()
        said = max([said, *(int(line) for line in rest[:-1])])
        process.wait()
        process.stdout.close()
    with Store.open(root, small_config(segment_bytes=1 << 16)) as store:
        assert store.recovery.crashed
        low, high = store.queue_bounds("flights", 0)
        assert (low, high >= said) == (0, True)
        bodies = [store.message_at(int(o)).body for o in _offsets(store, high)]
        assert bodies == [b"%d" % number for number in range(high)]
    assert not (root / "abort").exists()


def _offsets(store, high):
    entries = store._parts.queues.find("flights", 0).entries(0, high)
    return entries["commit_log_offset"].tolist()
