"""Consume queues: many of them, holes, files that roll, reads through files and memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ariane_storage import OsDisk, QueueOffsetOutOfRange, QueueReadStatus, Store, StoreConfig
from ariane_storage.queues.consume_queue_entry import ENTRY_BYTES
from ariane_storage.queues.entry_files import Unsynced
from ariane_storage.queues.queue_table import QueueTable
from ariane_storage.reading import queue_reader
from ariane_storage.testing import Tagged, block_of, small_config


def _open_descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def test_many_queues_take_few_descriptors(tmp_path):
    config = StoreConfig(
        segment_bytes=1 << 24, index_slots=100, index_items=1000, files_open_max=20
    )
    block = block_of("many", [b"x"])
    # Tests before this one may have left sockets and the like in this process.
    before = _open_descriptors()
    with Store.open(tmp_path / "store", config) as store:
        for queue_id in range(2000):
            store.append(block, queue_id)
        store.flush_derived()
        assert _open_descriptors() - before < config.files_open_max + 30
        for queue_id in (0, 17, 1999):
            assert store.read_queue("many", queue_id, 0, max_count=1, max_bytes=1).count == 1
    with Store.open(tmp_path / "store", config) as store:
        assert store.recovery.rebuilt == ()
        assert len(store.queues()) == 2000
        assert store.queue_bounds("many", 1999) == (0, 1)


@pytest.mark.parametrize("kept", [0, 1, 7, 8, 700, 2000, 2999])
@pytest.mark.parametrize("file_entries", [1000, 1024, 5000])
def test_entries_beyond_what_was_durable_are_dropped(bench, kept, file_entries):
    bench.config = replace(
        bench.config, segment_bytes=1 << 20, consume_queue_file_entries=file_entries
    )
    store = bench.open()
    appended = [store.append(block_of("t", [b"x"] * 500), 0) for _ in range(6)]
    store.flush_derived()
    offsets = [int(offset) for part in appended for offset in part.commit_log_offsets]
    table = QueueTable(
        bench.disk, bench.root / "consumequeue", file_entries=file_entries, open_max=9
    )
    table.load(offsets[kept])
    queue = table.find("t", 0)
    assert queue is not None
    assert queue.end_offset == kept
    assert len(queue.entries(0, 5000)) == kept
    again = QueueTable(
        bench.disk, bench.root / "consumequeue", file_entries=file_entries, open_max=9
    )
    again.load(1 << 60)
    found = again.find("t", 0)
    assert kept == (0 if found is None else found.end_offset)


def test_files_are_of_full_length_and_sparse(tmp_path):
    root = tmp_path / "store"
    with Store.open(root, StoreConfig(segment_bytes=1 << 16, index_slots=9, index_items=9)) as s:
        s.append(block_of("flights", [b"x"]), 0)
    status = (root / "consumequeue" / "flights" / "0" / f"{0:020d}").stat()
    assert status.st_size == 6_000_000
    assert status.st_blocks * 512 < 100_000
    # The log is not sparse: its space is taken before it is written.
    log = (root / "commitlog" / f"{0:020d}").stat()
    assert log.st_size == 1 << 16
    assert log.st_blocks * 512 >= 1 << 16


def test_reads_cross_files_and_the_tail(bench, store):
    for number in range(3):
        store.append(block_of("flights", [b"%d" % number] * 9), 0)
        store.flush_derived()
    store.append(block_of("flights", [b"tail"] * 4), 0)
    folder = bench.root / "consumequeue" / "flights" / "0"
    step = bench.config.consume_queue_file_entries * ENTRY_BYTES
    assert bench.disk.names(folder) == [f"{step * n:020d}" for n in range(4)]
    read = store.read_queue("flights", 0, 5, max_count=100, max_bytes=1 << 20)
    assert (read.count, read.next_queue_offset, len(read.chunks)) == (26, 31, 1)
    assert read.status is QueueReadStatus.FOUND


def test_one_message_is_served_however_large(store):
    store.append(block_of("flights", [b"x" * 3000] * 2), 0)
    read = store.read_queue("flights", 0, 0, max_count=10, max_bytes=10)
    assert read.count == 1
    assert read.size_bytes > 3000


def test_offsets_outside_are_errors_and_say_the_bounds(store):
    store.append(block_of("flights", [b"x"] * 3), 0)
    assert store.read_queue("flights", 0, 3, max_count=1, max_bytes=1).status == "empty"
    for queue_offset in (-1, 4, 1 << 40):
        with pytest.raises(QueueOffsetOutOfRange) as caught:
            store.read_queue("flights", 0, queue_offset, max_count=1, max_bytes=1)
        error = caught.value
        assert (error.min_queue_offset, error.max_queue_offset) == (0, 3)
        assert (error.topic, error.queue_id, error.queue_offset) == ("flights", 0, queue_offset)


def test_a_queue_that_nobody_wrote_to_is_empty(store):
    assert store.queue_bounds("nothing", 7) == (0, 0)
    assert store.read_queue("nothing", 7, 0, max_count=1, max_bytes=1).status == "empty"
    assert store.queue_offset_at_time("nothing", 7, 0) == 0
    with pytest.raises(QueueOffsetOutOfRange):
        store.read_queue("nothing", 7, 1, max_count=1, max_bytes=1)


def test_interleaved_queues_come_in_runs(store):
    for _ in range(4):
        store.append(block_of("flights", [b"a", b"b"]), 0)
        store.append(block_of("flights", [b"c"]), 1)
    read = store.read_queue("flights", 0, 1, max_count=100, max_bytes=1 << 20)
    assert (len(read.chunks), read.count) == (4, 7)
    assert sum(read.sizes) == read.size_bytes


def test_deleted_topics_start_again_at_nothing(bench, read_all):
    store = bench.open()
    store.append(block_of("flights", [b"old"] * 20), 0)
    store.append(block_of("delays", [b"stays"]), 0)
    assert store.keeping.delete_queues("flights") == 1
    assert store.keeping.delete_queues("flights") == 0
    assert store.queues() == [("delays", 0)]
    assert store.append(block_of("flights", [b"new"]), 0).first_queue_offset == 0
    store.close()
    for lost in ("nothing", "checkpoint"):
        bench.disk.remove(bench.root / lost)
        store = bench.open()
        assert bool(store.recovery.rebuilt) == (lost == "checkpoint")
        assert [m.body for m in read_all(store, "flights", 0)] == [b"new"]
        assert [m.body for m in read_all(store, "delays", 0)] == [b"stays"]
        store.close()


def test_entries_only_reach_the_files_once_their_records_are_durable(bench):
    store = bench.open()
    store.append(block_of("flights", [b"x"] * 3), 0)
    queue = store._parts.queues.find("flights", 0)
    unsynced = Unsynced()
    queue.write_out(store.flushed_offset, unsynced)
    assert unsynced == Unsynced()
    store.flush_derived()
    assert queue.written_offset == 3
    path = bench.root / "consumequeue" / "flights" / "0" / f"{0:020d}"
    assert len(bench.disk.read(path).rstrip(b"\0")) > 2 * ENTRY_BYTES
    store.close()


def test_system_disk_opens_what_it_wrote(tmp_path, read_all, fill):
    config = small_config()
    with Store.open(tmp_path / "deep" / "store", config, disk=OsDisk()) as store:
        fill(store, blocks=30)
        before = read_all(store, "flights", 1)
    with Store.open(tmp_path / "deep" / "store", config) as store:
        assert read_all(store, "flights", 1) == before
        assert not Path(tmp_path / "deep" / "store" / "missing").exists()


@pytest.mark.parametrize("place", ["record", "checksum name", "entry", "nothing"])
def test_one_message_at_a_time_is_what_many_at_once_are(bench, fill, read_repaired, place):
    store = bench.open()
    results = fill(store, blocks=12)
    store.close()
    begin = int(results[3].commit_log_offsets[1])
    record = store_bytes(bench, begin)
    queue_file = bench.root / "consumequeue" / "flights" / "0" / f"{0:020d}"
    path, position = {
        "record": (bench.segment_path(0), begin + 100),
        "checksum name": (bench.segment_path(0), begin + record.rindex(b"__CRC32#") + 3),
        "entry": (queue_file, 4 * 20 + 6),
        "nothing": (queue_file, 8 * 20 - 1),
    }[place]
    bench.disk.flip_bit(path, position, 0)
    readings = []
    for max_count in (1, 100):
        store = replace(bench, disk=bench.disk.copy()).open()
        queue_offset, high = store.queue_bounds("flights", 0)
        found = []
        while queue_offset < high:
            read = read_repaired(
                store, "flights", 0, queue_offset, max_count=max_count, max_bytes=1 << 20
            )
            found.append(b"".join(read.chunks))
            assert sum(map(len, read.chunks)) == read.sizes.sum()
            queue_offset = read.next_queue_offset
        readings.append((b"".join(found), store.damage))
    assert readings[0] == readings[1]
    assert (record in readings[0][0]) == (place in {"entry", "nothing"})


def store_bytes(bench, commit_log_offset):
    with bench.open() as store:
        return store._finder.record(commit_log_offset)


def test_a_queue_file_that_somebody_removes_beside_us_stops_nothing(bench, read_all):
    store = bench.open()
    store.append(block_of("flights", [b"a"] * 3), 0)
    store.flush_derived()
    store._parts.queues.close()
    bench.disk.remove(bench.root / "consumequeue" / "flights" / "0" / f"{0:020d}")
    store.append(block_of("flights", [b"b"] * 2), 0)
    store.flush_derived()
    assert [m.body for m in read_all(store, "flights", 0)] == [b"a"] * 3 + [b"b"] * 2
    store.close()


@pytest.mark.parametrize("max_count", [1, 7])
def test_a_bit_that_flips_beside_us_costs_no_message(bench, read_repaired, max_count):
    store = bench.open()
    store.append(block_of("flights", [bytes([65 + number]) for number in range(5)]), 0)
    store.flush_derived()
    path = bench.root / "consumequeue" / "flights" / "0" / f"{0:020d}"
    sound = bench.disk.read(path)
    for bit in range(12 * 8):
        bench.disk.flip_bit(path, 2 * ENTRY_BYTES + bit // 8, bit % 8)
        sizes, place = [], 0
        while place < 5:
            read = read_repaired(store, "flights", 0, place, max_count=max_count, max_bytes=1 << 20)
            sizes += read.sizes.tolist()
            assert read.next_queue_offset > place, bit
            place = read.next_queue_offset
        assert len(sizes) == 5, bit
        bench.disk.write(path, sound)
    store.close()


@pytest.mark.parametrize("place", [0, 2, 4])
def test_an_entry_that_leads_beyond_all_offsets_is_mended(bench, read_all, place):
    store = bench.open()
    store.append(block_of("flights", [b"x" * 100] * 5), 0)
    store.flush_derived()
    path = bench.root / "consumequeue" / "flights" / "0" / f"{0:020d}"
    content = bytearray(bench.disk.read(path))
    content[place * ENTRY_BYTES : place * ENTRY_BYTES + 8] = ((1 << 63) - 50).to_bytes(8, "big")
    bench.disk.write(path, bytes(content))
    assert len(read_all(store, "flights", 0)) == 5
    store.close()


@pytest.mark.parametrize("sizes", [[2000, *[1] * 2999], [1] * 3000, [*[1] * 2000, *[300] * 1000]])
@pytest.mark.parametrize("wanted", [None, Tagged(7)])
def test_bytes_end_a_read_as_they_do_where_all_entries_are_looked_at(
    bench, monkeypatch, sizes, wanted
):
    bench.config = replace(bench.config, segment_bytes=1 << 20)
    store = bench.open()
    store.append(block_of("flights", [b"x" * size for size in sizes]), 0)
    bytes_wanted = (1, 5000, 200_000, 600_000, 1 << 20)

    def reads():
        return [
            store.read_queue("flights", 0, 0, max_count=9000, max_bytes=size, wanted=wanted)
            for size in bytes_wanted
        ]

    some = reads()
    monkeypatch.setattr(queue_reader, "ENTRIES_AT_ONCE_MIN", 10_000)
    for read, whole in zip(some, reads(), strict=True):
        assert (read.status, read.next_queue_offset) == (whole.status, whole.next_queue_offset)
        assert read.sizes.tolist() == whole.sizes.tolist()
        assert b"".join(read.chunks) == b"".join(whole.chunks)
