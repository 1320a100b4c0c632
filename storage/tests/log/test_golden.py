"""Bytes that must never change: each format as RocketMQ writes it, or as we once did."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from ariane_record import RecordFields, decode_record, encode_record
from ariane_record.checksums.java_hash import key_hash
from ariane_storage import Store, StoreConfig
from ariane_storage.log.checkpoint import Checkpoint, CheckpointFile
from ariane_storage.queues.consume_queue_entry import holes
from ariane_storage.testing import FaultyDisk, FixedClock, block_of, small_config

GOLDEN = Path(__file__).parents[1] / "golden"

# The record of RocketMQ that everything is measured by: topic TopicTest, body Hello.
GOLDEN_RECORD = bytes.fromhex(
    "0000007b daa320a7 77d18982 00000003 00000000 0000000000000007 0000000000000000 00000000"
    "0000018bcfe56800 7f000001 00003039 0000018bcfe56801 7f000001 00002a9f 00000000"
    "0000000000000000 00000005 48656c6c6f 09 546f70696354657374 0012"
    "4b455953 01 6b31 02 54414753 01 54616741 02"
)


@pytest.fixture
def rocketmq_log():
    """A disk with nothing but the golden record as another program has written it."""
    disk = FaultyDisk()
    root = Path("/store")
    disk.make_folders(root / "commitlog")
    path = root / "commitlog" / f"{0:020d}"
    disk.allocate(path, 8192)
    disk.open(path, writable=True).write_at(0, GOLDEN_RECORD)
    disk.write(root / "abort", b"1")
    return disk


def test_the_golden_record_is_served_and_derived_files_follow_from_it(rocketmq_log):
    root = Path("/store")
    config = StoreConfig(
        segment_bytes=8192,
        consume_queue_file_entries=16,
        index_slots=5_000_000,
        index_items=10,
    )
    store = Store.open(root, config, disk=rocketmq_log, clock=FixedClock())
    assert store.queue_bounds("TopicTest", 3) == (7, 8)
    read = store.read_queue("TopicTest", 3, 7, max_count=1, max_bytes=1)
    assert b"".join(read.chunks) == GOLDEN_RECORD
    assert [m.body for m in store.query_by_key("TopicTest", "k1")] == [b"Hello"]
    store.close()
    queue = rocketmq_log.read(root / "consumequeue" / "TopicTest" / "3" / f"{0:020d}")
    assert queue[7 * 20 : 8 * 20] == bytes.fromhex("0000000000000000 0000007b 000000000027a807")
    assert queue[: 7 * 20] == bytes.fromhex("0000000000000000 7fffffff 0000000000000000") * 7
    assert queue[: 7 * 20] == holes(7).tobytes()
    assert not any(queue[8 * 20 :])
    (name,) = rocketmq_log.names(root / "index")
    index = rocketmq_log.read(root / "index" / name)
    assert struct.unpack(">qqqqii", index[:40]) == (1700000000001, 1700000000001, 0, 0, 2, 3)
    slot = key_hash("TopicTest", "k1") % 5_000_000
    assert slot == 2746024
    assert index[40 + slot * 4 : 44 + slot * 4] == b"\x00\x00\x00\x01"
    first_item = 40 + 5_000_000 * 4 + 20
    assert index[first_item : first_item + 20] == struct.pack(">iqii", 2746024, 0, 0, 0)
    # RocketMQ 5.5 looks for messages by tag here.
    tag_hash = key_hash("TopicTest", "T#TagA")
    second_item = first_item + 20
    assert index[second_item : second_item + 20] == struct.pack(">iqii", tag_hash, 0, 0, 0)


def test_checkpoint_of_version_1():
    disk = FaultyDisk()
    path = Path("/checkpoint")
    checkpoint = Checkpoint(
        log_begin=8192,
        dispatched_offset=20_000,
        flushed_offset=20_000,
        confirmed_offset=19_000,
        store_timestamp_ms=1_700_000_000_001,
        queue_count=3,
        entry_sum=77,
        index_item_count=12,
    )
    CheckpointFile(disk, path).save(checkpoint)
    assert compare_with_golden("checkpoint-v1", disk.read(path))
    disk.write(path, (GOLDEN / "checkpoint-v1").read_bytes())
    assert CheckpointFile(disk, path).load() == checkpoint
    # RocketMQ reads five longs: three times, an offset of its primary, the confirmed offset.
    timestamp = checkpoint.store_timestamp_ms
    assert struct.unpack_from(">qqqqq", disk.read(path)) == (*[timestamp] * 3, 0, 19_000)


def test_a_store_of_version_1():
    """Every file of a small store, byte by byte; and the old files are read as they were."""
    disk, root = FaultyDisk(), Path("/store")
    clock = FixedClock()
    store = Store.open(root, small_config(), disk=disk, clock=clock)
    for number in range(14):
        bodies = [f"{number}/{place}".encode() * 60 for place in range(3)]
        block = block_of(
            ["flights", "t" * 130][number % 5 == 4],
            bodies,
            tags=["arrived"],
            keys=[["N1", "N2"], ["N1"]],
            unique_ids=[f"U{number}"],
        )
        store.append(block, number % 2)
        clock.advance(1500)
    store.close()
    contents = {
        "store-v1/" + str(path.relative_to(root)).replace("t" * 130, "long"): disk.read(path)
        for path in disk.paths()
    }
    same = {name: compare_with_golden(name, content) for name, content in contents.items()}
    assert all(same.values()), same
    old = FaultyDisk()
    for path in (GOLDEN / "store-v1").rglob("*"):
        if path.is_file():
            relative = str(path.relative_to(GOLDEN / "store-v1")).replace("long", "t" * 130)
            old.make_folders((root / relative).parent)
            old.write(root / relative, path.read_bytes())
    with Store.open(root, small_config(), disk=old, clock=clock) as reopened:
        assert (reopened.recovery.records, reopened.recovery.rebuilt) == (0, ())
        assert reopened.queues() == store.queues()
        assert reopened.max_offset == store.max_offset
        assert len(reopened.query_by_key("flights", "N1", max_count=99)) == 24


def compare_with_golden(name: str, content: bytes) -> bool:
    """Whether content equals a golden file; one that is missing is written, and the test fails."""
    path = GOLDEN / name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return False
    return path.read_bytes() == content


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("born", ["127.0.0.1", "2001:db8::1"])
@pytest.mark.parametrize("stored", ["127.0.0.1", "2001:db8::2"])
@pytest.mark.parametrize("topic", ["short", "l" * 200])
def test_records_of_every_kind_are_recovered(checksum, born, stored, topic):
    disk, root = FaultyDisk(), Path("/store")
    disk.make_folders(root / "commitlog")
    path = root / "commitlog" / f"{0:020d}"
    disk.allocate(path, 8192)
    file, begin, messages = disk.open(path, writable=True), 0, []
    for number in range(5):
        message = RecordFields(
            topic=topic,
            body=b"body" * number,
            properties={"TAGS": "t", "KEYS": "a b", "UNIQ_KEY": f"U{number}"},
            queue_id=2,
            queue_offset=number,
            commit_log_offset=begin,
            born_host=(born, 1),
            store_host=(stored, 2),
            store_timestamp_ms=1000 + number,
        )
        record = encode_record(message, checksum=checksum)
        file.write_at(begin, record)
        begin += len(record)
        messages.append(decode_record(record))
    store = Store.open(root, small_config(), disk=disk, clock=FixedClock())
    read = store.read_queue(topic, 2, 0, max_count=9, max_bytes=99_999)
    assert [m.body for m in messages] == [
        store.message_at(m.commit_log_offset).body for m in messages
    ]
    assert read.count == 5
    assert store.message_at(messages[3].commit_log_offset) == messages[3]
    assert [m.unique_id for m in store.query_by_key(topic, "b")] == ["U4", "U3", "U2", "U1", "U0"]
    assert store.queue_offset_at_time(topic, 2, 1003) == 3
    assert store.store_timestamp_at(messages[4].commit_log_offset) == 1004
    store.close()


@pytest.mark.parametrize(
    ("flag", "entries", "indexed"), [(0x4, 0, 1), (0x8, 1, 1), (0xC, 0, 0), (0x80, 0, 1)]
)
def test_transaction_marks_decide_what_is_dispatched(flag, entries, indexed):
    disk, root = FaultyDisk(), Path("/store")
    disk.make_folders(root / "commitlog")
    path = root / "commitlog" / f"{0:020d}"
    disk.allocate(path, 8192)
    record = encode_record(
        RecordFields(topic="t", body=b"x", properties={"UNIQ_KEY": "u"}, system_flag=flag)
    )
    disk.open(path, writable=True).write_at(0, record)
    store = Store.open(root, small_config(), disk=disk, clock=FixedClock())
    assert store.queue_bounds("t", 0)[1] == entries
    assert len(store.query_by_key("t", "u")) == indexed
    store.close()


def test_the_delay_topic_keeps_the_time_of_delivery():
    disk, root, clock = FaultyDisk(), Path("/store"), FixedClock(10_000)
    store = Store.open(root, small_config(), disk=disk, clock=clock)
    store.append(block_of("SCHEDULE_TOPIC_XXXX", [b"later"]), 2)
    store.close()
    path = root / "consumequeue" / "SCHEDULE_TOPIC_XXXX" / "2" / f"{0:020d}"
    appended = disk.read(path)[:20]
    assert int.from_bytes(appended[12:], "big") == 10_000 + 10_000  # Level 3: ten seconds.
