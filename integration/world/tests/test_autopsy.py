"""What a store lacks, has elsewhere, or has damaged is found when its disk is looked at."""

from pathlib import Path

from played_world.autopsy import different, examine, places, revived, short
from played_world.history import Delivered, History, Place, Sent

from ariane_storage.store import Store
from ariane_storage.testing import FaultyDisk, FixedClock, block_of, small_config

LOG = Path("/store/commitlog/00000000000000000000")


def opened(disk):
    return Store.open(Path("/store"), small_config(), disk=disk, clock=FixedClock())


def known(count=3):
    return {Place("t", "a", 0, offset): f"m{offset}" for offset in range(count)}


def stored(disk, *, flushes=True):
    store = opened(disk)
    store.append(block_of("t", [b"m0", b"m1", b"m2"]), 0)
    if flushes:
        store.flush()
    return store


def test_flushed_records_survive_a_loss_of_power():
    disk = FaultyDisk()
    stored(disk)
    with opened(disk.lose_power(1)) as store:
        assert examine("a", store, known()) == []


def test_an_unflushed_record_is_reported_missing_by_its_place():
    disk = FaultyDisk()
    stored(disk, flushes=False)
    lost = [seed for seed in range(8) if words_after_power_loss(disk, seed)]
    assert lost, "some of eight losses of power take it"


def words_after_power_loss(disk, seed):
    with opened(disk.copy().lose_power(seed)) as store:
        words = examine("a", store, known())
    assert all(word.startswith("gone: a lacks") for word in words)
    return words


def test_another_message_at_a_place_and_none_beyond_the_end_are_found():
    store = stored(FaultyDisk())
    (gone,) = examine("a", store, known() | {Place("t", "a", 0, 1): "m9"})
    assert "lacks 1" in gone
    assert "'m9' at" in gone
    (gone,) = examine("a", store, known(count=4))
    assert "lacks 1" in gone
    assert "'m3' at" in gone


def test_a_damaged_record_is_found():
    disk = FaultyDisk()
    stored(disk)
    place = disk.read(LOG).index(b"m1")
    disk.flip_bit(LOG, place, 0)
    with opened(disk.lose_power(1)) as store:
        words = examine("a", store, known())
    assert [word.partition(":")[0] for word in words] == ["damaged", "gone"]


def test_copies_are_compared_where_both_have_octets():
    assert not [*different([("a", 0, b"abcd"), ("b", 2, b"cdef")])]
    assert [*different([("a", 0, b"abcd"), ("b", 2, b"xdef")])] == [
        "unequal: the logs of a and b differ at 2"
    ]
    assert [*different([("a", 0, b"abc"), ("b", 0, b"abx"), ("c", 0, b"abx")])] == [
        "unequal: the logs of a and b differ at 2"
    ]


def test_what_was_deleted_is_found_in_a_queue_of_the_same_name():
    history = History()
    for number in range(3):
        message = Sent(f"m{number}", "t", "", number, float(number))
        message.end("acknowledged", number + 0.5, Place("t", "a", 0, number))
        history.sent[message.value] = message
    store = stored(FaultyDisk())
    assert not [*revived("a", store, history)]
    deletion = history.begin_deletion("t", 1.2)
    assert not [*revived("a", store, history)], "perhaps it was not deleted"
    deletion.end_s = 1.3
    (word,) = revived("a", store, history)
    assert word.startswith("revived: a has 'm0'")
    store.keeping.delete_queues("t")
    assert not [*revived("a", store, history)]


def test_what_was_acknowledged_or_delivered_must_lie_there_but_nothing_of_deleted_topics():
    history = History()
    for topic, outcome in (("t", "acknowledged"), ("u", "unknown"), ("gone", "acknowledged")):
        message = Sent(topic, topic, "", 0, 0.0)
        message.end(outcome, 1.0, Place(topic, "a", 0, 0))
        history.sent[topic] = message
    history.begin_deletion("gone", 2.0)
    for topic in ("t", "gone", "%RETRY%g", "v"):
        history.delivered.append(Delivered(3.0, "g", "g-1", Place(topic, "a", 0, 7), topic))
    assert places(history) == {
        Place("t", "a", 0, 0): "t",
        Place("t", "a", 0, 7): "t",
        Place("v", "a", 0, 7): "v",
    }


def test_a_log_in_sync_begins_and_ends_where_its_set_relies_on():
    row = {"begin": 100, "confirmed": 500}
    assert [*short("a", 100, 500, row)] == []
    assert [*short("a", 0, 600, row)] == [], "it may have more"
    (begin,) = short("a", 200, 500, row)
    assert "begins at 200" in begin
    (end,) = short("a", 0, 499, row)
    assert "ends at 499" in end
