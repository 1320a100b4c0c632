"""Opening a store again, after whatever has happened to it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ariane_record import RecordFields, encode_record
from ariane_record.layout import HEADER_BYTES
from ariane_storage import (
    Damage,
    DamageReason,
    OsDisk,
    StateFileDamaged,
    Store,
    StoreFormatError,
    StoreLocked,
)
from ariane_storage.layout import LAYOUT_VERSION
from ariane_storage.log.checkpoint import CheckpointFile
from ariane_storage.offline.closed_store import ClosedStore
from ariane_storage.state_file import StateFile
from ariane_storage.testing import block_of, small_config

QUEUES = [("flights", 0), ("flights", 1), ("delays", 0)]


def contents(store, read_all):
    return {queue: read_all(store, *queue) for queue in QUEUES}


def test_a_clean_stop_needs_no_scan(bench, fill, read_all):
    store = bench.open()
    fill(store)
    before, end = contents(store, read_all), store.max_offset
    store.close()
    store = bench.open()
    assert (store.recovery.crashed, store.recovery.records) == (False, 0)
    assert store.recovery.scanned_from == store.recovery.end_offset == end
    assert contents(store, read_all) == before
    store.close()


def test_a_crash_is_scanned_from_the_last_checkpoint(bench, fill, read_all):
    store = bench.open()
    fill(store)
    store.flush_derived()
    checkpoint = store.max_offset
    fill(store, blocks=3)
    before = contents(store, read_all)
    steps = []
    bench.disk = bench.disk.kill()
    store = bench.open(progress=steps.append)
    assert store.recovery.crashed
    assert store.recovery.scanned_from == checkpoint
    assert store.recovery.records == 9
    assert contents(store, read_all) == before
    assert steps[-1].done_bytes <= steps[-1].total_bytes
    assert len(store.query_by_key("flights", "N0")) == len(
        [m for queue in QUEUES[:2] for m in before[queue] if "N0" in m.keys]
    )
    store.close()


@pytest.mark.parametrize("place", [4, -5], ids=["front", "end"])
def test_a_checkpoint_that_names_no_start_of_a_record_has_the_whole_segment_scanned(
    bench, fill, read_all, place
):
    """From inside a record, what a sender has hidden in its body would be found."""
    store = bench.open()
    fill(store, blocks=3)
    begin, next_offset = store.max_offset, store.queue_end("flights", 0)
    hidden = RecordFields(
        topic="flights",
        body=b"hidden",
        queue_offset=next_offset + 1,
        commit_log_offset=begin + HEADER_BYTES,
    )
    store.append(block_of("flights", [encode_record(hidden)]), 0)
    store.flush_derived()
    end, before = store.max_offset, contents(store, read_all)
    bench.disk = bench.disk.kill()
    file = CheckpointFile(bench.disk, bench.root / "checkpoint")
    checkpoint = file.load()
    inside = begin + place if place > 0 else end + place
    entry_sum = checkpoint.entry_sum - (end - inside)
    file.save(replace(checkpoint, dispatched_offset=inside, entry_sum=entry_sum))
    store = bench.open()
    assert store.recovery.scanned_from == 0
    assert (store.damage, store.recovery.rebuilt) == ((), ())
    assert contents(store, read_all) == before
    store.close()


def test_two_owners_of_one_folder(bench, store):
    with pytest.raises(StoreLocked, match="another process"):
        bench.open()
    assert store.append(block_of("flights", [b"x"]), 0).count == 1


@pytest.mark.parametrize("lock_is", ["removed", "made anew"])
def test_a_store_whose_lock_file_was_removed_has_one_owner_all_the_same(tmp_path, lock_is):
    with Store.open(tmp_path / "s", small_config()) as store:
        (tmp_path / "s" / "lock").unlink()
        if lock_is == "made anew":
            (tmp_path / "s" / "lock").write_bytes(b"lock")
        with pytest.raises(StoreLocked):
            Store.open(tmp_path / "s", small_config())
        with pytest.raises(StoreLocked):
            ClosedStore(tmp_path / "s", OsDisk())
        assert store.append(block_of("flights", [b"x"]), 0).count == 1
    with ClosedStore(tmp_path / "s", OsDisk()), ClosedStore(tmp_path / "s", OsDisk()):
        with pytest.raises(StoreLocked):
            Store.open(tmp_path / "s", small_config())
        assert (tmp_path / "s" / "lock").exists() == (lock_is == "made anew")
    Store.open(tmp_path / "s", small_config()).close()


def test_other_sizes_and_newer_formats_are_refused(bench):
    bench.open().close()
    with pytest.raises(StoreFormatError, match="segment_bytes = 8192, but 4096"):
        Store.open(bench.root, small_config(segment_bytes=4096), disk=bench.disk)
    layout = StateFile(bench.root / "layout.json", bench.disk)
    layout.save({**(layout.load() or {}), "version": LAYOUT_VERSION + 1})
    with pytest.raises(StoreFormatError, match="version 2"):
        bench.open()


def test_a_segment_longer_than_configured_is_refused(bench):
    bench.open().close()
    bench.disk.allocate(bench.segment_path(0), 16384)
    with pytest.raises(StoreFormatError, match="16384 bytes long"):
        bench.open()


FIELDS = {
    "size": (0, 4),
    "magic": (4, 4),
    "body crc": (8, 4),
    "queue id": (12, 4),
    "flag": (16, 4),
    "queue offset": (20, 8),
    "commit-log offset": (28, 8),
    "system flag": (36, 4),
    "born timestamp": (40, 8),
    "born host": (48, 8),
    "store timestamp": (56, 8),
    "store host": (64, 8),
    "attempts": (72, 4),
    "half offset": (76, 8),
    "body length": (84, 4),
    "body": (88, 8),
    "topic length": (-1, 1),
    "topic": (-2, 3),
    "properties length": (-3, 2),
    "properties": (-4, 8),
    "checksum": (-5, 20),
}


def field_range(record: bytes, name: str) -> tuple[int, int]:
    begin, length = FIELDS[name]
    topic = 88 + int.from_bytes(record[84:88], "big")
    places = {
        -1: topic,
        -2: topic + 1,
        -3: topic + 1 + record[topic],
        -4: topic + 3 + record[topic],
        -5: len(record) - 20,
    }
    return places.get(begin, begin), length


# How a store has ended: in each turn another third of the flips meets each of them.
LEFT = ("clean stop", "crash", "no checkpoint")
TURNS = [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)]


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("name", FIELDS)
def test_a_flipped_bit_in_any_field_costs_that_record_only(bench, fill, read_all, name, turn):
    store = bench.open()
    results = fill(store)
    before = contents(store, read_all)
    victim = results[4]
    begin, end = (int(offset) for offset in victim.commit_log_offsets[1:3])
    record = store.copying.read(begin, end)
    disks = {"crash": bench.disk.copy(), "no checkpoint": bench.disk.copy()}
    disks["no checkpoint"].remove(bench.root / "checkpoint")
    store.close()
    disks["clean stop"] = bench.disk
    start, length = field_range(record, name)
    for number in range(2 * length):
        place, bit = start + number // 2, 7 * (number % 2)
        disk = disks[LEFT[(number + turn) % 3]].copy()
        disk.flip_bit(bench.segment_path(0), begin + place, bit)
        damaged = replace(bench, disk=disk)
        store = damaged.open()
        after = contents(store, read_all)
        expected = {**before}
        queue = ("flights", 1)
        lost = victim.first_queue_offset + 1
        expected[queue] = [m for m in before[queue] if m.queue_offset != lost]
        assert after == expected, (name, place, bit)
        (damage,) = store.damage
        assert damage.begin == begin
        assert damage.end in {end, begin + int.from_bytes(record[:4], "big")}
        store.close()
        again = damaged.open()
        assert contents(again, read_all) == expected
        assert again.damage == (damage,)
        again.close()


def test_damage_in_an_old_segment_cuts_nothing_behind_it(bench, fill, read_all):
    store = bench.open()
    fill(store, blocks=40)
    before = contents(store, read_all)
    end = store.max_offset
    assert end > 3 * bench.config.segment_bytes
    store.close()
    bench.disk.flip_bit(bench.segment_path(0), 1000, 3)
    for name in ("checkpoint", "layout.json", "layout.json.sums"):
        bench.disk.remove(bench.root / name)
    bench.disk.write(bench.root / "abort", b"1")
    store = bench.open()
    assert store.max_offset == end
    assert len(store.damage) == 1
    assert sum(map(len, contents(store, read_all).values())) == sum(map(len, before.values())) - 1
    store.close()


def test_a_torn_tail_is_cut_and_never_comes_back(bench, fill, read_all):
    store = bench.open()
    fill(store, blocks=4)
    store.flush_derived()
    torn = store.append(block_of("flights", [b"torn" * 100]), 0)
    begin = torn.first_commit_log_offset
    bench.disk = bench.disk.kill()
    bench.disk.flip_bit(bench.segment_path(0), begin + 100, 0)
    store = bench.open()
    assert store.recovery.cut_reason is DamageReason.CHECKSUM
    assert store.max_offset == begin
    assert store._parts.log.read(begin, 600) == bytes(600)
    # The cut is durable: power loss brings nothing of the old tail back.
    disk = bench.disk.lose_power(1)
    segment = disk.read(bench.segment_path(0))
    assert not any(segment[begin:])
    assert read_all(store, "flights", 0)[-1].body != b"torn" * 100


@pytest.mark.parametrize("cut", [1, 8, 9, 100, 4096])
@pytest.mark.parametrize("crashed", [False, True])
def test_a_shortened_last_segment(bench, fill, read_all, cut, crashed):
    store = bench.open()
    fill(store, blocks=14)
    before = contents(store, read_all)
    end = store.max_offset
    if crashed:
        bench.disk = bench.disk.kill()
    else:
        store.close()
    last = end - end % bench.config.segment_bytes
    length = bench.config.segment_bytes - cut
    bench.disk.shorten(bench.segment_path(last), length)
    store = bench.open()
    kept = [m for messages in before.values() for m in messages]
    kept = [m for m in kept if m.commit_log_offset + 400 < last + length]
    found = [m for messages in contents(store, read_all).values() for m in messages]
    assert {m.commit_log_offset for m in kept} <= {m.commit_log_offset for m in found}
    assert store.max_offset == min(end, store.max_offset)
    assert bench.disk.size_of(bench.segment_path(last)) == bench.config.segment_bytes
    store.append(block_of("flights", [b"goes on"]), 0)
    assert read_all(store, "flights", 0)[-1].body == b"goes on"
    store.close()


def test_all_shortened_segments_are_scanned_and_what_came_after_the_checkpoint(
    bench, fill, read_all
):
    """The first of them lies in front of the checkpoint, or the checkpoint in front of it."""
    store = bench.open()
    fill(store, blocks=40)
    store.close()
    size = bench.config.segment_bytes
    last = store.max_offset - store.max_offset % size
    assert last >= 2 * size
    for start in (0, last):
        bench.disk.shorten(bench.segment_path(start), 4096)
    store = bench.open()
    assert store.recovery.scanned_from == 0
    assert any(damage.end == size for damage in store.recovery.damage)
    store.flush_derived()
    checkpoint = store.max_offset
    while store.max_offset < checkpoint + 2 * size:
        store.append(block_of("flights", [b"x" * 500]), 0)
    before = contents(store, read_all)
    begin = store.max_offset - store.max_offset % size
    bench.disk = bench.disk.kill()
    bench.disk.shorten(bench.segment_path(begin), size - 1)
    store = bench.open()
    assert store.recovery.scanned_from == checkpoint
    assert contents(store, read_all) == before
    store.close()


def test_a_record_whose_last_sector_was_never_written_is_torn(bench, read_all):
    """Its body is whole and its checksum is gone: it must not pass for one without a checksum."""
    store = bench.open()
    store.append(block_of("flights", [b"whole"]), 0)
    appended = store.append(block_of("flights", [b"torn"], keys=[("k" * 600,)]), 0)
    begin, end = appended.first_commit_log_offset, appended.next_commit_log_offset
    bench.disk = bench.disk.kill()
    content = bytearray(bench.disk.read(bench.segment_path(0)))
    content[end - end % 512 : end] = bytes(end % 512)
    bench.disk.write(bench.segment_path(0), bytes(content))
    store = bench.open()
    assert store.max_offset == begin
    assert [message.body for message in read_all(store, "flights", 0)] == [b"whole"]
    store.close()


@pytest.mark.parametrize("bytes_behind", [1, 5, 10, 19])
def test_a_record_whose_checksum_is_half_written_is_torn(bench, read_all, bytes_behind):
    """The sector with its name was never written, that with its last digits was."""
    store = bench.open()
    store.append(block_of("flights", [b"whole"]), 0)
    begin = store.max_offset
    block = block_of("flights", [b"torn"], unique_ids=["u" * 300])
    room = (bytes_behind - begin - block.size_bytes) % 512
    block = block_of("flights", [b"torn" + b"." * room], unique_ids=["u" * 300])
    end = store.append(block, 0).next_commit_log_offset
    assert end % 512 == bytes_behind
    bench.disk = bench.disk.kill()
    content = bytearray(bench.disk.read(bench.segment_path(0)))
    content[end - bytes_behind - 100 : end - bytes_behind] = bytes(100)
    bench.disk.write(bench.segment_path(0), bytes(content))
    store = bench.open()
    assert store.max_offset == begin
    assert [message.body for message in read_all(store, "flights", 0)] == [b"whole"]
    store.close()


def spoil_end(bench, end, how):
    """Damage the last record of a store's only segment, which is known to be durable."""
    path = bench.segment_path(0)
    content = bytearray(bench.disk.read(path))
    if how == "cut short":
        bench.disk.shorten(path, end - 50)
        return
    content[end - 200 : end] = bytes(200) if how == "zeros" else b"?" * 200
    bench.disk.write(path, bytes(content))


@pytest.mark.parametrize("how", ["cut short", "zeros", "other bytes"])
@pytest.mark.parametrize("crashed", [False, True])
@pytest.mark.parametrize("rebuild", [False, True])
def test_what_was_durable_is_damage_at_the_end_too_and_no_torn_tail(
    bench, fill, read_all, how, crashed, rebuild
):
    store = bench.open()
    results = fill(store, blocks=5)
    store.flush_derived()
    end = store.max_offset
    bounds = store.queue_bounds("flights", 1)
    if crashed:
        bench.disk = bench.disk.kill()
    else:
        store.close()
    spoil_end(bench, end, how)
    if rebuild:
        bench.disk.remove_folder(bench.root / "index")
    lost = int(results[-1].commit_log_offsets[-1])
    for _ in range(3):
        store = bench.open()
        assert store.max_offset == end
        assert len(read_all(store, "flights", 1)) == bounds[1] - 1
        assert [(damage.begin, damage.end) for damage in store.damage] == [(lost, end)]
        assert store.recovery.cut_reason is None
        assert store.queue_bounds("flights", 1) == bounds
        bench.disk = bench.disk.kill()
    store = bench.open()
    appended = store.append(block_of("flights", [b"on"]), 1)
    assert (appended.first_queue_offset, appended.first_commit_log_offset) == (bounds[1], end)
    assert read_all(store, "flights", 1)[-1].body == b"on"
    store.close()


def test_a_record_at_the_edge_of_a_shortened_segment_is_not_served(bench, fill, read_all):
    store = bench.open()
    results = fill(store, blocks=20)
    before = contents(store, read_all)
    store.close()
    edge = next(r for r in results if r.first_commit_log_offset >= bench.config.segment_bytes)
    broken = int(edge.commit_log_offsets[1])
    # Its header is there, the end of its body is not.
    bench.disk.shorten(bench.segment_path(8192), broken - 8192 + 150)
    store = bench.open()
    found = {
        m.commit_log_offset for messages in contents(store, read_all).values() for m in messages
    }
    kept = {m.commit_log_offset for messages in before.values() for m in messages}
    assert found == {offset for offset in kept if not broken <= offset < 2 * 8192}
    store.close()


def test_an_empty_last_segment_is_completed(bench, fill, read_all):
    store = bench.open()
    fill(store, blocks=3)
    before = contents(store, read_all)
    store.close()
    bench.disk.write(bench.segment_path(8192), b"")
    store = bench.open()
    assert contents(store, read_all) == before
    store.close()


def test_a_missing_middle_segment_is_a_declared_gap(bench, fill, read_all):
    store = bench.open()
    fill(store, blocks=40)
    before = contents(store, read_all)
    store.close()
    bench.disk.remove(bench.segment_path(8192))
    store = bench.open()
    after = contents(store, read_all)
    kept = {
        queue: [m for m in messages if not 8192 <= m.commit_log_offset < 16384]
        for queue, messages in before.items()
    }
    assert after == kept
    gap = Damage(8192, 16384, DamageReason.SEGMENT_MISSING)
    assert store.damage == (gap,)
    store.close()
    bench.disk.remove(bench.root / "checkpoint")
    store = bench.open()
    assert contents(store, read_all) == kept
    assert store.damage == (gap,)
    store.close()


def test_state_that_cannot_be_read_is_refused_not_guessed(bench):
    bench.open().close()
    bench.disk.write(bench.root / "layout.json", b"{")
    with pytest.raises(StateFileDamaged, match=r"layout\.json"):
        bench.open()
