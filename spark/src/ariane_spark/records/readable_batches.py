"""Batches of records, some of whose bodies may be damaged.

::

    records    | 0  1  2  3 damaged  4  5 |
    fail       an error that names message 3
    null       [ 0  1  2 ]  [ 3, its body null ]  [ 4  5 ]
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ariane_record.decoding.columns import RecordColumns, decode_columns
from ariane_record.errors import RecordCorrupted
from ariane_spark.errors import MessageDamaged
from ariane_spark.records.columns import Projection
from ariane_spark.records.joined_records import QueueRecords

if TYPE_CHECKING:
    import pyarrow as pa


def batches_of(
    projection: Projection, parts: Sequence[QueueRecords], *, null_if_damaged: bool
) -> Generator[pa.RecordBatch]:
    """Messages as batches for Spark: one batch, if all their bodies can be read.

    Args:
        projection: The columns to make.
        parts: The messages, by queue; at least one part.
        null_if_damaged: Whether a body that cannot be decompressed is null; else it is an error.

    Raises:
        MessageDamaged: A body cannot be decompressed.
        RecordCorrupted: The bytes are not a record.
        CodecMissing: The library that would decompress a body is not installed.
    """
    try:
        batch = projection.batch(parts)
    except RecordCorrupted:
        shares = _shares(projection, parts, null_if_damaged=null_if_damaged)
    else:
        yield batch
        return
    for share, is_damaged in shares:
        if is_damaged:
            yield projection.batch([share], without_bodies=True)
        else:
            yield from batches_of(projection, [share], null_if_damaged=null_if_damaged)


def _shares(
    projection: Projection, parts: Sequence[QueueRecords], *, null_if_damaged: bool
) -> list[tuple[QueueRecords, bool]]:
    """Messages that make no batch together, divided; True for one whose body is damaged."""
    if len(parts) > 1:
        return [(part, False) for part in parts]
    queue, records = parts[0]
    damaged = records.damaged_bodies() if projection.reads_bodies else {}
    if not damaged and len(records) == 1:
        raise  # noqa: PLE0704 - called while the error is handled.
    if damaged and not (null_if_damaged and projection.body_may_be_null):
        row, cause = next(iter(damaged.items()))
        raise MessageDamaged(
            f"{queue} at {records.queue_offset[row]}: {cause}. To read on, with null in place of"
            " such bodies, set the option 'onDamagedBody' to 'null' (and let null be"
            " in the body of a schema of your own)"
        )
    # If none is damaged, all bodies together are too large for one batch.
    shares, begin = [], 0
    for row in (*damaged, len(records)) if damaged else (len(records) // 2, len(records)):
        if begin < row:
            shares.append((QueueRecords(queue, _rows(records, begin, row)), False))
        begin = row
        if row in damaged:
            begin = row + 1
            shares.append((QueueRecords(queue, _rows(records, row, begin)), True))
    return shares


def _rows(records: RecordColumns, begin: int, end: int) -> RecordColumns:
    """Neighbouring rows, without a copy."""
    starts = [*records.starts.tolist(), int(records.sizes.sum())]
    octets = memoryview(records.records)[starts[begin] : starts[end]]
    return decode_columns(octets, records.sizes[begin:end].astype(np.int32))
