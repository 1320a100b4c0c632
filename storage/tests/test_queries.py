"""Messages found by key, by unique id, by time and by position: what an operator asks for."""

from __future__ import annotations

import pytest

from ariane_record import key_hash
from ariane_storage import RecordNotFound
from ariane_storage.testing import block_of


def test_keys_of_one_hash_are_told_apart_by_the_messages(bench):
    # Java's hashes of these are equal, and so are those of topic and key joined.
    assert key_hash("flights", "Aa") == key_hash("flights", "BB")
    assert key_hash("Aa", "x") == key_hash("BB", "x")
    store = bench.open()
    for number, key in enumerate(["Aa", "BB", "Aa", "BB", "Aa"]):
        store.append(block_of("flights", [b"%d" % number], keys=[(key,)]), 0)
    store.append(block_of("Aa", [b"of Aa"], keys=[("x",)]), 0)
    store.append(block_of("BB", [b"of BB"], keys=[("x",)]), 0)
    assert [m.body for m in store.query_by_key("flights", "Aa")] == [b"4", b"2", b"0"]
    assert [m.body for m in store.query_by_key("flights", "BB")] == [b"3", b"1"]
    assert [m.body for m in store.query_by_key("Aa", "x")] == [b"of Aa"]
    assert [m.body for m in store.query_by_key("BB", "x")] == [b"of BB"]
    store.close()


def test_newest_first_through_several_index_files_and_a_restart(bench):
    store = bench.open()
    for number in range(100):
        store.append(block_of("flights", [b"%d" % number], keys=[("k", f"n{number}")]), 0)
    expected = [b"%d" % number for number in range(99, -1, -1)]
    assert [m.body for m in store.query_by_key("flights", "k", max_count=1000)] == expected
    assert [m.body for m in store.query_by_key("flights", "k", max_count=3)] == expected[:3]
    store.close()
    assert len(bench.disk.names(bench.root / "index")) > 4
    store = bench.open()
    assert [m.body for m in store.query_by_key("flights", "k", max_count=1000)] == expected
    store.close()


def test_times_are_exact_although_the_index_keeps_seconds(bench):
    store = bench.open()
    stored = []
    for _ in range(30):
        block = block_of("flights", [b"x"], keys=[("k",)])
        stored.append(store.append(block, 0).store_timestamp_ms)
        bench.clock.advance(137)
    found = store.query_by_key("flights", "k", begin_ms=stored[7], end_ms=stored[11])
    assert [m.store_timestamp_ms for m in found] == stored[11:6:-1]
    found = store.query_by_key("flights", "k", begin_ms=stored[7] + 1, end_ms=stored[11] - 1)
    assert [m.store_timestamp_ms for m in found] == stored[10:7:-1]
    store.close()


def test_a_unique_id_is_found_as_a_key_is(bench):
    store = bench.open()
    ids = [f"7F00000100002A9F{number:016X}" for number in range(5)]
    store.append(block_of("flights", [b"a", b"b", b"c", b"d", b"e"], unique_ids=ids), 0)
    for number, unique_id in enumerate(ids):
        (message,) = store.query_by_key("flights", unique_id)
        assert (message.unique_id, message.queue_offset) == (unique_id, number)
    assert store.query_by_key("delays", ids[0]) == []
    store.close()


def test_a_position_is_that_of_a_message_or_of_none(bench):
    store = bench.open()
    appended = store.append(block_of("flights", [b"a", b"bb"]), 0)
    first, second = appended.commit_log_offsets.tolist()
    assert [store.message_at(place).body for place in (first, second)] == [b"a", b"bb"]
    for place in (first + 1, second - 1, appended.next_commit_log_offset, 1 << 40, -1):
        with pytest.raises(RecordNotFound):
            store.message_at(place)
    store.close()
