"""The store: reading, finding, recovering, and ten thousand queues beside sixteen.

    .venv/bin/python -m bench.store.reading [--pairs 5] [--quick]

Each row stands beside a limit that was run in turn with it: copying the same bytes for reads and
recovery, the same work on few queues for many.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

import numpy as np

from ariane_record import RecordTable
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_storage import OsDisk, Store, StoreConfig, SystemClock
from ariane_storage.index.index import Index
from bench.measure import Paired, Row, paired, program
from bench.store.append import encode_block

CONFIG = StoreConfig(
    segment_bytes=1 << 28, retention_ms=0, index_slots=500_000, index_items=2_000_000
)
BODY_BYTES = 1024
SMALL_BODY_BYTES = 128
LOOKUPS = 1000
KEYS = 1 << 18
KEYS_AT_ONCE = 1 << 13
INDEX_ITEM_BYTES = 20
QUEUE_BATCH = 16
FEW_QUEUES = 16
BATCHES_PER_RUN = 1000


@dataclass(frozen=True, slots=True)
class Filled:
    """A store with messages in it."""

    root: Path
    """Its folder."""
    messages: int
    """How many there are."""
    log_bytes: int
    """How long the commit log is."""


def numbered_block(topic: str, first: int, count: int) -> RecordTable:
    """Messages with one key and one unique id each."""
    encoder = BlockEncoder(topic, size_bytes_max=64 << 20)
    body = bytes(BODY_BYTES)
    for number in range(first, first + count):
        encoder.add(
            body,
            tag="created",
            keys=(f"key-{number:08}",),
            unique_id=f"7F0000010000000000000000{number:08X}",
            born_timestamp_ms=1_700_000_000_000,
        )
    return encoder.finish()


def fill(root: Path, messages: int, *, batch: int = 1000, queues: int = 4) -> Filled:
    """Write a store: batches go to its queues in turn."""
    with Store.open(root, CONFIG) as store:
        for number, first in enumerate(range(0, messages, batch)):
            store.append(numbered_block("bench", first, batch), number % queues)
            store.keeping.prepare_next_segment()
        return Filled(root, messages, store.max_offset)


def row(
    work: str,
    result: Paired,
    *,
    operations: int,
    unit: str,
    against: str,
    goal: float | None = None,
    **extra: float,
) -> Row:
    """A row whose figures are microseconds an operation."""
    return Row(
        work=work,
        ours=result.seconds / operations * 1e6,
        unit=unit,
        against=against,
        theirs=result.limit_seconds / operations * 1e6,
        ratio=result.ratio,
        ratio_min=result.ratio_min,
        ratio_max=result.ratio_max,
        pairs=result.pairs,
        goal=goal,
        extra=extra,
    )


def copying(byte_count: int) -> Callable[[], object]:
    """Copy so many bytes of memory that is there already."""
    source = np.ones(byte_count, np.uint8)
    target = np.ones(byte_count, np.uint8)

    def copy() -> None:
        target[:] = source

    return copy


def read_queue(store: Store, queue_id: int) -> int:
    """Read a whole queue in pulls of 1 MiB, as the broker answers them; return its bytes."""
    position, end = store.queue_bounds("bench", queue_id)
    size_bytes = 0
    while position < end:
        read = store.read_queue("bench", queue_id, position, max_count=4096, max_bytes=1 << 20)
        size_bytes += len(b"".join(read.chunks))
        position = read.next_queue_offset
    return size_bytes


def bench_reads(filled: Filled, *, pairs: int) -> Iterator[Row]:
    """Reads in order, and lookups."""
    with Store.open(filled.root, CONFIG) as store:
        size_bytes = sum(read_queue(store, queue_id) for queue_id in range(4))
        result = paired(
            lambda: [read_queue(store, queue_id) for queue_id in range(4)],
            copying(size_bytes),
            pairs=pairs,
        )
        yield row(
            "read queues in order, pulls of 1 MiB",
            result,
            operations=filled.messages,
            unit="us/record",
            against="copying the same bytes",
            **{"MB/s": size_bytes / result.seconds / 1e6},
        )

        yield from bench_lookups(store, filled, size_bytes // filled.messages, pairs=pairs)


def bench_lookups(store: Store, filled: Filled, record_bytes: int, *, pairs: int) -> Iterator[Row]:
    """One message at a time: by queue offset, by time, by key."""
    chance = random.Random(1)
    low, high = store.queue_bounds("bench", 0)
    places = [chance.randrange(low, high) for _ in range(LOOKUPS)]
    first_ms = store.store_timestamp_at(store.min_offset)
    times = [first_ms + chance.randrange(2000) for _ in range(LOOKUPS)]
    keys = [f"key-{chance.randrange(filled.messages):08}" for _ in range(LOOKUPS)]
    assert len(store.query_by_key("bench", keys[0])) == 1

    def at_random() -> None:
        for place in places:
            store.read_queue("bench", 0, place, max_count=1, max_bytes=1 << 20)

    def by_time() -> None:
        for time in times:
            store.queue_offset_at_time("bench", 0, time)

    def by_key() -> None:
        for key in keys:
            store.query_by_key("bench", key)

    result = paired(at_random, copying(record_bytes * LOOKUPS), pairs=pairs)
    yield row(
        "read one record at a random queue offset",
        result,
        operations=LOOKUPS,
        unit="us/read",
        against="copying the same bytes",
    )
    for work, lookup, unit in (
        ("find a queue offset by time", by_time, "us/lookup"),
        ("find a message by key", by_key, "us/query"),
    ):
        yield row(
            work,
            paired(lookup, at_random, pairs=pairs),
            operations=LOOKUPS,
            unit=unit,
            against="as many random reads",
        )


def bench_index(*, pairs: int) -> Row:
    """File keys: into slots and items of the index, as the broker does beside its loop."""
    chance = np.random.default_rng(1)
    hashes = chance.integers(0, 1 << 31, KEYS, np.int32)
    offsets = np.arange(KEYS, dtype=np.int64) * BODY_BYTES
    timestamps = np.full(KEYS, 1_700_000_000_000)
    steps = [slice(first, first + KEYS_AT_ONCE) for first in range(0, KEYS, KEYS_AT_ONCE)]
    with tempfile.TemporaryDirectory(prefix="ariane-bench-") as folder:
        index = Index(
            OsDisk(),
            Path(folder) / "index",
            SystemClock(),
            slots=CONFIG.index_slots,
            items=CONFIG.index_items,
        )

        def insert() -> None:
            for step in steps:
                index.add(hashes[step], offsets[step], timestamps[step])
                index.settle()

        result = paired(insert, copying(KEYS * INDEX_ITEM_BYTES), pairs=pairs)
        index.close()
    return row(
        f"file keys in the index, {KEYS_AT_ONCE:,} at once",
        result,
        operations=KEYS,
        unit="us/key",
        against="copying the items",
        **{"k keys/s": KEYS / result.seconds / 1e3},
    )


@contextmanager
def copied(filled: Filled) -> Iterator[Path]:
    """The commit log of a store alone, as after a crash that took everything derived."""
    folder = Path(tempfile.mkdtemp(prefix="ariane-bench-"))
    try:
        (folder / "commitlog").mkdir()
        for segment in (filled.root / "commitlog").iterdir():
            shutil.copy(segment, folder / "commitlog")
        (folder / "abort").write_text("1")
        yield folder
    finally:
        shutil.rmtree(folder)


def bench_recovery(filled: Filled, *, pairs: int) -> Row:
    """Rebuild everything from the commit log."""

    def recover() -> None:
        for name in ("consumequeue", "index"):
            shutil.rmtree(folder / name, ignore_errors=True)
        (folder / "checkpoint").unlink(missing_ok=True)
        (folder / "abort").write_text("1")
        Store.open(folder, CONFIG).close()

    with copied(filled) as folder:
        result = paired(recover, copying(filled.log_bytes), pairs=pairs)
    return row(
        "recover: scan the log, rebuild queues and index",
        result,
        operations=filled.messages,
        unit="us/record",
        against="copying the same bytes",
        **{"MB/s": filled.log_bytes / result.seconds / 1e6},
    )


def bench_many_queues(*, many: int, pairs: int) -> Row:
    """Append to very many queues in turn, beside sixteen.

    Short runs of both in turn: what else the machine does falls on both alike.
    """
    block = encode_block(SMALL_BODY_BYTES, QUEUE_BATCH)
    with (
        tempfile.TemporaryDirectory(prefix="ariane-bench-") as folder,
        Store.open(Path(folder) / "many", CONFIG) as of_many,
        Store.open(Path(folder) / "few", CONFIG) as of_few,
    ):
        queues_of_many, queues_of_few = cycle(range(many)), cycle(range(FEW_QUEUES))

        def append_to(store: Store, queues: Iterator[int], batches: int = BATCHES_PER_RUN) -> None:
            for queue_id in islice(queues, batches):
                store.append(block, queue_id)

        def prepare() -> None:
            of_many.keeping.prepare_next_segment()
            of_few.keeping.prepare_next_segment()

        # Every queue is there, and has grown a little, before anything is timed.
        for store, queues in ((of_many, queues_of_many), (of_few, queues_of_few)):
            append_to(store, queues, 2 * many)
            store.flush_derived()
        result = paired(
            lambda: append_to(of_many, queues_of_many),
            lambda: append_to(of_few, queues_of_few),
            pairs=pairs * 6,
            prepare=prepare,
        )
    return row(
        f"append batches of {QUEUE_BATCH} to {many:,} queues",
        result,
        operations=BATCHES_PER_RUN * block.count,
        unit="us/record",
        against=f"{FEW_QUEUES} queues",
        goal=0.9,
    )


def rows(*, pairs: int, quick: bool) -> list[Row]:
    """All rows of this benchmark."""
    pairs = min(pairs, 5)
    messages = 40_000 if quick else 400_000
    with tempfile.TemporaryDirectory(prefix="ariane-bench-") as folder:
        filled = fill(Path(folder) / "store", messages)
        measured = [*bench_reads(filled, pairs=pairs), bench_recovery(filled, pairs=min(pairs, 3))]
    measured.append(bench_index(pairs=pairs))
    measured.append(bench_many_queues(many=1000 if quick else 10_000, pairs=pairs))
    return measured


if __name__ == "__main__":
    program("store", __doc__, rows, pairs=5)
