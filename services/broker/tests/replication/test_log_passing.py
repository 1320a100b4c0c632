"""A log and state files from one store into another, without a network."""

from __future__ import annotations

import json

import pytest

from ariane_broker.replication.log_feed import CHUNK_BYTES, WINDOW_BYTES, LogFeed
from ariane_broker.replication.log_taker import CannotFollow, LogTaker, Welcome
from ariane_broker.replication.state_copies import StateCopies, StatePart
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_storage import Store
from ariane_storage.config import StoreConfig
from ariane_storage.errors import StateFileDamaged
from ariane_storage.log.epoch_history import common_end
from ariane_storage.testing import FaultyDisk, FixedClock, block_of, small_config


@pytest.fixture
def opened(tmp_path):
    def opened():
        return Store.open(
            tmp_path, small_config(segment_bytes=4096), disk=FaultyDisk(), clock=FixedClock()
        )

    return opened


def fill(store, name, blocks=4):
    for number in range(blocks):
        store.append(block_of("flights", [f"{name}{number}".encode() * 50] * 3), 0)


def welcome_of(primary, replica, begin=None):
    copying = primary.copying
    if begin is None:
        begin = common_end(
            copying.epochs, primary.max_offset, replica.copying.epochs, replica.max_offset
        )
    if replica.max_offset == replica.min_offset:
        begin = primary.min_offset
    return Welcome(
        copying.epochs[-1].epoch,
        copying.epochs,
        begin,
        primary.max_offset,
        silence_s=5.0,
        set_id=copying.set_id,
        junction=copying.junction(begin),
    )


def follow(primary, replica, forgotten):
    taker = LogTaker(replica, forgotten.append)
    welcome = welcome_of(primary, replica)
    taker.agree(welcome)
    feed = LogFeed(primary, welcome.begin, busy_chunk_count=2)
    epochs = []
    while (chunk := feed.take()) is not None:
        epochs.append(chunk.epoch)
        taker.take(chunk)
        feed.progressed(replica.copying.next_offset)
    return epochs


def test_a_replica_follows_takes_over_and_is_followed(opened):
    one, other, forgotten = opened(), opened(), []
    one.copying.begin_epoch(1)
    fill(one, "a")
    assert set(follow(one, other, forgotten)) == {1}
    assert other.copying.epochs == one.copying.epochs
    forgotten.clear()
    fill(one, "lost", blocks=1)
    other.copying.begin_epoch(2)
    fill(other, "b")
    end = other.max_offset
    assert set(follow(other, one, forgotten)) == {2}
    [cut] = forgotten
    assert 0 < cut < end, "what was saved of the end that was cut must go before it"
    assert one.max_offset == end
    assert one.copying.epochs == other.copying.epochs == ((1, 0), (2, other.copying.epochs[1][1]))
    bounds = one.queue_bounds("flights", 0)
    assert bounds == other.queue_bounds("flights", 0) == (0, 24)


def test_what_a_primary_lost_and_wrote_anew_is_not_confirmed(opened):
    one, other = opened(), opened()
    one.copying.begin_epoch(1)
    fill(one, "a")
    kept = one.max_offset
    taker = LogTaker(other, lambda _: None)

    def take_all():
        welcome = welcome_of(one, other)
        taker.agree(welcome)
        feed = LogFeed(one, welcome.begin, busy_chunk_count=2)
        while (chunk := feed.take()) is not None:
            taker.take(chunk)
            feed.progressed(other.copying.next_offset)

    fill(one, "lost", blocks=2)
    take_all()
    taker.note_confirmed(one.max_offset)
    assert other.queue_bounds("flights", 0) == (0, 18)
    # It was alone in sync, and the power took its end.
    one.copying.truncate(kept)
    one.copying.begin_epoch(2)
    fill(one, "b", blocks=2)
    take_all()
    assert other.max_offset == one.max_offset > kept
    assert taker.confirmed == other.confirmed_offset == kept
    assert other.queue_bounds("flights", 0) == (0, 12)
    taker.note_confirmed(one.max_offset)
    assert other.queue_bounds("flights", 0) == (0, 18)


def test_snapshots_of_what_a_crash_has_lost_are_forgotten(opened, tmp_path):
    """A disk that lies keeps them, and loses the log: other records take the place of the lost."""
    one, disk = opened(), FaultyDisk()
    one.copying.begin_epoch(1)
    fill(one, "a")
    config = small_config(segment_bytes=4096)
    other = Store.open(tmp_path / "other", config, disk=disk, clock=FixedClock())
    follow(one, other, [])
    other.flush()
    end, disk = int(other.max_offset), disk.kill()
    state = StateCopies(disk, tmp_path / "config")
    for name, offset in (("within.json", end), ("beyond.json", end + 1)):
        state.put(StatePart(name, b'{"commitLogOffset": %d}' % offset))
    state.put(StatePart("unknown.json", b"{}"))
    state.put(StatePart("topics.json", b"{}"))
    with Store.open(tmp_path / "other", config, disk=disk, clock=FixedClock()) as other:
        assert other.recovery.crashed
        LogTaker(other, state.forget_snapshots).agree(welcome_of(one, other))
        assert other.max_offset == end
    assert sorted(state.versions()) == ["topics.json", "within.json"]


def test_a_log_of_strangers_is_not_followed(opened):
    one, other = opened(), opened()
    one.copying.begin_epoch(1)
    fill(one, "a")
    fill(other, "x")
    with pytest.raises(CannotFollow, match="empty this store"):
        LogTaker(other, lambda _: None).agree(welcome_of(one, other, begin=0))
    assert other.max_offset > 0


@pytest.mark.parametrize("words", ["belongs to the replica set", "the bytes before it differ"])
def test_a_log_of_another_set_with_the_same_epochs_is_not_cut(opened, words):
    one, other = opened(), opened()
    is_told = "set" in words
    for store, name in ((one, "a"), (other, "x")):
        store.copying.join_set(name if is_told else "s")
        store.copying.begin_epoch(1)
        fill(store, name)
    fill(other, "longer")
    end = other.max_offset
    with pytest.raises(CannotFollow, match=words):
        LogTaker(other, lambda _: None).agree(welcome_of(one, other))
    assert other.max_offset == end
    assert other.queue_bounds("flights", 0) == (0, 24)


def test_an_empty_log_joins_the_set_of_its_primary_for_good(opened):
    one, other = opened(), opened()
    one.copying.join_set("s")
    one.copying.begin_epoch(1)
    fill(one, "a")
    follow(one, other, [])
    assert other.copying.set_id == "s"
    with pytest.raises(ValueError, match="belongs to the set s"):
        other.copying.join_set("t")


def test_no_more_is_on_its_way_than_a_window(tmp_path):
    store = Store.open(tmp_path / "s", small_config(segment_bytes=64 << 20))
    store.copying.begin_epoch(1)
    body = b"x" * 3000
    while store.max_offset < WINDOW_BYTES + 3 * CHUNK_BYTES:
        store.append(block_of("flights", [body] * 200), 0)
    feed, sent = LogFeed(store, 0, busy_chunk_count=2), 0
    while (chunk := feed.take()) is not None:
        assert len(chunk.content) <= CHUNK_BYTES
        sent += len(chunk.content)
    assert sent == WINDOW_BYTES
    feed.progressed(CHUNK_BYTES)
    assert feed.take() is not None
    store.close()


def grow(store, feed, body=b"small"):
    store.append(block_of("flights", [body] * 3), 0)
    feed.appended()
    return store.max_offset


def test_small_chunks_gather_while_a_replica_is_busy(opened):
    store = opened()
    store.copying.begin_epoch(1)
    feed = LogFeed(store, 0, busy_chunk_count=2)
    ends = []
    for _ in range(2):
        ends.append(grow(store, feed))
        assert feed.take().content == store.copying.read(feed.position - ends[0], ends[-1])
    for _ in range(3):
        end = grow(store, feed)
        assert feed.take() is None
    feed.progressed(ends[0])
    gathered = feed.take()
    assert (gathered.begin, len(gathered.content)) == (ends[1], end - ends[1])
    assert feed.take() is None


def test_nothing_gathers_where_a_replica_tells_its_flushes(opened):
    store = opened()
    store.copying.begin_epoch(1)
    feed = LogFeed(store, 0, busy_chunk_count=None)
    for _ in range(5):
        begin, end = store.max_offset, grow(store, feed)
        chunk = feed.take()
        assert (chunk.begin, len(chunk.content)) == (begin, end - begin)


def test_whole_chunks_do_not_wait_and_end_behind_a_record(tmp_path):
    store = Store.open(tmp_path / "s", small_config(segment_bytes=64 << 20))
    store.copying.begin_epoch(1)
    feed, ends = LogFeed(store, 0, busy_chunk_count=2), set()
    while store.max_offset < 4 * CHUNK_BYTES:
        ends.add(grow(store, feed, b"x" * 3000))
    for _ in range(3):
        chunk = feed.take()
        assert CHUNK_BYTES // 2 < len(chunk.content) <= CHUNK_BYTES
        assert chunk.begin + len(chunk.content) in ends
    store.close()


@pytest.mark.parametrize("body_bytes", [2 * CHUNK_BYTES, WINDOW_BYTES + CHUNK_BYTES])
def test_a_record_larger_than_chunks_or_the_window_passes(tmp_path, body_bytes):
    config = StoreConfig(segment_bytes=64 << 20, record_bytes_max=32 << 20)
    one, other = (Store.open(tmp_path / name, config) for name in ("one", "other"))
    one.copying.begin_epoch(1)
    encoder = BlockEncoder("flights", size_bytes_max=32 << 20)
    encoder.add(b"x" * body_bytes, born_timestamp_ms=0)
    one.append(encoder.finish(), 0)
    follow(one, other, [])
    assert other.max_offset == one.max_offset > body_bytes
    one.close()
    other.close()


def test_no_change_of_topics_travels_without_the_offsets_that_were_saved_before(
    tmp_path, monkeypatch
):
    disk = FaultyDisk()
    state = StateCopies(disk, tmp_path)

    def save(content):
        for name in ("consumerOffset.json", "topics.json"):
            state.put(StatePart(name, content))

    def read_and_save(path):
        monkeypatch.undo()
        content = disk.read(path)
        save(b'{"a": 2}')  # Before the other file is read.
        return content

    save(b'{"a": 1}')
    monkeypatch.setattr(disk, "read", read_and_save)
    found = {part.name: json.loads(part.content)["a"] for part in state.parts({})}
    assert found == {"topics.json": 1, "consumerOffset.json": 2}


def test_state_files_travel_when_they_differ(tmp_path):
    disk = FaultyDisk()
    one, other = (StateCopies(disk, tmp_path / name) for name in ("one", "other"))
    one.put(StatePart("topics.json", b'{"a": 1}'))
    one.put(StatePart("producerSequences.json", b'{"offset": 5}'))
    for part in one.parts(other.versions()):
        other.put(part)
    assert other.versions() == one.versions()
    assert list(one.parts(other.versions())) == []
    one.put(StatePart("topics.json", b'{"a": 2}'))
    [part] = one.parts(other.versions())
    assert json.loads(part.content) == {"a": 2}
    other.forget_snapshots()
    assert list(other.versions()) == ["topics.json"]


@pytest.mark.parametrize(
    "part",
    [
        StatePart("../topics.json", b"{}"),
        StatePart("topics.json.bak", b"{}"),
        StatePart("topics.json", b"no JSON"),
    ],
)
def test_a_file_that_is_no_state_file_is_refused(tmp_path, part):
    state = StateCopies(FaultyDisk(), tmp_path)
    with pytest.raises(StateFileDamaged):
        state.put(part)
    assert state.versions() == {}
