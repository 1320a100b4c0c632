"""Columns in and out: nanoseconds a row, beside the encoder of messages and beside copying.

    .venv/bin/python -m bench.store.columns [--pairs 9] [--quick]

Encoding is ``MessageColumns.of`` and ``encode_columns`` of a batch as ``send_columns`` makes it,
decoding ``decode_columns`` and ``to_arrow`` of what a pull brings. Each stands beside what the same
costs message by message, and beside numpy copying the bytes of the records: what nobody can beat.
The rows of the Spark sink are those of ``RowPlan.tables``, with ids, checks and encoding.

All of it is one thread without I/O, so CPU time is what counts, which others on the machine change
little.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from ariane_record import RecordTable
from ariane_record.decoding.arrow import to_arrow
from ariane_record.decoding.columns import decode_columns
from ariane_record.encoding.columns.arrow_texts import even_binaries
from ariane_record.encoding.columns.column_encoder import encode_columns
from ariane_record.encoding.columns.message_columns import MessageColumns
from ariane_record.single.message_id import UniqueIdGenerator
from ariane_record.testing.block_encoder import BlockEncoder
from bench.measure import Paired, Row, program

NOON_MS = 1_700_000_000_000
BATCH_BYTES = 2 << 20
PAIRS = pa.map_(pa.string(), pa.string())


class Workload:
    """The same rows as arrays and as arguments of messages."""

    def __init__(self, body_bytes: int, *, rich: bool) -> None:
        count = max(1, BATCH_BYTES // (body_bytes + 160))
        bodies = np.random.default_rng(7).bytes(count * body_bytes)
        octets = np.frombuffer(bodies, np.uint8)
        self.arrays: dict[str, pa.Array] = {"body": even_binaries(octets, body_bytes)}
        """As ``MessageColumns.of`` takes them."""
        if rich:
            self.arrays["tag"] = pa.array([f"tag-{number % 16}" for number in range(count)])
            self.arrays["keys"] = pa.array([[f"key-{number:08}"] for number in range(count)])
            self.arrays["properties"] = pa.array(
                [[("origin", "JFK"), ("carrier", "UA")]] * count, PAIRS
            )
        self.messages = [
            {
                "body": row["body"],
                "tag": row.get("tag", ""),
                "keys": tuple(row.get("keys", ())),
                "properties": dict(row.get("properties", ())),
            }
            for row in pa.table(self.arrays).to_pylist()
        ]
        """As ``BlockEncoder.add`` takes them."""
        self.count = count
        self._ids = UniqueIdGenerator(lambda: NOON_MS, ip="127.0.0.1", pid=1, origin=2)

    def encode(self) -> RecordTable:
        """All rows as one block, column by column."""
        digits = self._ids.next_ids(self.count).digits
        return encode_columns(
            "bench",
            MessageColumns.of(**self.arrays),
            unique_ids=even_binaries(digits, digits.shape[1], pa.string()),
            born_timestamp_ms=NOON_MS,
        )

    def encode_messages(self) -> RecordTable:
        """The same, message by message."""
        encoder = BlockEncoder("bench", size_bytes_max=64 << 20)
        for arguments in self.messages:
            encoder.add(**arguments, unique_id=self._ids.next_id(), born_timestamp_ms=NOON_MS)
        return encoder.finish()


def cpu_seconds_of(work: Callable[[], object]) -> float:
    """Run a work once and tell the CPU seconds of this thread."""
    begin = time.thread_time()
    work()
    return time.thread_time() - begin


def paired(work: Callable[[], object], limit: Callable[[], object], *, pairs: int) -> Paired:
    """Run a work and its limit in turn, after one warm-up of each; see ``measure.paired``."""
    work()
    limit()
    measured = [(cpu_seconds_of(work), cpu_seconds_of(limit)) for _ in range(pairs)]
    ratios = [theirs / ours for ours, theirs in measured]
    return Paired(
        seconds=statistics.median(ours for ours, _ in measured),
        limit_seconds=statistics.median(theirs for _, theirs in measured),
        ratio=statistics.median(ratios),
        ratio_min=min(ratios),
        ratio_max=max(ratios),
        pairs=pairs,
    )


def bench_pair(
    work: str, ours: Callable[[], object], against: str, theirs: Callable[[], object], *,
    count: int, size_bytes: int, pairs: int,
) -> Row:  # fmt: skip
    """Time one way beside another; the ratio is how many times as fast it is."""
    result = paired(ours, theirs, pairs=pairs)
    return Row(
        work=work,
        ours=result.seconds / count * 1e9,
        unit="ns/row",
        against=against,
        theirs=result.limit_seconds / count * 1e9,
        ratio=result.ratio,
        ratio_min=result.ratio_min,
        ratio_max=result.ratio_max,
        pairs=result.pairs,
        extra={
            "M rows/s": count / result.seconds / 1e6,
            "MB/s": size_bytes / result.seconds / 1e6,
        },
    )


def bench_body_size(body_bytes: int, *, rich: bool, pairs: int) -> list[Row]:
    """Encode and decode rows of one shape."""
    workload = Workload(body_bytes, rich=rich)
    block = workload.encode()
    source = np.frombuffer(block.records, np.uint8)
    target = np.ones_like(source)
    sizes = block.sizes
    shape = f"{body_bytes} B {'with tag, key, properties' if rich else 'bodies alone'}"
    common = {"count": workload.count, "size_bytes": len(source), "pairs": pairs}
    names = ("queueOffset", "tag", "body")

    def copy() -> None:
        target[:] = source

    def decode() -> object:
        return to_arrow(decode_columns(block.records, sizes), names)

    def decode_messages() -> object:
        messages = decode_columns(block.records, sizes).iter_messages()
        return [(message.queue_offset, message.tag, message.body) for message in messages]

    return [
        bench_pair(f"encode {shape}", workload.encode, "message by message",
                   workload.encode_messages, **common),
        bench_pair(f"encode {shape}", workload.encode, "copying", copy, **common),
        bench_pair(f"decode {shape}", decode, "message by message", decode_messages, **common),
        bench_pair(f"decode {shape}", decode, "copying", copy, **common),
    ]  # fmt: skip


def bench_spark_rows(*, pairs: int) -> Row:
    """What the Spark sink does with a batch of 10,000 rows, beside the messages it once made."""
    from pyspark.sql.types import BinaryType, StringType, StructType  # noqa: PLC0415 - heavy.

    from ariane_spark.records.rows import IdentitySeed, RowPlan  # noqa: PLC0415 - the same.

    count = 10_000
    batch = pa.record_batch(
        {
            "body": even_binaries(np.random.default_rng(7).integers(
                0, 255, count * 128, dtype=np.uint8), 128),
            "tag": pa.array([f"tag-{number % 16}" for number in range(count)]),
        }
    )  # fmt: skip
    schema = StructType().add("body", BinaryType()).add("tag", StringType())
    plan, seed = RowPlan.of(schema, "bench"), IdentitySeed("query/1/0")
    unique_ids = UniqueIdGenerator(lambda: NOON_MS, ip="127.0.0.1", pid=1, origin=2)

    def by_column() -> None:
        for _, table, _ in plan.tables(batch, seed, 0):
            arrays = {
                {"messageGroup": "message_group"}.get(name, name): table[name].combine_chunks()
                for name in table.column_names
            }
            digits = unique_ids.next_ids(len(table)).digits
            encode_columns(
                "bench",
                MessageColumns.of(**arrays),
                unique_ids=even_binaries(digits, digits.shape[1], pa.string()),
                born_timestamp_ms=NOON_MS,
            )

    def by_row() -> None:
        encoder = BlockEncoder("bench", size_bytes_max=64 << 20)
        ids = seed.message_ids(0, batch["body"]).to_pylist()
        rows = zip(batch["body"].to_pylist(), batch["tag"].to_pylist(), ids, strict=True)
        for body, tag, message_id in rows:
            encoder.add(
                body,
                tag=tag,
                unique_id=unique_ids.next_id(),
                properties={"messageId": message_id},
                born_timestamp_ms=NOON_MS,
            )
        encoder.finish()

    return bench_pair(
        "Spark rows to a block, 128 B with tag", by_column, "row by row", by_row,
        count=count, size_bytes=batch.nbytes, pairs=pairs,
    )  # fmt: skip


def rows(*, pairs: int, quick: bool) -> list[Row]:
    """All rows of this benchmark."""
    shapes = [(128, False), (128, True)] if quick else [
        (128, False), (128, True), (1024, False), (1024, True), (65536, False)
    ]  # fmt: skip
    measured = [
        row for size, rich in shapes for row in bench_body_size(size, rich=rich, pairs=pairs)
    ]
    return [*measured, bench_spark_rows(pairs=pairs)]


if __name__ == "__main__":
    program("columns", __doc__, rows, pairs=9)
