"""Deep backlogs are sent to a replica, and only as far as they are deep."""

from types import SimpleNamespace

import pytest

from ariane_broker.queue_key import QueueKey
from ariane_broker.read.replica_hints import (
    MEMORY_LIMITS,
    ReplicaHint,
    ReplicaHints,
    memory_bytes_of,
)
from ariane_broker.replication.copies import Copies
from ariane_broker.replication.primary import Primary
from ariane_broker.replication.replica_set import BrokerWish, ReadableReplica
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_storage import Store, StoreConfig

QUEUE = QueueKey("orders", 0)
COUNT = 10


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "store", StoreConfig(segment_bytes=1 << 20))
    store.recover(("127.0.0.1", 1))
    yield store
    store.close()


@pytest.fixture
def record_bytes(store):
    """Bytes of each of ten records in one queue."""
    for number in range(COUNT):
        encoder = BlockEncoder("orders", size_bytes_max=1 << 16)
        encoder.add(b"%d" % number * 100, born_timestamp_ms=1)
        store.append(encoder.finish(), 0)
    return store.max_offset // COUNT


def hints(store, memory_bytes, *addresses):
    replicas = [ReadableReplica(address, address[0]) for address in addresses]
    return ReplicaHints(store, memory_bytes, lambda _: replicas)


def test_what_lies_before_the_share_of_memory_is_read_elsewhere(store, record_bytes):
    found = hints(store, 3 * record_bytes, "r:1")
    assert found.of(QUEUE, 0) == ReplicaHint("r:1", 7)
    assert found.of(QUEUE, 6) == ReplicaHint("r:1", 7)
    assert found.of(QUEUE, 7) is None
    assert found.of(QUEUE, COUNT) is None


def test_a_log_that_fits_into_memory_is_read_here(store, record_bytes):
    assert hints(store, COUNT * record_bytes, "r:1").of(QUEUE, 0) is None


def test_without_a_replica_that_has_it_all_is_read_here(store, record_bytes):
    assert hints(store, record_bytes).of(QUEUE, 0) is None


def test_queues_are_shared_among_replicas(store, record_bytes):
    encoder = BlockEncoder("orders", size_bytes_max=1 << 16)
    encoder.add(b"one", born_timestamp_ms=1)
    block = encoder.finish()
    for _ in range(2):
        store.append(block, 1)
    found = hints(store, 1, "r:1", "r:2")
    assert found.of(QUEUE, 0).address == "r:1"
    assert found.of(QueueKey("orders", 1), 0).address == "r:2"
    assert record_bytes > 1


def test_a_replica_in_the_zone_of_the_reader_goes_first(store, record_bytes):
    found = hints(store, record_bytes, "n:1", "s:1", "s:2")
    assert [found.of(QUEUE, 0, zone).address for zone in ("n", "s", "w", "")] == [
        *("n:1", "s:1"),
        *("n:1", "n:1"),
    ]


def test_replicas_that_are_away_behind_or_not_in_sync_are_not_named(store, record_bytes):
    copies = Copies({1, 2, 3}, 0.0, flushed=False, behind_s_max=5)
    addresses, wishes = {one: f"r:{one}" for one in range(5)}, {2: BrokerWish(zone="north")}
    reign = SimpleNamespace(replica_set=SimpleNamespace(addresses=addresses, wishes=wishes))
    primary = Primary(
        reign,
        store,
        copies,
        SimpleNamespace(),
        monotonic=lambda: 0.0,
        is_sync_flush=False,
        is_replicated=True,
        in_sync_min=1,
        on_confirmed=lambda: None,
    )
    for one, written in ((1, store.max_offset), (2, record_bytes), (4, store.max_offset)):
        copies.attached(one, f"r:{one}", 0.0).written = written
    assert primary.readable_replicas(2 * record_bytes) == [("r:1", "")]
    assert primary.readable_replicas(record_bytes) == [("r:1", ""), ("r:2", "north")]
    # A replica hands out what is confirmed, however much it has.
    store.copying.confirm_up_to(record_bytes)
    assert primary.readable_replicas(2 * record_bytes) == []


@pytest.mark.parametrize(
    ("said", "expected"),
    [({0: b"4096\n"}, 4096), ({0: b"max\n"}, 9000), ({1: b"8192\n"}, 8192), ({}, 9000)],
)
def test_a_container_says_what_memory_it_may_have(said, expected):
    def read(path):
        place = MEMORY_LIMITS.index(path)
        if place not in said:
            raise FileNotFoundError(path)
        return said[place]

    assert memory_bytes_of(SimpleNamespace(read=read), 9000) == expected
