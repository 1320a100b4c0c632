"""Pages of the commit log that the disk cannot read, and segments that are shortened underneath."""

from __future__ import annotations

import pytest

from ariane_storage import RecordCorrupted
from ariane_storage.log import scan
from ariane_storage.log.damage import DamageReason
from ariane_storage.testing import block_of, small_config

PAGE = 4096
SEGMENT = 8 * PAGE
QUEUES = (("flights", 0), ("flights", 1), ("delays", 0))


@pytest.fixture
def bench(bench):
    bench.config = small_config(segment_bytes=SEGMENT)
    return bench


def records_of(store, read_all):
    """Commit-log offset, end and body of every message that is served."""
    return {
        (queue, message.queue_offset): (message.commit_log_offset, message.body)
        for queue in QUEUES
        for message in read_all(store, *queue)
    }


def sizes_of(results):
    """Where records lie, by commit-log offset."""
    return {
        begin: end
        for result in results
        for begin, end in zip(
            result.commit_log_offsets.tolist(),
            [*result.commit_log_offsets.tolist()[1:], result.next_commit_log_offset],
            strict=True,
        )
    }


def spared(before, ends, begin, end):
    """Those messages that do not lie on a range of the log."""
    return {
        place: (offset, body)
        for place, (offset, body) in before.items()
        if ends[offset] <= begin or offset >= end
    }


@pytest.mark.parametrize("known", ["clean stop", "crash", "no checkpoint"])
@pytest.mark.parametrize("page", [0, 1, 3, 7, 8, 10])
def test_a_lost_page_costs_the_records_on_it_only(bench, fill, read_all, known, page):
    store = bench.open()
    ends = sizes_of(fill(store, blocks=40))
    before = records_of(store, read_all)
    bounds = {queue: store.queue_bounds(*queue) for queue in QUEUES}
    end = store.max_offset
    assert 11 * PAGE < end < 2 * SEGMENT
    store.flush_derived()
    if known == "clean stop":
        store.close()
    if known == "no checkpoint":
        bench.disk.remove(bench.root / "checkpoint")
    bench.disk = bench.disk.kill()
    begin = page * PAGE
    segment = begin - begin % SEGMENT
    bench.disk.make_unreadable(bench.segment_path(segment), begin - segment, begin - segment + 1)
    wanted = spared(before, ends, begin, begin + PAGE)
    assert len(before) - 16 < len(wanted) < len(before)

    for _ in ("found", "found again"):
        store = bench.open()
        assert records_of(store, read_all) == wanted
        if known != "no checkpoint":
            assert {queue: store.queue_bounds(*queue) for queue in QUEUES} == bounds
        assert store.max_offset == end
        (damage,) = store.damage
        assert damage.reason is DamageReason.UNREADABLE
        assert damage.begin < begin + PAGE
        assert damage.end > begin
        store.close()
    store = bench.open()
    store.append(block_of("flights", [b"goes on"]), 0)
    assert read_all(store, "flights", 0)[-1].body == b"goes on"
    store.close()


@pytest.mark.parametrize("flushed", [True, False])
def test_a_lost_page_at_the_end_is_no_torn_tail(bench, fill, read_all, flushed):
    """Nothing valid lies behind it, but it was written: nobody cuts it, and the log goes on."""
    store = bench.open()
    ends = sizes_of(fill(store, blocks=5))
    before = records_of(store, read_all)
    end = store.max_offset
    if flushed:
        store.flush_derived()
    bench.disk = bench.disk.kill()
    page = end - end % PAGE
    bench.disk.make_unreadable(bench.segment_path(0), page, page + 1)

    for _ in ("found", "found again"):
        store = bench.open()
        assert store.max_offset >= end
        (damage,) = store.damage
        assert damage.reason is DamageReason.UNREADABLE
        assert damage.end >= end
        assert records_of(store, read_all) == spared(before, ends, page, page + PAGE)
        assert store.recovery.cut_reason is None
        store.close()
    store = bench.open()
    appended = store.append(block_of("flights", [b"goes on"]), 0)
    assert int(appended.commit_log_offsets[0]) >= end
    assert read_all(store, "flights", 0)[-1].body == b"goes on"
    store.close()


def test_a_page_that_is_lost_while_the_store_is_open(bench, store, fill, read_all):
    ends = sizes_of(fill(store, blocks=40))
    before = records_of(store, read_all)
    assert store.damage == ()
    bench.disk.make_unreadable(bench.segment_path(0), 2 * PAGE, 2 * PAGE + 1)
    wanted = spared(before, ends, 2 * PAGE, 3 * PAGE)

    assert records_of(store, read_all) == wanted

    (damage,) = store.damage
    assert damage.reason is DamageReason.UNREADABLE
    lost = sorted(before[place][0] for place in before.keys() - wanted.keys())
    assert (damage.begin, damage.end) == (lost[0], ends[lost[-1]])
    with pytest.raises(RecordCorrupted, match="Input/output error"):
        store.message_at(lost[1])
    found = {m.commit_log_offset for m in store.query_by_key("flights", "N1", max_count=1000)}
    assert found
    assert not found & set(lost)
    assert store.append(block_of("flights", [b"goes on"]), 0)


def test_a_lost_page_is_found_by_message_and_by_time_too(bench, store, fill):
    results = fill(store, blocks=40)
    bench.disk.make_unreadable(bench.segment_path(0), 2 * PAGE, 2 * PAGE + 1)
    offsets = [int(offset) for result in results for offset in result.commit_log_offsets]
    lost = next(offset for offset in offsets if offset >= 2 * PAGE)
    with pytest.raises(RecordCorrupted, match="Input/output error"):
        store.message_at(lost)
    (damage,) = store.damage
    assert (damage.reason, damage.begin) == (DamageReason.UNREADABLE, lost)
    assert store.queue_offset_at_time("flights", 0, 0) == 0


def test_a_segment_that_is_shortened_while_the_store_is_open(bench, store, fill, read_all):
    ends = sizes_of(fill(store, blocks=40))
    before = records_of(store, read_all)
    bench.disk.shorten(bench.segment_path(0), 3 * PAGE)

    assert records_of(store, read_all) == spared(before, ends, 3 * PAGE, SEGMENT)

    assert [damage.reason for damage in store.damage] == [DamageReason.UNREADABLE]
    bench.disk.shorten(bench.segment_path(SEGMENT), PAGE)
    assert records_of(store, read_all) == spared(
        spared(before, ends, 3 * PAGE, SEGMENT), ends, SEGMENT + PAGE, 2 * SEGMENT
    )
    store.append(block_of("flights", [b"goes on"]), 0)
    assert read_all(store, "flights", 0)[-1].body == b"goes on"


@pytest.mark.parametrize("window_bytes", [8, 91, 300, 1000, 5000])
def test_a_scan_finds_the_same_through_windows_of_any_size(
    bench, store, fill, monkeypatch, window_bytes
):
    fill(store, blocks=40)
    bench.disk.flip_bit(bench.segment_path(0), 3 * PAGE, 1)
    bench.disk.make_unreadable(bench.segment_path(0), 5 * PAGE, 5 * PAGE + 1)
    bench.disk.flip_bit(bench.segment_path(SEGMENT), 3, 6)

    def found():
        events = []
        for event in scan.scan(store._parts.log.walk(0), 0):
            if isinstance(event, scan.Stretch):
                events += zip(
                    event.commit_log_offsets.tolist(),
                    event.places.texts(event.places.starts, event.places.ends),
                    strict=True,
                )
            else:
                events.append(event)
        return events

    whole = found()
    assert [type(event).__name__ for event in whole].count("Damage") == 3
    assert len(whole) > 100
    monkeypatch.setattr("ariane_storage.log.scan.WINDOW_BYTES", window_bytes)
    monkeypatch.setattr("ariane_storage.log.record_search.WINDOW_BYTES", window_bytes)
    assert found() == whole


def test_an_entry_that_names_a_huge_record_is_not_followed(bench, store, fill, read_all):
    """Nothing is read for it but the front of what is there."""
    store.append(block_of("flights", [b"x"] * 5), 0)
    queue = store._parts.queues.find("flights", 0)
    entry = queue.entries(2, 1).copy()
    entry["size"] = SEGMENT - int(entry["commit_log_offset"][0])
    queue.put(2, entry)
    assert [m.queue_offset for m in read_all(store, "flights", 0)] == [0, 1, 2, 3, 4]
    assert queue.entries(2, 1)["size"][0] < 300
