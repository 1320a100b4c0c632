"""Tables on the wire: very many small batches that a request has as columns.

They become the rows of a ``BlockTable``. Only if one of them is unusual, they are cut out one by
one, and each is handled as a batch of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise, repeat
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ariane.broker.v1.send_service_pb2 import AppendTable, AppendTableResult
from ariane_broker.append.batch_check import Batch
from ariane_broker.append.table_batches import TableBatches
from ariane_broker.errors.public_errors import block_corrupted
from ariane_broker.rpc.translation.wire_time import time_of
from ariane_record import ProducerSequence, RecordBlock
from ariane_record.checksums.checksum import crc32
from ariane_record.layout import ByteBuffer
from ariane_storage.log.records.fields import Int64s
from ariane_storage.writing.append import AppendedTable
from ariane_storage.writing.block_table import BlockTable

_INT32: Final = np.dtype("<i4")
_INT64: Final = np.dtype("<i8")
_DAMAGED: Final = "its checksum differs: damaged on the way"
_as_sequence: Final[Callable[[tuple[int, int, int]], ProducerSequence]] = partial(
    tuple.__new__, ProducerSequence
)


def table_batches(table: AppendTable, records: ByteBuffer) -> list[Batch] | TableBatches:
    """The batches of a table.

    Returns:
        All of them; single refused batches if the columns do not fit together.
    """
    try:
        blocks = _blocks_of(table, records)
    except ValueError as error:
        refusal = block_corrupted(-1, f"its table: {error}")
        return [Batch(None, topic, 0, refusal) for topic in table.topics]
    return TableBatches(blocks, partial(_batches_of, blocks))


def table_result(appended: AppendedTable, acknowledged_level: Any) -> AppendTableResult:
    """The result of batches that were stored as promised.

    Args:
        appended: Their offsets.
        acknowledged_level: The acknowledged level, as the contract's value.
    """
    return AppendTableResult(
        first_queue_offsets=appended.first_queue_offsets.astype(_INT64, copy=False).tobytes(),
        first_commit_log_offsets=appended.commit_log_edges[:-1]
        .astype(_INT64, copy=False)
        .tobytes(),
        acknowledged_level=acknowledged_level,
        store_time=time_of(appended.store_timestamp_ms),
    )


def _blocks_of(table: AppendTable, records: ByteBuffer) -> BlockTable:
    """Convert a table for the store.

    Raises:
        ValueError: The columns do not fit together.
    """
    topics = list(table.topics)
    count = len(topics)
    if not count:
        raise ValueError("it has no batches")
    queue_ids = _column(table.queue_ids, _INT32, "queue ids", count)
    counts = _column(table.record_counts, _INT32, "record counts", count).astype(np.int64)
    if int(counts.min()) < 1:
        raise ValueError("a batch has no records")
    edges = np.zeros(count + 1, np.int64)
    counts.cumsum(out=edges[1:])
    record_count = int(edges[-1])
    key_counts = _column(table.key_counts, np.dtype(np.uint8), "key counts", record_count)
    return BlockTable(
        topics=topics,
        queue_ids=queue_ids.tolist(),
        records=records,
        crc=table.records_crc32,
        sequences=_sequences_of(table, count),
        counts=counts,
        key_hash_counts=np.add.reduceat(key_counts, edges[:-1], dtype=np.int64),
        sizes=_column(table.record_sizes, _INT32, "record sizes", record_count),
        tag_codes=_column(table.tag_codes, _INT32, "tag codes", record_count),
        key_counts=key_counts,
        key_hashes=_column(
            table.key_hashes, _INT32, "key hashes", int(key_counts.sum(dtype=np.int64))
        ),
    )


def _sequences_of(table: AppendTable, count: int) -> Sequence[ProducerSequence | None]:
    """The numbers of the batches in their producer's streams."""
    in_use = count if table.producer_id else 0
    epochs = _column(table.producer_epochs, _INT32, "producer epochs", in_use)
    firsts = _column(table.first_sequences, _INT64, "first sequences", in_use)
    if not in_use:
        return [None] * count
    numbers = zip(repeat(table.producer_id, count), epochs.tolist(), firsts.tolist(), strict=True)
    return list(map(_as_sequence, numbers))


def _column(column: bytes, dtype: np.dtype[Any], name: str, count: int) -> NDArray[Any]:
    width = dtype.itemsize
    if len(column) != width * count:
        raise ValueError(f"{len(column)} bytes of {name}, where {count} take {width * count}")
    return np.frombuffer(column, dtype)


def _batches_of(table: BlockTable) -> list[Batch]:
    """Cut out each batch."""
    records = table.records
    rows = zip(table.topics, table.queue_ids, table.sequences, strict=True)
    rule = ""
    if int(table.sizes.min()) < 0 or not table.are_sizes_whole:
        rule = f"the sizes of its table do not add up to its {len(records)} bytes"
    elif crc32(records) != table.crc:
        rule = _DAMAGED
    if rule:
        refusal = block_corrupted(-1, rule)
        return [Batch(None, topic, queue_id, refusal, each) for topic, queue_id, each in rows]
    edges_of = zip(
        _slices(table.edges),
        _slices(_edges(table.block_sizes)),
        _slices(_edges(table.key_hash_counts)),
        strict=True,
    )
    view = memoryview(records)
    batches = []
    for (topic, queue_id, sequence), (each, piece, keys) in zip(rows, edges_of, strict=True):
        block = RecordBlock(
            topic=topic,
            records=view[piece],
            sizes=table.sizes[each],
            tag_codes=table.tag_codes[each],
            key_counts=table.key_counts[each],
            key_hashes=table.key_hashes[keys],
            crc32=crc32(view[piece]),
        )
        batches.append(Batch(block, topic, queue_id, sequence=sequence))
    return batches


def _edges(widths: Sequence[int] | Int64s) -> Int64s:
    return np.concatenate(([0], np.cumsum(widths, dtype=np.int64)))


def _slices(edges: Int64s) -> list[slice]:
    return [slice(begin, end) for begin, end in pairwise(edges.tolist())]
