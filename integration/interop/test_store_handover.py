"""A store changes hands: Apache RocketMQ opens one that we wrote, and we open one that it wrote.

Both with the derived files (consume queues, index, checkpoint) handed over, and with the commit log
and the configuration alone.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from rocketmq import rocketmq, run_java_tool

from ariane_record.decoding.columns import decode_columns
from ariane_record.single.compression import Compression, body_compressor, original_body
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_storage import OsDisk, QueueRead, StateFile, Store, StoreConfig

MISSING = [tool for tool in ("java", "mvn") if not shutil.which(tool)]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(bool(MISSING), reason=f"missing: {', '.join(MISSING)}"),
]

SEGMENT_BYTES = 1 << 18
QUEUE_ENTRIES = 1000
INDEX_SLOTS, INDEX_ITEMS = 1000, 40_000
JAVA_SETTINGS = {
    "mappedFileSizeCommitLog": SEGMENT_BYTES,
    "mappedFileSizeConsumeQueue": QUEUE_ENTRIES * 20,
    "maxHashSlotNum": INDEX_SLOTS,
    "maxIndexNum": INDEX_ITEMS,
}
CONFIG = StoreConfig(
    segment_bytes=SEGMENT_BYTES,
    consume_queue_file_entries=QUEUE_ENTRIES,
    index_slots=INDEX_SLOTS,
    index_items=INDEX_ITEMS,
    record_bytes_max=SEGMENT_BYTES // 2,
)
TOPICS = {"orders": 4, "payments": 2, "a" * 127: 1}


@dataclass(frozen=True)
class Sent:
    topic: str
    queue_id: int
    queue_offset: int
    body: bytes
    tag: str
    keys: str
    flag: int


def write_topics(store: Path, topics: dict[str, int]) -> None:
    table = {
        topic: {
            "attributes": {},
            "order": False,
            "perm": 6,
            "readQueueNums": queues,
            "topicFilterType": "SINGLE_TAG",
            "topicName": topic,
            "topicSysFlag": 0,
            "writeQueueNums": queues,
        }
        for topic, queues in topics.items()
    }
    version = {"counter": 1, "stateVersion": 0, "timestamp": 1}
    topics_file(store).save({"dataVersion": version, "topicConfigTable": table})


def topics_file(store: Path) -> StateFile:
    return StateFile(store / "config" / "topics.json", OsDisk())


def write_our_store(root: Path, *, seed: int) -> list[Sent]:
    chance = random.Random(seed)
    sent: list[Sent] = []
    with Store.open(root, CONFIG) as store:
        while store.max_offset < 4 * SEGMENT_BYTES:
            topic = chance.choice(list(TOPICS))
            queue_id = chance.randrange(TOPICS[topic])
            encoder = BlockEncoder(topic, size_bytes_max=SEGMENT_BYTES // 2)
            batch = []
            for _ in range(chance.choice((1, 1, 3, 20))):
                number = len(sent) + len(batch)
                body = chance.randbytes(chance.choice((1, 40, 300))) * chance.choice((1, 10))
                stored, system_flag = packed(body, number)
                encoder.add(
                    stored,
                    tag=f"tag{number % 3}",
                    keys=(f"key{number}", f"shared{number % 10}"),
                    unique_id=f"0A0000010000000000000000{number:08X}",
                    properties={"number": str(number), "city": "Zürich 苏黎世"},
                    flag=number,
                    system_flag=system_flag,
                    born_timestamp_ms=1_700_000_000_000 + number,
                )
                batch.append((body, number))
            appended = store.append(encoder.finish(), queue_id)
            for step, (body, number) in enumerate(batch):
                keys = f"key{number} shared{number % 10}"
                offset = appended.first_queue_offset + step
                sent.append(Sent(topic, queue_id, offset, body, f"tag{number % 3}", keys, number))
    return sent


def packed(body: bytes, number: int) -> tuple[bytes, int]:
    """A body as it is stored: large ones are compressed, in each way in turn."""
    if len(body) < 3000:
        return body, 0
    kind = (Compression.LZ4, Compression.ZSTD, Compression.ZLIB)[number % 3]
    return body_compressor(kind, 5)(body), kind.system_flag


def drop_derived(store: Path) -> None:
    for name in ("consumequeue", "index", "checkpoint"):
        path = store / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    (store / "abort").write_text("0")


@pytest.mark.parametrize("derived", [True, False], ids=["whole store", "log and config alone"])
def test_rocketmq_reads_every_message_of_our_store(tmp_path: Path, derived: bool) -> None:
    ours, copy = tmp_path / "ours", tmp_path / "copy"
    sent = write_our_store(ours, seed=4)
    write_topics(ours, TOPICS)
    shutil.copytree(ours, copy)
    if not derived:
        drop_derived(copy)

    with rocketmq(copy, tmp_path / "home", JAVA_SETTINGS) as name_server:
        rows = run_java_tool("ReadTopics.java", [name_server, *TOPICS])

    # The broker in Java has rewritten the file that we wrote, and gives it back.
    given_back = topics_file(copy).load()
    assert given_back is not None
    assert set(TOPICS) <= set(given_back["topicConfigTable"])
    assert (copy / "config" / "topics.json").read_bytes() != (topics_file(ours).path).read_bytes()

    assert rows.pop() == {"end": True}
    read = sorted(
        (
            row["topic"],
            row["queue_id"],
            row["queue_offset"],
            bytes.fromhex(row["body"]),
            row["properties"]["TAGS"],
            row["properties"]["KEYS"],
            row["flag"],
        )
        for row in rows
    )
    expected = sorted(
        (m.topic, m.queue_id, m.queue_offset, m.body, m.tag, m.keys, m.flag) for m in sent
    )
    assert len(expected) > 500
    assert read == expected
    assert {row["properties"]["city"] for row in rows} == {"Zürich 苏黎世"}


@pytest.mark.parametrize("derived", [True, False], ids=["whole store", "log and config alone"])
def test_we_read_every_message_of_a_store_that_rocketmq_wrote(
    tmp_path: Path, derived: bool
) -> None:
    root = tmp_path / "java"
    write_topics(root, {"orders": 4})
    with rocketmq(root, tmp_path / "home", JAVA_SETTINGS) as name_server:
        assert run_java_tool("SendMessages.java", [name_server, "orders", "900", "11"]) == [
            {"sent": 900}
        ]
        rows = run_java_tool("ReadTopics.java", [name_server, "orders"])
    assert rows.pop() == {"end": True}
    assert len(rows) == 900
    if not derived:
        drop_derived(root)

    with Store.open(root, CONFIG) as store:
        assert not store.damage
        found = []
        for queue_id in range(4):
            low, high = store.queue_bounds("orders", queue_id)
            assert low == 0
            position = low
            while position < high:
                read = store.read_queue(
                    "orders", queue_id, position, max_count=64, max_bytes=1 << 20
                )
                found += decoded(read)
                position = read.next_queue_offset
        by_key = store.query_by_key("orders", "key17")
        assert [m.properties["number"] for m in by_key] == ["17"]
        assert len(store.query_by_key("orders", "shared3", max_count=200)) == 90

    expected = sorted(
        (row["queue_id"], row["queue_offset"], row["commit_log_offset"], row["body"], row["flag"])
        for row in rows
    )
    assert sorted(found) == expected


def decoded(read: QueueRead) -> list[tuple[int, int, int, str, int]]:
    columns = decode_columns(b"".join(read.chunks), read.sizes)
    messages = [columns.message(position) for position in range(read.count)]
    return [
        (
            m.queue_id,
            m.queue_offset,
            m.commit_log_offset,
            original_body(m.body, m.system_flag).hex(),
            m.flag,
        )
        for m in messages
    ]
