"""A bundle on the wire, and the answer to it: tables with one row for each batch.

With very many tiny batches, one protobuf message for each would cost both sides more than the
records do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ariane.broker.v1.send_service_pb2 import (
    AppendRecordsRequest,
    AppendResult,
    AppendTable,
    AppendTableResult,
)
from ariane_record import ProducerSequence, RecordTable
from ariane_record.checksums.checksum import crc32 as crc32_of
from ariane_record.encoding.loose_block import LooseBlock
from ariane_record.encoding.plain_blocks import PlainBlocks
from ariane_record.layout import ByteBuffer
from ariane_record.single.wire_fields import length_prefix, length_tag
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer.sending.append_wire import head_parts, on_wire, pieces_of, prefix

_TABLE: Final = length_tag(AppendRecordsRequest.TABLE_FIELD_NUMBER)
_TABLE_RECORDS: Final = length_tag(AppendRecordsRequest.TABLE_RECORDS_FIELD_NUMBER)
_ONE_KEY: Final = b"\x01"


def table_parts(
    producer_group: str,
    queues: Sequence[MessageQueue],
    blocks: PlainBlocks,
    sequences: Sequence[ProducerSequence],
) -> list[ByteBuffer]:
    """Encode an AppendRecordsRequest of plain blocks, as parts to be joined."""
    table = AppendTable(
        record_counts=_int32s(blocks.counts),
        record_sizes=on_wire(blocks.sizes),
        tag_codes=on_wire(blocks.tag_codes),
        key_counts=_ONE_KEY * len(blocks.sizes),
        key_hashes=on_wire(blocks.key_hashes),
    )
    return [
        *head_parts(producer_group),
        *_table_parts(table, queues, sequences, blocks.records),
    ]


def joined_parts(
    producer_group: str,
    queues: Sequence[MessageQueue],
    blocks: Sequence[RecordTable | LooseBlock],
    sequences: Sequence[ProducerSequence],
    trace_parents: Iterable[str] = (),
) -> list[ByteBuffer]:
    """Encode an AppendRecordsRequest of small blocks without delays, as parts to be joined."""
    table = AppendTable(
        record_counts=_int32s([len(block.sizes) for block in blocks]),
        record_sizes=b"".join([on_wire(block.sizes) for block in blocks]),
        tag_codes=b"".join([on_wire(block.tag_codes) for block in blocks]),
        key_counts=b"".join([block.key_counts.tobytes() for block in blocks]),
        key_hashes=b"".join([on_wire(block.key_hashes) for block in blocks]),
    )
    records = [piece for block in blocks for piece in pieces_of(block)]
    return [
        *head_parts(producer_group, trace_parents),
        *_table_parts(table, queues, sequences, records),
    ]


def _table_parts(
    table: AppendTable,
    queues: Sequence[MessageQueue],
    sequences: Sequence[ProducerSequence],
    records: Sequence[ByteBuffer],
) -> list[ByteBuffer]:
    """Encode a request whose table gives each batch its queue; all else is common to them."""
    topics, _, queue_ids = zip(*queues, strict=True)
    table.topics.extend(topics)
    table.queue_ids = _int32s(queue_ids)
    table.records_crc32 = reduce(lambda crc, piece: crc32_of(piece, crc), records, 0)
    if sequences:
        producer_ids, epochs, firsts = zip(*sequences, strict=True)
        table.producer_id = producer_ids[0]
        table.producer_epochs = _int32s(epochs)
        table.first_sequences = np.array(firsts, "<i8").tobytes()
    head = table.SerializeToString()
    return [
        prefix(_TABLE, len(head)),
        head,
        length_prefix(_TABLE_RECORDS, sum(map(len, records))),
        *records,
    ]


def _int32s(numbers: Sequence[int]) -> bytes:
    return np.array(numbers, "<i4").tobytes()


class BundlePlaces(NamedTuple):
    """Where a broker stored the batches of a bundle.

    Attributes:
        queue_offsets: Queue offset of the first message of each batch.
        commit_log_offsets: Commit-log offset of the first record of each batch.
        level: The level that all batches reached, as the contract names it.
        store_timestamp_ms: When all batches were stored.
    """

    queue_offsets: NDArray[np.int64]
    commit_log_offsets: NDArray[np.int64]
    level: int
    store_timestamp_ms: int


def table_places(result: AppendTableResult, count: int) -> BundlePlaces:
    """Read where the batches of a table were stored.

    Raises:
        ValueError: The result counts another number of batches.
    """
    offsets, places = result.first_queue_offsets, result.first_commit_log_offsets
    queue_offsets, log_offsets = np.frombuffer(offsets, "<i8"), np.frombuffer(places, "<i8")
    if not len(queue_offsets) == len(log_offsets) == count:
        text = f"{len(queue_offsets)} queue offsets and {len(log_offsets)} commit-log offsets"
        raise ValueError(f"{text} in the answer to a table of {count} batches")
    return BundlePlaces(
        queue_offsets, log_offsets, result.acknowledged_level, result.store_time.ToMilliseconds()
    )


def table_results(result: AppendTableResult, count: int) -> list[AppendResult]:
    """Split the result of a table into one result for each row.

    Raises:
        ValueError: The result counts another number of rows.
    """
    places = table_places(result, count)
    level, time = result.acknowledged_level, result.store_time
    results = [
        AppendResult(
            first_queue_offset=queue_offset,
            first_commit_log_offset=log_offset,
            acknowledged_level=level,
            store_time=time,
        )
        for queue_offset, log_offset in zip(
            places.queue_offsets.tolist(), places.commit_log_offsets.tolist(), strict=True
        )
    ]
    for row in result.rows:
        of_row = results[row.row]
        if row.HasField("error"):
            of_row.error.CopyFrom(row.error)
        of_row.duplicate = row.duplicate
        of_row.acknowledged_level = row.acknowledged_level
        of_row.store_time.CopyFrom(row.store_time)
    return results
