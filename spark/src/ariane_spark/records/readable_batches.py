"""Batches of records, some of whose bodies may be damaged.

::

    records    | 0  1  2  3 damaged  4  5 |
    fail       an error that names message 3
    null       [ 0  1  2 ]  [ 3, its body null ]  [ 4  5 ]
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import numpy as np

from ariane_record.decoding.columns import RecordColumns, decode_columns
from ariane_record.errors import RecordCorrupted
from ariane_sdk import MessageQueue
from ariane_spark.errors import MessageDamaged
from ariane_spark.records.columns import Projection

if TYPE_CHECKING:
    import pyarrow as pa


def batches_of(
    projection: Projection, records: RecordColumns, queue: MessageQueue, *, null_if_damaged: bool
) -> Generator[pa.RecordBatch]:
    """Messages of one queue as batches for Spark.

    Args:
        projection: The columns to make.
        records: The messages.
        queue: Their queue.
        null_if_damaged: Whether a body that cannot be decompressed is null; else it is an error.

    Raises:
        MessageDamaged: A body cannot be decompressed.
        RecordCorrupted: The bytes are not a record.
        CodecMissing: The library that would decompress a body is not installed.
    """
    try:
        batch = projection.batch(records, queue)
    except RecordCorrupted:
        damaged = records.damaged_bodies() if projection.reads_bodies else {}
        if not damaged and len(records) == 1:
            raise
    else:
        yield batch
        return
    if damaged and not (null_if_damaged and projection.body_may_be_null):
        row, cause = next(iter(damaged.items()))
        raise MessageDamaged(
            f"{queue} at {records.queue_offset[row]}: {cause}. To read on, with null in place of"
            " such bodies, set the option 'onDamagedBody' to 'null' (and let null be"
            " in the body of a schema of your own)"
        )
    # If none is damaged, all bodies together are too large for one batch.
    begin = 0
    for row in (*damaged, len(records)) if damaged else (len(records) // 2, len(records)):
        if begin < row:
            some = _rows(records, begin, row)
            yield from batches_of(projection, some, queue, null_if_damaged=null_if_damaged)
        begin = row
        if row in damaged:
            begin = row + 1
            yield projection.batch(_rows(records, row, begin), queue, without_bodies=True)


def _rows(records: RecordColumns, begin: int, end: int) -> RecordColumns:
    """Neighbouring rows, without a copy."""
    starts = [*records.starts.tolist(), int(records.sizes.sum())]
    octets = memoryview(records.records)[starts[begin] : starts[end]]
    return decode_columns(octets, records.sizes[begin:end].astype(np.int32))
