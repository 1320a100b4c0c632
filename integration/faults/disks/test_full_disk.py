"""A disk that is full is an error to the sender: nothing dies, nothing is lost, and it passes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from unplugged_disk import why_not

from ariane_record import RecordTable
from ariane_record.decoding.columns import decode_columns
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_storage import Store, StoreConfig, StoreFull

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())

DISK_BYTES = 6 << 20
CONFIG = StoreConfig(
    segment_bytes=1 << 20,
    consume_queue_file_entries=2000,
    index_slots=64,
    index_items=4096,
    record_bytes_max=1 << 18,
    # The file system says when it is full; the ratios are tested elsewhere.
    disk_clean_ratio=1.0,
    disk_force_ratio=1.0,
    disk_refuse_ratio=1.0,
)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)], check=True
    )
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def append_until_full(store: Store, queue_id: int) -> list[bytes]:
    stored: list[bytes] = []
    while len(stored) < 100_000:
        encoder = BlockEncoder("orders", size_bytes_max=1 << 18)
        bodies = [f"{queue_id} {len(stored) + step} ".encode().ljust(1000) for step in range(10)]
        for body in bodies:
            encoder.add(body, keys=(f"k{len(stored)}",), born_timestamp_ms=1)
        try:
            store.append(encoder.finish(), queue_id)
        except StoreFull:
            return stored
        stored += bodies
    raise AssertionError("the disk never filled up")


def bodies_of(store: Store, queue_id: int) -> list[bytes]:
    position, end = store.queue_bounds("orders", queue_id)
    found: list[bytes] = []
    while position < end:
        read = store.read_queue("orders", queue_id, position, max_count=100, max_bytes=1 << 20)
        found += decode_columns(b"".join(read.chunks), read.sizes).bodies()
        position = read.next_queue_offset
    return found


def test_a_full_disk_refuses_writers_serves_readers_and_recovers(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(2 << 20))
    root = small_disk / "store"

    with Store.open(root, CONFIG) as store:
        first = append_until_full(store, 0)
        assert bodies_of(store, 0) == first
        with pytest.raises(StoreFull):
            store.append(encoded(b"one more"), 1)
        assert bodies_of(store, 0) == first

        ballast.unlink()
        second = append_until_full(store, 1)
        assert second
        assert bodies_of(store, 1) == second

    with Store.open(root, CONFIG) as store:
        assert bodies_of(store, 0) == first
        assert bodies_of(store, 1) == second


def encoded(body: bytes) -> RecordTable:
    encoder = BlockEncoder("orders", size_bytes_max=1 << 18)
    encoder.add(body.ljust(200_000), born_timestamp_ms=1)
    return encoder.finish()
