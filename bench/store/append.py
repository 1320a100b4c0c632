"""Append: microseconds a record, beside numpy copying the same bytes in the same run.

    .venv/bin/python -m bench.store.append [--pairs 9] [--quick]

What is timed is ``Store.append`` whole: the checks of the block, the one copy into the mapped
segment, the owned fields, the checksum of every record, consume-queue entries and keys for the
index. The limit is numpy copying the block into a mapped file whose pages are there already: what
nobody can beat. Pages of the store are made ready between the timed runs, as the broker does beside
its loop.

Seconds are those of the processor, not of the clock. On a shared machine others slow both down, at
random: ``at best`` are the best run of ours and the best of the limit, each on its own.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ariane_record import RecordTable
from ariane_record.testing.block_encoder import BlockEncoder, record_crcs_of
from ariane_storage import Store, StoreConfig
from bench.measure import Row, pairs_of, program

SEGMENT_BYTES = 1 << 30
BYTES_PER_ROUND = 48 << 20
RECORDS_PER_ROUND = 20_000


def encode_block(
    body_bytes: int, count: int, *, uneven: bool = False, keyed: bool = True
) -> RecordTable:
    """A block as a producer sends it: tag, one key, unique id, two properties.

    Args:
        body_bytes: Length of a body, or of the longest.
        count: Messages.
        uneven: Whether bodies differ in length.
        keyed: Whether they have a key and a unique id, which the index takes.
    """
    encoder = BlockEncoder("bench", size_bytes_max=64 << 20)
    body = bytes(range(256)) * (body_bytes // 256 + 1)
    for number in range(count):
        encoder.add(
            body[: body_bytes - number * 7 % (body_bytes // 2) if uneven else body_bytes],
            tag="created",
            keys=(f"key-{number:08}",) if keyed else (),
            unique_id=f"7F0000010000000000000000{number:08X}" if keyed else "",
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


@dataclass(frozen=True, slots=True)
class Case:
    """What is appended."""

    body_bytes: int
    """Length of a body."""
    count: int
    """Records of a block."""
    kind: str = ""
    """What is unlike the usual block; "" for nothing."""
    goal: float | None = None
    """Ratio that is aimed at, or None."""

    @property
    def work(self) -> str:
        """A name for it."""
        kind = f", {self.kind}" if self.kind else ""
        return f"append {self.body_bytes} B, batches of {self.count}{kind}"

    def block(self) -> RecordTable:
        """The block."""
        block = encode_block(
            self.body_bytes,
            self.count,
            uneven=self.kind == "uneven sizes",
            keyed=self.kind != "no keys",
        )
        return replace(block, record_crcs=None) if self.kind == "no sums sent" else block

    @property
    def born_host(self) -> tuple[str, int]:
        """Where the producer is seen."""
        return ("::1" if self.kind == "IPv6 producer" else "127.0.0.1", 4711)


BATCHES = (1, 16, 128, 1000, 4096)
GOALS = {(1024, 1000): 0.30}
CASES = (
    *(
        Case(size, count, goal=GOALS.get((size, count)))
        for size in (128, 1024, 4096)
        for count in BATCHES
    ),
    *(Case(size, 1000, kind) for kind in ("no keys", "uneven sizes") for size in (128, 1024)),
    *(Case(1024, 1000, kind) for kind in ("no sums sent", "IPv6 producer")),
)


def bench_append(case: Case, *, pairs: int) -> Row:
    """Time appends."""
    block, count = case.block(), case.count
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
                store.append(block, 0, born_host=case.born_host)

        def copy() -> None:
            for number in range(rounds):
                target[number * len(source) : (number + 1) * len(source)] = source

        measured = []
        for _ in range(pairs + 1):
            store.keeping.prepare_next_segment()
            measured.append((processor_seconds(append), processor_seconds(copy)))

    del measured[0]
    result = pairs_of(measured)
    best, best_limit = (min(column) for column in zip(*measured, strict=True))
    records = rounds * count
    return Row(
        work=case.work,
        ours=result.seconds / records * 1e6,
        unit="us/record",
        against="numpy copying the same bytes",
        theirs=result.limit_seconds / records * 1e6,
        ratio=result.ratio,
        ratio_min=result.ratio_min,
        ratio_max=result.ratio_max,
        pairs=result.pairs,
        goal=case.goal,
        extra={
            "ns/record at best": best / records * 1e9,
            "ns/record limit at best": best_limit / records * 1e9,
            "% of limit at best": best_limit / best * 100,
            "k records/s at best": records / best / 1e3,
        },
    )


def processor_seconds(work: Callable[[], object]) -> float:
    """Run a work once and tell the seconds that the processor spent on it."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def bench_encoder(*, pairs: int) -> Row:
    """What the sums of records cost the producer: a block with them beside one without."""
    count = 1000
    records = encode_block(1024, count)
    measured = []
    for _ in range(pairs):
        whole = processor_seconds(lambda: encode_block(1024, count))
        sums = processor_seconds(lambda: record_crcs_of(records.records, records.sizes))
        measured.append((whole, whole - sums))
    result = pairs_of(measured)
    return Row(
        work="encode 1024 B, batches of 1000",
        ours=result.seconds / count * 1e6,
        unit="us/record",
        against="without the sums of records",
        theirs=result.limit_seconds / count * 1e6,
        ratio=result.ratio,
        ratio_min=result.ratio_min,
        ratio_max=result.ratio_max,
        pairs=result.pairs,
    )


def rows(*, pairs: int, quick: bool) -> list[Row]:
    """All rows of this benchmark."""
    cases = [case for case in CASES if not quick or (case.body_bytes == 1024 and not case.kind)]
    return [*(bench_append(case, pairs=pairs) for case in cases), bench_encoder(pairs=pairs)]


if __name__ == "__main__":
    program("append", __doc__, rows, pairs=9)
