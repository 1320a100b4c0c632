"""Fixtures of the store's tests: a small store on a disk that can fail, and what is in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ariane_record import RecordFields, decode_record
from ariane_storage import Store, StoreConfig
from ariane_storage.errors import QueueUnderRepair
from ariane_storage.reading.read import QueueRead
from ariane_storage.testing import FaultyDisk, FixedClock, block_of, small_config

ROOT = Path("/store")


@dataclass
class Bench:
    """A store on a faulty disk, and short ways to use it."""

    disk: FaultyDisk = field(default_factory=FaultyDisk)
    clock: FixedClock = field(default_factory=FixedClock)
    config: StoreConfig = field(default_factory=small_config)
    root: Path = ROOT

    def open(self, **options: Any) -> Store:
        return Store.open(self.root, self.config, disk=self.disk, clock=self.clock, **options)

    def reopen_after_kill(self) -> Store:
        self.disk = self.disk.kill()
        return self.open()

    def segment_path(self, start: int) -> Path:
        return self.root / "commitlog" / f"{start:020d}"


def _read_repaired(store: Store, *queue_and_offset: Any, **options: Any) -> QueueRead:
    """What a reader gets that waits for a repair; it waits once."""
    try:
        return store.read_queue(*queue_and_offset, **options)
    except QueueUnderRepair:
        assert store.repairs.needed
        assert store.keeping.repair_queues()
        return store.read_queue(*queue_and_offset, **options)


@pytest.fixture
def read_repaired() -> Callable[..., QueueRead]:
    """``Store.read_queue`` as a reader sees it that waits for a repair."""
    return _read_repaired


@pytest.fixture(scope="session")
def bench_class() -> type[Bench]:
    return Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def store(bench: Bench) -> Iterator[Store]:
    opened = bench.open()
    yield opened
    opened.close()


@pytest.fixture
def read_all() -> Callable[..., list[RecordFields]]:
    """Every message of a queue from its beginning, or from a queue offset."""

    def read(store: Store, topic: str, queue_id: int, start: int | None = None) -> list[Any]:
        low, high = store.queue_bounds(topic, queue_id)
        queue_offset = low if start is None else start
        messages = []
        while queue_offset < high:
            found = _read_repaired(
                store, topic, queue_id, queue_offset, max_count=7, max_bytes=100_000
            )
            joined, begin = b"".join(found.chunks), 0
            for size in found.sizes.tolist():
                messages.append(decode_record(joined[begin : begin + size]))
                begin += size
            assert found.next_queue_offset > queue_offset
            queue_offset = found.next_queue_offset
        return messages

    return read


@pytest.fixture
def fill() -> Callable[..., list[Any]]:
    """Append blocks of numbered messages to two topics; returns what each append said."""

    def append(store: Store, blocks: int = 12, count: int = 3, length: int = 300) -> list[Any]:
        results = []
        for number in range(blocks):
            topic, queue_id = [("flights", 0), ("flights", 1), ("delays", 0)][number % 3]
            bodies = [f"{number}.{place};".encode() * (length // 6) for place in range(count)]
            block = block_of(
                topic,
                bodies,
                tags=[["arrived", "departed"][place % 2] for place in range(count)],
                keys=[(f"N{number % 4}",)] * count,
                unique_ids=[f"U{number}-{place}" for place in range(count)],
            )
            results.append(store.append(block, queue_id))
        return results

    return append
