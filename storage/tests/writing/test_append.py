"""Appending: what reaches the log is exactly the record, and what is wrong never does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ariane_record import RecordFields, SystemFlag, decode_record, encode_block, encode_record
from ariane_record.checksums.checksum import crc32
from ariane_storage import BlockRejected, IllegalQueue, Store, StoreClosed, StoreConfig
from ariane_storage.testing import BORN_MS, block_of
from ariane_storage.writing.append import packed_host


def log_bytes(store: Store, begin: int, size: int) -> bytes:
    content = store.copying.read(begin, begin + size)
    assert content is not None
    return content


@pytest.mark.parametrize("length_step", [0, 1], ids=["even sizes", "uneven sizes"])
@pytest.mark.parametrize("topic", ["flights", "t" * 200], ids=["V1", "V2"])
def test_bytes_are_those_of_the_record_codec(bench, store, topic, length_step):
    bodies = [bytes([place]) * (40 + length_step * place) for place in range(5)]
    block = block_of(topic, bodies, tags=["a", "b"], keys=[["k"], ["k"]], unique_ids=["u", "v"])
    store.append(block_of("other", [b"first"]), 0)
    appended = store.append(block, 3, born_host=("10.1.2.3", 4711))
    for place, begin in enumerate(appended.commit_log_offsets.tolist()):
        properties = {}
        if place < 2:
            properties = {"KEYS": "k", "TAGS": "ab"[place], "UNIQ_KEY": "uv"[place]}
        expected = encode_record(
            RecordFields(
                topic=topic,
                body=bodies[place],
                properties=properties,
                queue_id=3,
                queue_offset=place,
                commit_log_offset=begin,
                born_timestamp_ms=BORN_MS,
                born_host=("10.1.2.3", 4711),
                store_timestamp_ms=bench.clock.time_ms,
                store_host=("127.0.0.1", 10911),
            )
        )
        assert log_bytes(store, begin, len(expected)) == expected
    assert appended.first_commit_log_offset == appended.commit_log_offsets[0]
    assert appended.next_commit_log_offset == store.max_offset


@pytest.mark.parametrize("count", [1, 30])
def test_a_forwarded_record_may_have_control_characters(store, count):
    message = RecordFields(topic="flights", body=b"old", properties={"note": "two\nlines"})
    block = encode_block("flights", [message] * count)
    store.append(block, 0)
    with pytest.raises(BlockRejected, match="control character"):
        store.append(replace(block, forwarded=False), 0)
    assert store.read_queue("flights", 0, 0, max_count=200, max_bytes=1 << 20).count == count


def test_attempts_flags_and_half_offset_of_a_forwarded_message_are_kept(store):
    message = RecordFields(
        topic="flights",
        body=b"again",
        flag=7,
        system_flag=int(SystemFlag.TRANSACTION_COMMIT),
        attempts=3,
        half_offset=99,
        born_timestamp_ms=5,
    )
    appended = store.append(encode_block("flights", [message]), 0)
    kept = store.message_at(appended.first_commit_log_offset)
    assert (kept.flag, kept.system_flag, kept.attempts, kept.half_offset) == (7, 8, 3, 99)


def test_queue_offsets_are_dense_and_queues_apart(store):
    first = store.append(block_of("flights", [b"a", b"b"]), 0)
    other = store.append(block_of("flights", [b"c"]), 1)
    second = store.append(block_of("flights", [b"d"]), 0)
    assert [first.first_queue_offset, second.first_queue_offset] == [0, 2]
    assert other.first_queue_offset == 0


def test_store_timestamps_never_run_backwards(bench, store):
    first = store.append(block_of("flights", [b"a"]), 0)
    bench.clock.advance(-5000)
    second = store.append(block_of("flights", [b"b"]), 0)
    assert second.store_timestamp_ms == first.store_timestamp_ms
    store.close()
    reopened = bench.open()
    third = reopened.append(block_of("flights", [b"c"]), 0)
    assert third.store_timestamp_ms == first.store_timestamp_ms
    reopened.close()


def test_segments_roll_as_a_whole_with_a_filler(bench, store):
    first = store.append(block_of("flights", [b"x" * 1000] * 4), 0)
    second = store.append(block_of("flights", [b"y" * 1000] * 4), 0)
    assert second.first_commit_log_offset == bench.config.segment_bytes
    room = bench.config.segment_bytes - first.next_commit_log_offset
    filler = log_bytes(store, first.next_commit_log_offset, 8)
    assert filler == room.to_bytes(4, "big") + bytes.fromhex("cbd43194")


def test_a_block_fills_a_segment_up_to_the_room_for_the_filler(bench):
    bench.config = replace(bench.config, record_bytes_max=8192)
    store = bench.open()
    empty = store.append(block_of("f", [b""]), 0)
    overhead = empty.next_commit_log_offset
    fitting = bench.config.segment_bytes - overhead - 8 - overhead
    appended = store.append(block_of("f", [b"x" * fitting]), 0)
    assert appended.next_commit_log_offset == bench.config.segment_bytes - 8
    with pytest.raises(BlockRejected, match="a segment takes"):
        store.append(block_of("f", [b"x" * 4000, b"y" * 4200]), 0)
    store.close()


def flip(block, position):
    damaged = bytearray(block.records)
    damaged[position] ^= 1
    return replace(block, pieces=(bytes(damaged),))


def with_records(block, records):
    return replace(block, pieces=(bytes(records),), crc32=crc32(bytes(records)))


def patched(block, position, value):
    records = bytearray(block.records)
    records[position : position + len(value)] = value
    return with_records(block, records)


SOUND = block_of("flights", [b"abc", b"defg"], tags=["t"], keys=[["k"]], unique_ids=["u"])
SECOND = int(SOUND.sizes[0])
TOPIC = 88 + 3 + 1


@pytest.mark.parametrize(
    ("block", "reason", "position"),
    [
        (replace(SOUND, sizes=SOUND.sizes[:0]), "no records", -1),
        (replace(SOUND, tag_codes=SOUND.tag_codes[:1]), "columns differ", -1),
        (replace(SOUND, key_counts=SOUND.key_counts[:1]), "columns differ", -1),
        (replace(SOUND, key_hashes=SOUND.key_hashes[:1]), "key hashes", -1),
        (replace(SOUND, key_hashes=-1 - SOUND.key_hashes), "negative", -1),
        (replace(SOUND, sizes=SOUND.sizes - 200), "too small", 0),
        (replace(SOUND, sizes=SOUND.sizes + 5000), "larger than", 0),
        (replace(SOUND, sizes=SOUND.sizes + np.int32(1)), "add up to", -1),
        (replace(SOUND, pieces=(SOUND.records[:-1],)), "add up to", -1),
        (flip(SOUND, 90), "checksum differs", -1),
        (replace(SOUND, crc32=SOUND.crc32 ^ 1), "checksum differs", -1),
        (patched(SOUND, SECOND, (SECOND + 9).to_bytes(4, "big")), "not that of its column", 1),
        (patched(SOUND, SECOND + 4, bytes.fromhex("daa320ab")), "magic", 1),
        (patched(SOUND, 4, bytes.fromhex("cbd43194")), "magic", 0),
        (patched(SOUND, 36, (0x10).to_bytes(4, "big")), "system flag", 0),
        (patched(SOUND, 36, (0x4).to_bytes(4, "big")), "system flag", 0),
        (patched(SOUND, 36, (0xC).to_bytes(4, "big")), "system flag", 0),
        (patched(SOUND, 36, (0x80).to_bytes(4, "big")), "system flag", 0),
        (patched(SOUND, 84, (4).to_bytes(4, "big")), "topic is not", 0),
        (patched(SOUND, 84, (-1).to_bytes(4, "big", signed=True)), "add up to its size", 0),
        (patched(SOUND, 84, (1 << 30).to_bytes(4, "big")), "add up to its size", 0),
        (patched(SOUND, SECOND + TOPIC + 1, b"F"), "topic is not", 1),
        (patched(SOUND, TOPIC + 7, b"\x00\x01"), "add up to its size", 0),
        (patched(SOUND, SECOND - 20, b"__CRC33#"), "no room for its checksum", 0),
        (patched(SOUND, SECOND - 1, b"\x01"), "no room for its checksum", 0),
        (patched(SOUND, 88, b"x"), "checksum of the body", 0),
        (patched(SOUND, 8, b"\xff"), "checksum of the body", 0),
    ],
)
def test_a_block_that_differs_from_its_columns_is_rejected_and_not_stored(
    store, block, reason, position
):
    with pytest.raises(BlockRejected, match=reason) as caught:
        store.append(block, 0)
    assert caught.value.position == position
    assert store.max_offset == 0
    assert store.queue_bounds("flights", 0) == (0, 0)
    assert store.append(SOUND, 0).first_queue_offset == 0


@pytest.mark.parametrize("topic", ["", "../up", "a/b", ".", "..", "a b", "a\x00b", "é", "x" * 256])
def test_topics_that_are_no_folder_names_are_refused(store, topic):
    with pytest.raises((IllegalQueue, BlockRejected)):
        store.append(block_of(topic, [b"x"]), 0)
    assert store.max_offset == 0


def test_negative_queue_ids_are_refused(store):
    with pytest.raises(IllegalQueue):
        store.append(SOUND, -1)


def test_system_topics_are_folder_names(store):
    for topic in ("%RETRY%group-1", "%DLQ%group_1", "SCHEDULE_TOPIC_XXXX"):
        assert store.append(block_of(topic, [b"x"]), 0).count == 1


def test_a_closed_store_takes_nothing(bench):
    store = bench.open()
    store.close()
    with pytest.raises(StoreClosed):
        store.append(SOUND, 0)
    store.close()


def test_ipv6_addresses_that_stand_for_ipv4_are_stored_as_those():
    assert packed_host(("::ffff:10.0.0.1", 5)) == bytes((10, 0, 0, 1))
    assert packed_host(("10.0.0.1", 5)) == bytes((10, 0, 0, 1))
    assert len(packed_host(("2001:db8::1", 5))) == 16


def test_memoryviews_are_as_good_as_bytes(store):
    view = memoryview(bytearray(SOUND.records))
    appended = store.append(replace(SOUND, pieces=(view,)), 0)
    record = log_bytes(store, appended.first_commit_log_offset, SECOND)
    assert decode_record(record).body == b"abc"


def test_sizes_of_a_store_are_checked():
    with pytest.raises(ValueError, match="page size"):
        StoreConfig(segment_bytes=1000)
    with pytest.raises(ValueError, match="positive"):
        StoreConfig(index_slots=0)
    with pytest.raises(ValueError, match="hour"):
        StoreConfig(delete_at_hour=24)
    with pytest.raises(ValueError, match="grow"):
        StoreConfig(disk_clean_ratio=0.9, disk_force_ratio=0.8)
