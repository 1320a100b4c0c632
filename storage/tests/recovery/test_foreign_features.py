"""Stores of RocketMQ with features that cannot all be read are named, refused or made readable."""

import numpy as np
import pytest

from ariane_record import tag_code
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_storage.errors import StoreFormatError
from ariane_storage.queues.consume_queue_entry import ENTRY

EXTENDED = -2147483649


@pytest.fixture
def filled(bench):
    """A closed store with three messages with tags."""
    store = bench.open()
    for tag in ("red", "blue", ""):
        encoder = BlockEncoder("orders", size_bytes_max=1 << 16)
        encoder.add(b"paid", born_timestamp_ms=1, tag=tag)
        store.append(encoder.finish(), 0)
    store.close()
    return bench


def put(bench, *parts, content=b"x"):
    path = bench.root.joinpath(*parts)
    bench.disk.make_folders(path.parent)
    bench.disk.write(path, content)
    return path


def test_extended_consume_queues_are_built_again_from_the_log(filled):
    path = filled.root / "consumequeue" / "orders" / "0" / f"{0:020d}"
    content = filled.disk.read(path)
    entries = np.frombuffer(content[: 3 * ENTRY.itemsize], ENTRY).copy()
    sound = entries["tags_code"].tolist()
    entries["tags_code"] = EXTENDED
    filled.disk.write(path, entries.tobytes() + content[3 * ENTRY.itemsize :])
    extended = put(filled, "consumequeue_ext", "orders", "0", f"{0:020d}", content=b"\0\x14")
    store = filled.open()
    assert ["consumequeue_ext" in each for each in store.recovery.foreign_features] == [True]
    assert "consume queues" in store.recovery.rebuilt
    store.close()
    codes = np.frombuffer(filled.disk.read(path)[: 3 * ENTRY.itemsize], ENTRY)["tags_code"]
    assert codes.tolist() == sound == [tag_code("red"), tag_code("blue"), 0]
    assert filled.disk.size_of(extended) is None
    store = filled.open()
    assert store.recovery.foreign_features == ()
    store.close()


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (("batchconsumequeue", "bundles", "0", f"{0:020d}"), "BatchCQ.*bundles"),
        (("consumequeue", "CURRENT"), "RocksDB"),
        (("config", "topics", "CURRENT"), "RocksDB"),
    ],
)
def test_what_would_be_missing_silently_is_refused_and_nothing_is_changed(filled, place, words):
    put(filled, *place)
    before = {path: filled.disk.read(path) for path in filled.disk.paths()}
    with pytest.raises(StoreFormatError, match=words):
        filled.open()
    after = {path: filled.disk.read(path) for path in filled.disk.paths()}
    assert {path.name for path in after.keys() ^ before.keys()} <= {"lock"}
    assert all(after[path] == content for path, content in before.items() if path in after)


def test_what_is_not_served_is_told(filled):
    put(filled, "consumequeue", "%LMQ%mine", "0", f"{0:020d}", content=bytes(20))
    put(filled, "rocksdbstore", "000007.sst")
    put(filled, "batchconsumequeue", "README")
    # Who may do what, in RocketMQ 5.3 and later: nothing of messages or topics.
    put(filled, "config", "users", "CURRENT")
    put(filled, "config", "acls", "CURRENT")
    store = filled.open()
    light, timers, users = store.recovery.foreign_features
    assert "%LMQ%mine" in light
    assert "timers" in timers
    assert "config/users and config/acls" in users
    assert store.queue_bounds("orders", 0) == (0, 3)
    store.close()
