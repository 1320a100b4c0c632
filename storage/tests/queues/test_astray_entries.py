"""Entries that lead to records of other queues, or nowhere: nobody follows them, all are mended."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ariane_record import decode_record, tag_code
from ariane_storage.errors import QueueUnderRepair
from ariane_storage.log.records.queue_identity import identity_of
from ariane_storage.offline.closed_store import ClosedStore
from ariane_storage.queues.consume_queue_entry import ENTRY, ENTRY_BYTES
from ariane_storage.queues.time_lookup import TimeBoundary
from ariane_storage.recovery import queue_repair
from ariane_storage.testing import Tagged, apply_retention, block_of

QUEUES = [("flights", 0), ("flights", 1), ("delays", 0)]


def queue_file(bench, topic, queue_id, first_entry=0):
    folder = bench.root / "consumequeue" / topic / str(queue_id)
    return folder / f"{first_entry * ENTRY_BYTES:020d}"


def exchange(bench, one, other):
    contents = bench.disk.read(one), bench.disk.read(other)
    bench.disk.write(one, contents[1])
    bench.disk.write(other, contents[0])


def bodies(messages):
    return [message.body for message in messages]


def write_evenly(store, counts=(30, 30, 30)):
    """Messages one by one in all queues by turns, so that queue offsets are alike."""
    for number in range(max(counts)):
        for (topic, queue_id), count in zip(QUEUES, counts, strict=True):
            if number < count:
                body = f"{topic} {queue_id} {number}".encode()
                store.append(block_of(topic, [body]), queue_id)


def expected(queue, count=30):
    return [f"{queue[0]} {queue[1]} {number}".encode() for number in range(count)]


@pytest.mark.parametrize("other", [("flights", 1), ("delays", 0)], ids=["queue", "topic"])
@pytest.mark.parametrize("first_entry", [0, 8, 16, 24])
@pytest.mark.parametrize("max_count", [1, 100])
def test_files_of_two_queues_that_are_exchanged_beside_us(bench, other, first_entry, max_count):
    store = bench.open()
    write_evenly(store)
    store.flush_derived()
    exchange(
        bench, queue_file(bench, "flights", 0, first_entry), queue_file(bench, *other, first_entry)
    )
    for queue in (("flights", 0), other):
        found, queue_offset, repairs = [], 0, []
        while queue_offset < 30:
            try:
                read = store.read_queue(*queue, queue_offset, max_count=max_count, max_bytes=9999)
            except QueueUnderRepair as error:
                repairs.append(error.queue_offset)
                (repair,) = store.keeping.repair_queues()
                assert (repair.topic, repair.queue_id, repair.lost) == (*queue, 0)
                continue
            records, begin = b"".join(read.chunks), 0
            for size in read.sizes.tolist():
                found.append(decode_record(records[begin : begin + size]).body)
                begin += size
            queue_offset = read.next_queue_offset
        assert found == expected(queue)
        assert repairs == [first_entry]
    assert not store.damage
    store.close()


def test_entries_of_an_earlier_topic_of_the_name_are_not_followed(bench, read_all):
    store = bench.open()
    store.append(block_of("flights", [b"earlier"] * 8), 0)
    store.append(block_of("delays", [b"other"] * 8), 0)
    store.flush_derived()
    earlier = bench.disk.read(queue_file(bench, "flights", 0))
    store.keeping.delete_queues("flights")
    store.append(block_of("flights", [b"now"] * 8), 0)
    store.flush_derived()
    bench.disk.write(queue_file(bench, "flights", 0), earlier)
    assert bodies(read_all(store, "flights", 0)) == [b"now"] * 8
    store.close()


@pytest.mark.parametrize("other", [("flights", 1), ("delays", 0)], ids=["queue", "topic"])
@pytest.mark.parametrize("counts", [(30, 30, 30), (30, 3, 3), (5, 30, 20)])
@pytest.mark.parametrize("killed", [False, True])
def test_queues_whose_folders_were_exchanged_end_where_they_did(
    bench, read_all, other, counts, killed
):
    store = bench.open()
    write_evenly(store, counts)
    store.flush_derived()
    if killed:
        bench.disk = bench.disk.kill()
    else:
        store.close()
    one, two = queue_file(bench, "flights", 0).parent, queue_file(bench, *other).parent
    contents = {
        folder: {n: bench.disk.read(folder / n) for n in bench.disk.names(folder)}
        for folder in (one, two)
    }
    for folder, instead in ((one, two), (two, one)):
        bench.disk.remove_folder(folder)
        bench.disk.make_folders(folder)
        for name, content in contents[instead].items():
            bench.disk.write(folder / name, content)
    with bench.open() as store:
        assert "consume queues" in store.recovery.rebuilt
        for queue, count in zip(QUEUES, counts, strict=True):
            assert bodies(read_all(store, *queue)) == expected(queue, count)
            assert store.append(block_of(queue[0], [b"n"]), queue[1]).first_queue_offset == (count)


def test_a_file_that_was_exchanged_is_mended_though_nobody_wants_its_tags(bench):
    with bench.open() as store:
        for _ in range(20):
            store.append(block_of("flights", [b"a"], tags=["wanted"]), 0)
            store.append(block_of("delays", [b"b"], tags=["other"]), 0)
    exchange(bench, queue_file(bench, "flights", 0, 8), queue_file(bench, "delays", 0, 8))
    with bench.open() as store:
        assert store.repairs.needed
        assert {repair.topic for repair in store.keeping.repair_queues()} == {"flights", "delays"}
        (code,) = np.unique(store.queue_entries("flights", 0, 0, max_count=99)["tags_code"])
        read = store.read_queue(
            "flights", 0, 0, max_count=99, max_bytes=9999, wanted=Tagged(int(code))
        )
        assert read.count == 16 + 4


@pytest.mark.parametrize("what", ["another topic's", "an earlier topic's", "a deleted one's"])
@pytest.mark.parametrize("first_entry", [0, 8, 16])
def test_a_filter_passes_over_no_foreign_stretch(bench, read_repaired, what, first_entry):
    """None of its entries has a wanted tag, so that no record would be looked at."""
    bench.config = replace(bench.config, scan_entries_max=30)
    store = bench.open()
    topic = "delays" if what == "another topic's" else "flights"
    store.append(block_of(topic, [b"."] * 24, tags=["other"] * 24), 0)
    store.flush_derived()
    foreign = bench.disk.read(queue_file(bench, topic, 0, first_entry))
    if topic == "flights":
        store.keeping.delete_queues("flights")
    if what == "a deleted one's":
        for _ in range(3):
            store.append(block_of("delays", [b"." * 2000] * 3), 1)
        bench.disk.used_ratio = 0.86
        assert apply_retention(store).deleted
    store.append(block_of("flights", [b"now"] * 24, tags=["wanted"] * 24), 0)
    store.flush_derived()
    bench.disk.write(queue_file(bench, "flights", 0, first_entry), foreign)
    wanted = Tagged(tag_code("wanted"))
    # A window that begins before it, ends with it, and is it.
    for begin, count in ((0, 24), (first_entry, 8), (max(0, first_entry - 4), 12)):
        read = read_repaired(
            store, "flights", 0, begin, max_count=count, max_bytes=99_999, wanted=wanted
        )
        assert read.count == min(count, 24 - begin)
    store.close()


@pytest.mark.parametrize("boundary", list(TimeBoundary))
def test_a_time_is_not_looked_up_in_records_of_another_queue(bench, boundary):
    store = bench.open()
    for number in range(24):
        bench.clock.advance(1000)
        store.append(block_of("flights", [b"a"]), 0)
        if number == 11:
            store.append(block_of("delays", [b"b"] * 24), 0)
    now_ms = bench.clock.now_ms()
    times_ms = range(now_ms - 25_000, now_ms + 2000, 500)

    def looked_up():
        return [
            store.queue_offset_at_time("flights", 0, time_ms, boundary=boundary)
            for time_ms in times_ms
        ]

    sound = looked_up()
    store.flush_derived()
    for first in (0, 8, 16):
        exchange(
            bench, queue_file(bench, "flights", 0, first), queue_file(bench, "delays", 0, first)
        )
    with pytest.raises(QueueUnderRepair):
        looked_up()
    assert store.keeping.repair_queues()
    assert looked_up() == sound
    store.close()


def test_records_are_not_given_by_entries_of_another_queue(bench):
    store = bench.open()
    write_evenly(store)
    store.flush_derived()
    exchange(bench, queue_file(bench, "flights", 0), queue_file(bench, "delays", 0))

    def records():
        entries = store.queue_entries("flights", 0, 0, max_count=30)
        places = entries["commit_log_offset"].astype(np.int64)
        sizes = entries["size"].astype(np.int64)
        return store.records_of(("flights", 0), np.arange(30), places, sizes)[2]

    astray = np.setdiff1d(np.arange(30), records())
    assert astray.tolist() == list(range(8))
    with pytest.raises(QueueUnderRepair):
        store.check_lost(("flights", 0), astray)
    assert store.keeping.repair_queues()
    assert records().tolist() == list(range(30))
    store.close()


def test_queues_do_not_begin_later_for_entries_that_lead_astray(bench, read_all):
    hour = bench.clock.local_hour(bench.clock.now_ms())
    bench.config = replace(
        bench.config, segment_bytes=4096, delete_at_hour=hour, delete_batch_max=1
    )
    store = bench.open()
    write_evenly(store)
    store.flush_derived()
    # As if all these records lay in the first segment, which is about to go.
    path = queue_file(bench, "flights", 0, 8)
    astray = np.frombuffer(bench.disk.read(path), ENTRY).copy()
    astray["commit_log_offset"] = 5
    bench.disk.write(path, astray.tobytes())
    bench.clock.advance(100 * 24 * 3600 * 1000)
    assert apply_retention(store).deleted
    assert store.repairs.needed
    assert store.keeping.repair_queues()
    begin = store.queue_bounds("flights", 0)[0]
    kept = read_all(store, "flights", 0)
    # Whatever the log still has is read.
    assert begin < 16
    assert [m.queue_offset for m in kept] == list(range(kept[0].queue_offset, 30))
    assert kept[0].commit_log_offset < store.min_offset + 3 * 170
    store.close()


def test_reads_of_a_foreign_file_look_at_no_more_than_they_give(bench, monkeypatch):
    bench.config = replace(bench.config, consume_queue_file_entries=4096, segment_bytes=1 << 20)
    store = bench.open()
    for _ in range(6):
        store.append(block_of("flights", [b"x" * 50] * 500), 0)
    store.flush_derived()
    dice = np.random.default_rng(7)
    foreign = np.frombuffer(dice.bytes(3000 * ENTRY_BYTES), ENTRY).copy()
    foreign["commit_log_offset"] = dice.integers(0, store.max_offset, 3000)
    foreign["size"] = 168
    path = queue_file(bench, "flights", 0)
    bench.disk.write(path, foreign.tobytes() + bench.disk.read(path)[len(foreign.tobytes()) :])
    scans = []
    scan = queue_repair.scan
    monkeypatch.setattr(queue_repair, "scan", lambda *given: scans.append(given) or scan(*given))
    for queue_offset in (0, 1000, 2999):
        with pytest.raises(QueueUnderRepair):
            store.read_queue("flights", 0, queue_offset, max_count=3000, max_bytes=1 << 20)
    assert not scans
    steps = []
    (repair,) = store.keeping.repair_queues(steps.append)
    assert (repair.begin, repair.end, repair.restored) == (0, 3000, 3000)
    assert len(scans) == 1
    assert steps[-1].done_bytes == steps[-1].total_bytes == store.max_offset
    assert store.read_queue("flights", 0, 0, max_count=3000, max_bytes=1 << 20).count == 3000
    store.close()


def test_the_log_is_scanned_once_for_all_queues_that_need_it(bench, read_all, monkeypatch):
    store = bench.open()
    write_evenly(store)
    store.flush_derived()
    for topic, queue_id in QUEUES:
        path = queue_file(bench, topic, queue_id, 8)
        bench.disk.write(path, bytes(len(bench.disk.read(path))))
        with pytest.raises(QueueUnderRepair):
            store.read_queue(topic, queue_id, 9, max_count=1, max_bytes=1)
    scans = []
    scan = queue_repair.scan
    monkeypatch.setattr(queue_repair, "scan", lambda *given: scans.append(given) or scan(*given))
    assert len(store.keeping.repair_queues()) == 3
    assert len(scans) == 1
    for queue in QUEUES:
        assert bodies(read_all(store, *queue)) == expected(queue)
    store.close()


def test_a_repair_ends_when_the_store_is_to_be_closed(bench):
    store = bench.open()
    write_evenly(store)
    store.flush_derived()
    path = queue_file(bench, "flights", 0, 8)
    bench.disk.write(path, bytes(len(bench.disk.read(path))))
    with pytest.raises(QueueUnderRepair):
        store.read_queue("flights", 0, 8, max_count=1, max_bytes=1)
    store.repairs.stop()
    assert store.keeping.repair_queues() == []
    with pytest.raises(QueueUnderRepair):
        store.read_queue("flights", 0, 8, max_count=1, max_bytes=1)
    store.close()


def test_a_queue_that_is_deleted_meanwhile_is_not_mended(bench):
    store = bench.open()
    write_evenly(store)
    store.flush_derived()
    path = queue_file(bench, "flights", 0, 8)
    bench.disk.write(path, bytes(len(bench.disk.read(path))))
    with pytest.raises(QueueUnderRepair):
        store.read_queue("flights", 0, 8, max_count=1, max_bytes=1)

    def delete(_progress):
        if store.queue_bounds("flights", 0)[1]:
            store.keeping.delete_queues("flights")

    assert store.keeping.repair_queues(delete) == []
    store.flush_derived()
    assert bench.disk.names(bench.root / "consumequeue") == ["delays"]
    store.close()


@pytest.mark.parametrize("host", ["10.0.0.1", "fe80::1"])
@pytest.mark.parametrize("topic", ["flights", "t" * 200])
def test_identity_of_many_is_that_of_each(bench, topic, host):
    bench.config = replace(bench.config, segment_bytes=1 << 16, store_host=(host, 1))
    store = bench.open()
    appended = store.append(block_of(topic, [b"x" * n for n in range(40)]), 3, born_host=(host, 2))
    (entries,) = [store.queue_entries(topic, 3, 0, max_count=99)]
    places = appended.commit_log_offsets.astype(np.int64)
    sizes = entries["size"].astype(np.int64)
    view = store.copying.read(0, store.max_offset)
    offsets = np.arange(40)

    def judged(identity, places=places, sizes=sizes, offsets=offsets):
        many = identity.holds(view, places, sizes, places, offsets).tolist()
        each = [
            identity.holds_one(view[place : place + size], place, size, offset)
            for place, size, offset in zip(
                places.tolist(), sizes.tolist(), offsets.tolist(), strict=True
            )
        ]
        assert many == each
        return many

    assert all(judged(identity_of(topic, 3, 0)))
    assert not any(judged(identity_of(topic, 2, 0)))
    assert not any(judged(identity_of(topic[:-1] + "x", 3, 0)))
    assert not any(judged(identity_of(topic[:-1], 3, 0)))
    assert not any(judged(identity_of(topic + "x", 3, 0)))
    assert judged(identity_of(topic, 3, int(places[20]))) == [False] * 20 + [True] * 20
    assert not any(judged(identity_of(topic, 3, 0), offsets=offsets + 1))
    assert not any(judged(identity_of(topic, 3, 0), sizes=sizes - 1))
    store.close()


def test_offline_tools_follow_no_entry_to_another_queue(bench):
    with bench.open() as store:
        write_evenly(store)
    exchange(bench, queue_file(bench, "flights", 0, 8), queue_file(bench, "flights", 1, 8))
    with ClosedStore(bench.root, bench.disk) as closed:
        records = list(closed.queue_records("flights", 0))
    given = [None if record is None else decode_record(record).body for record in records]
    sound = expected(("flights", 0))
    assert given == [*sound[:8], *[None] * 8, *sound[16:]]
