"""Append: microseconds a record, beside numpy copying the same bytes in the same run.

    .venv/bin/python bench/append.py [--pairs 9] [--quick]

What is timed is ``Store.append_block`` whole: the checks of the block, body CRCs, the one copy into
the mapped segment, the scatter of the owned fields, the checksum of every record, consume-queue
entries and keys for the index. The limit is numpy copying the block into a mapped file whose pages
are there already: what nobody can beat. Pages of the store are made ready between the timed runs,
as the broker does beside its loop.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from measure import Row, paired, table_of, write_results

from ariane_record import BlockEncoder, RecordBlock
from ariane_storage import Store, StoreConfig

SEGMENT_BYTES = 1 << 30
BYTES_PER_ROUND = 48 << 20
RECORDS_PER_ROUND = 20_000


def encode_block(body_bytes: int, count: int) -> RecordBlock:
    """A block as a producer sends it: tag, one key, unique id, two properties."""
    encoder = BlockEncoder("bench", size_bytes_max=64 << 20)
    body = bytes(range(256)) * (body_bytes // 256 + 1)
    for number in range(count):
        encoder.add(
            body[:body_bytes],
            tag="created",
            keys=(f"key-{number:08}",),
            unique_id=f"7F0000010000000000000000{number:08X}",
            properties={"origin": "JFK", "carrier": "UA"},
            born_timestamp_ms=1_700_000_000_000,
        )
    return encoder.finish()


@contextmanager
def open_store(root: Path) -> Iterator[Store]:
    """A store that is never flushed here: the disk is another benchmark's matter."""
    store = Store.open(root, StoreConfig(segment_bytes=SEGMENT_BYTES, retention_ms=0))
    try:
        yield store
    finally:
        store.close()


def bench_append(body_bytes: int, count: int, *, pairs: int, goal: float | None = None) -> Row:
    """Time appends of blocks of ``count`` records with bodies of ``body_bytes``."""
    block = encode_block(body_bytes, count)
    rounds = max(1, min(BYTES_PER_ROUND // len(block.records), max(1, RECORDS_PER_ROUND // count)))
    source = np.frombuffer(block.records, np.uint8)

    with (
        tempfile.TemporaryDirectory(prefix="ariane-bench-") as folder,
        open_store(Path(folder) / "store") as store,
    ):
        target = np.memmap(Path(folder) / "copy", np.uint8, "w+", shape=(len(source) * rounds,))
        target[:] = 1

        def append() -> None:
            for _ in range(rounds):
                store.append_block(block, 0)

        def copy() -> None:
            for number in range(rounds):
                target[number * len(source) : (number + 1) * len(source)] = source

        result = paired(append, copy, pairs=pairs, prepare=store.prepare_next_segment)

    records = rounds * count
    megabytes = rounds * len(source) / 1e6
    return Row(
        work=f"append {body_bytes} B bodies, batches of {count}",
        ours=result.seconds / records * 1e6,
        unit="us/record",
        against="numpy copying the same bytes",
        theirs=result.limit_seconds / records * 1e6,
        ratio=result.ratio,
        ratio_min=result.ratio_min,
        ratio_max=result.ratio_max,
        pairs=result.pairs,
        goal=goal,
        extra={
            "MB/s": megabytes / result.seconds,
            "limit MB/s": megabytes / result.limit_seconds,
            "k records/s": records / result.seconds / 1e3,
        },
    )


def rows(*, pairs: int, quick: bool) -> list[Row]:
    """All rows of this benchmark."""
    sizes = (1024,) if quick else (128, 1024, 4096)
    return [
        bench_append(body_bytes, count, pairs=pairs)
        for body_bytes in sizes
        for count in (1, 64, 1024)
    ]


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=9, help="pairs of runs (default 9)")
    parser.add_argument("--quick", action="store_true", help="1 KiB bodies only")
    arguments = parser.parse_args()
    measured = rows(pairs=arguments.pairs, quick=arguments.quick)
    print(table_of(measured))
    print(f"\nkept in {write_results('append', measured)}")


if __name__ == "__main__":
    main()
