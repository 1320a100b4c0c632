"""One log copied as raw bytes into another store, cut, and cut again by crashes."""

from __future__ import annotations

import random
import threading
from dataclasses import replace

import pytest

from ariane_storage import FlushMode
from ariane_storage.errors import (
    CommitLogOffsetOutOfRange,
    LogPositionMismatch,
    RawBytesRefused,
    StoreFull,
)
from ariane_storage.log.checkpoint import CheckpointFile
from ariane_storage.testing import FaultyDisk, PowerLost, apply_retention, block_of, small_config

QUEUES = [("flights", 0), ("flights", 1), ("delays", 0)]


@pytest.fixture
def primary(bench):
    bench.config = small_config(segment_bytes=4096)
    opened = replace(bench, disk=FaultyDisk()).open()
    yield opened
    opened.close()


@pytest.fixture
def replica(bench, primary):
    return bench.open()  # A crash of its disk ends it in some tests.


def follow(primary, replica, *, bytes_max=1 << 20, end=1 << 60):
    """Copy what the replica lacks."""
    source, target = primary.copying, replica.copying
    while content := source.read(target.next_offset, end, bytes_max=bytes_max):
        target.append(target.next_offset, content)


def contents(store, read_all):
    return {queue: read_all(store, *queue) for queue in QUEUES}


def raw(store):
    """All bytes of a log, the rest of each segment included."""
    log = store._parts.log
    return b"".join(segment.read(0, segment.size) for segment in log.walk(0))[: log.write_offset]


@pytest.mark.parametrize("bytes_max", [1, 100, 1999, 1 << 20])
def test_a_copy_is_the_same_log_with_the_same_queues_and_keys(
    primary, replica, fill, read_all, bytes_max
):
    fill(primary)
    follow(primary, replica, bytes_max=bytes_max)
    assert replica.max_offset == primary.max_offset
    assert raw(replica) == raw(primary)
    assert contents(replica, read_all) == contents(primary, read_all)
    for topic, key in (("flights", "N1"), ("delays", "U2-1")):
        assert replica.query_by_key(topic, key) == primary.query_by_key(topic, key) != []


def test_a_copy_that_takes_over_goes_on_behind_the_log(primary, replica, fill, read_all):
    fill(primary, blocks=5)
    follow(primary, replica)
    replica.copying.begin_epoch(2)
    appended = replica.append(block_of("flights", [b"mine"]), 1)
    assert appended.first_queue_offset == primary.queue_bounds("flights", 1)[1]
    assert appended.first_commit_log_offset == primary.max_offset
    # And the one before follows it.
    follow(replica, primary)
    assert contents(primary, read_all) == contents(replica, read_all)


def test_a_copy_is_there_again_after_a_crash(bench, primary, replica, fill, read_all):
    fill(primary)
    follow(primary, replica, bytes_max=777)
    replica.flush_derived()
    again = replace(bench, disk=bench.disk.lose_power(3)).open()
    assert contents(again, read_all) == contents(primary, read_all)
    again.close()


def test_bytes_that_belong_elsewhere_or_nowhere_are_refused(primary, replica, fill):
    fill(primary, blocks=2)
    content = primary.copying.read(0, 1 << 60)
    with pytest.raises(LogPositionMismatch, match="0 is next"):
        replica.copying.append(8, content)
    damaged = bytearray(content)
    damaged[-10] ^= 1
    with pytest.raises(RawBytesRefused, match="checksum differs"):
        replica.copying.append(0, bytes(damaged))
    with pytest.raises(RawBytesRefused, match="offset 0:"):
        replica.copying.append(0, b"no record of a log at all")
    assert replica.max_offset == 0
    replica.copying.append(0, content)
    assert replica.max_offset == primary.max_offset


def test_what_is_not_kept_is_not_read(primary, fill):
    fill(primary)
    with pytest.raises(CommitLogOffsetOutOfRange):
        primary.copying.read(primary.max_offset + 1, 1 << 60)
    assert primary.copying.read(primary.max_offset, 1 << 60) == b""


def test_an_empty_copy_starts_where_a_segment_does(bench, primary, replica, fill, read_all):
    fill(primary)
    first, second = (segment.start for segment in primary._parts.log.segments[:2])
    with pytest.raises(LogPositionMismatch):
        replica.copying.start_at(first + 8)
    replica.copying.start_at(second)
    assert (replica.min_offset, replica.max_offset) == (second, second)
    follow(primary, replica)
    before = {queue: replica.queue_bounds(*queue) for queue in QUEUES}
    assert before["flights", 0][0] > 0
    found = read_all(replica, "flights", 0)
    assert found == read_all(primary, "flights", 0)[-len(found) :]
    again = replace(bench, disk=bench.disk.kill()).open()
    assert again.damage == ()
    assert again.recovery.lost_begin is None
    assert {queue: again.queue_bounds(*queue) for queue in QUEUES} == before
    again.close()


def test_nothing_beyond_what_is_confirmed_is_handed_out(primary, fill, read_all):
    results = fill(primary, blocks=6)
    primary.copying.confirm_up_to(results[2].next_commit_log_offset)
    assert primary.confirmed_offset == results[2].next_commit_log_offset
    assert len(read_all(primary, "flights", 0)) == 3
    primary.copying.confirm_up_to(0)
    assert primary.confirmed_offset == results[2].next_commit_log_offset
    primary.copying.confirm_up_to(None)
    assert primary.confirmed_offset == primary.max_offset


def test_what_was_confirmed_is_known_after_a_stop_and_crashes(bench, fill):
    store = bench.open()
    edge = fill(store, blocks=6)[2].next_commit_log_offset
    store.copying.confirm_up_to(edge)
    store.close()
    # Twice killed before anybody has said what else is confirmed.
    for again in (bench.open(), bench.reopen_after_kill(), bench.reopen_after_kill()):
        assert again.recovery.confirmed_offset == edge < again.max_offset
    again.copying.confirm_up_to(again.max_offset)
    again.close()
    assert bench.open().recovery.confirmed_offset == again.max_offset


def test_a_full_disk_refuses_bytes_and_takes_them_later(bench, primary, replica, fill):
    fill(primary)
    bench.disk.used_ratio = 0.99
    apply_retention(replica)
    with pytest.raises(StoreFull):
        follow(primary, replica)
    bench.disk.used_ratio = None
    apply_retention(replica)
    follow(primary, replica)
    assert replica.max_offset == primary.max_offset


# Truncation.


def test_a_cut_takes_log_queues_keys_and_epochs(bench, replica, fill, read_all):
    store = replica
    store.copying.begin_epoch(1)
    results = fill(store, blocks=6)
    kept = contents(store, read_all)
    store.copying.begin_epoch(2)
    fill(store, blocks=14)
    store.flush_derived()
    end, cut = store.max_offset, results[-1].next_commit_log_offset
    assert store.copying.truncate(cut) == (cut, end)
    assert store.max_offset == store.flushed_offset == cut
    assert store.copying.epochs == ((1, 0),)
    for _ in range(2):
        assert contents(store, read_all) == kept
        assert store.query_by_key("flights", "U7-0") == []
        assert store.query_by_key("flights", "U1-0") != []
        assert store.damage == ()
        bench.disk = bench.disk.lose_power(1)
        store = bench.open()


def test_a_flush_beside_a_cut_does_not_call_the_old_end_durable(
    bench, replica, fill, read_all, monkeypatch
):
    """As the flush that a replica has begun for a stream which ended meanwhile."""
    save = CheckpointFile.save
    flush = threading.Thread(target=replica.flush)

    def save_beside_a_flush(file, checkpoint, **options):
        flush.start()
        flush.join(0.1)  # It must wait for the cut, so there is nothing to wait for.
        save(file, checkpoint, **options)

    end = fill(replica, blocks=3)[-1].next_commit_log_offset
    kept = contents(replica, read_all)
    fill(replica, blocks=3)
    replica.flush_derived()
    monkeypatch.setattr(CheckpointFile, "save", save_beside_a_flush)
    replica.copying.truncate(end)
    flush.join(60)
    monkeypatch.undo()
    store = bench.reopen_after_kill()
    assert (store.max_offset, store.damage) == (end, ())
    assert contents(store, read_all) == kept
    store.close()


def test_a_cut_outside_the_log_is_refused(replica, fill):
    fill(replica, blocks=2)
    for offset in (-1, replica.max_offset + 1):
        with pytest.raises(CommitLogOffsetOutOfRange):
            replica.copying.truncate(offset)


def test_a_cut_at_the_begin_leaves_an_empty_log(bench, replica, primary, fill, read_all):
    fill(replica)
    replica.flush_derived()
    replica.copying.truncate(0)
    fill(primary, blocks=5)
    follow(primary, replica)
    assert contents(replica, read_all) == contents(primary, read_all)


def lives(bench, disk, seed, notes):
    """A replica's life: it follows one primary, is cut, and follows another; what is promised."""
    dice = random.Random(seed)
    store = replace(bench, disk=disk).open()
    store.copying.begin_epoch(1)
    for number in range(7):
        append(store, f"old{number}", dice)
        notes.append(("appended", number, store.max_offset))
        if dice.random() < 0.4:
            store.flush()
        if dice.random() < 0.3:
            store.flush_derived()
    ends = [0, *(end for what, _, end in notes if what == "appended")]
    kept = dice.randrange(len(ends))
    notes.append(("cutting", kept, ends[kept]))
    store.copying.truncate(ends[kept])
    notes.append(("cut", kept, ends[kept]))
    store.copying.begin_epoch(2)
    for number in range(4):
        append(store, f"new{number}", dice)
        if dice.random() < 0.5:
            notes.append(("flushed", number, store.flush()))
        if dice.random() < 0.3:
            store.flush_derived()
    store.close()


def append(store, name, dice):
    bodies = [f"{name}.{place}".encode() * dice.randint(1, 60) for place in range(3)]
    block = block_of("flights", bodies, keys=[(name,)] * 3)
    store.append(block, 0)


@pytest.mark.parametrize("flush_mode", list(FlushMode))
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_the_old_end_does_not_come_back_after_a_cut_and_a_second_crash(
    bench, read_all, flush_mode, seed
):
    bench.config = small_config(segment_bytes=4096, flush_mode=flush_mode)
    whole = FaultyDisk()
    lives(bench, whole, seed, [])
    for step in range(1, whole.steps + 1, 1 if seed else 3):
        disk, notes = FaultyDisk(power_fails_at=step), []
        with pytest.raises(PowerLost):
            lives(bench, disk, seed, notes)
        after = disk.lose_power(step)
        check(bench, after, notes, read_all, (seed, step))
        check(bench, after.lose_power(seed), notes, read_all, (seed, step, "again"))


def check(bench, disk, notes, read_all, where):
    store = replace(bench, disk=disk).open()
    names = [message.body.split(b".")[0].decode() for message in read_all(store, "flights", 0)]
    groups = [name for place, name in enumerate(names) if place % 3 == 0]
    assert names == [name for name in groups for _ in range(3)][: len(names)], where
    assert store.damage == (), where
    old = [name for name in groups if name.startswith("old")]
    assert old == [f"old{number}" for number in range(len(old))], where
    assert groups == old + [f"new{number}" for number in range(len(groups) - len(old))], where
    cut = next((end for what, _, end in notes if what == "cut"), None)
    if cut is not None:
        count = next(number for what, number, _ in notes if what == "cut")
        assert len(old) == count, where
        # No key leads to what was cut either.
        for number in range(7):
            found = store.query_by_key("flights", f"old{number}")
            assert bool(found) == (number < count), where
    elif any(what == "cutting" for what, _, _ in notes):
        count = next(number for what, number, _ in notes if what == "cutting")
        assert groups == old, where
        assert len(old) >= count, where
    flushed = max([0, *(end for what, _, end in notes if what == "flushed")])
    assert store.max_offset >= flushed, where
    assert all(start.begin <= store.max_offset for start in store.copying.epochs), where
    store.close()
