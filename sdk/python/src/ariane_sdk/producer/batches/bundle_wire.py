"""A bundle as bytes, and the answer to it: tables, which say the batches by column.

A message object for each of very many tiny batches would cost more than its records do, on both
sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ariane.broker.v1.send_service_pb2 import (
    AppendTable,
    AppendTableResult,
    StreamAppendsRequest,
)
from ariane_record import ProducerSequence
from ariane_record.checksums.checksum import crc32 as crc32_of
from ariane_record.encoding.plain_blocks import PlainBlocks
from ariane_record.layout import ByteBuffer
from ariane_record.single.wire_fields import length_prefix, length_tag
from ariane_sdk.message import MessageQueue
from ariane_sdk.producer.sending.append_wire import group_part, on_wire, prefix

_TABLE: Final = length_tag(StreamAppendsRequest.TABLE_FIELD_NUMBER)
_TABLE_RECORDS: Final = length_tag(StreamAppendsRequest.TABLE_RECORDS_FIELD_NUMBER)
_ONE_KEY: Final = b"\x01"


def table_parts(
    producer_group: str,
    queues: Sequence[MessageQueue],
    blocks: PlainBlocks,
    sequences: Sequence[ProducerSequence],
) -> list[ByteBuffer]:
    """The parts of an AppendRecordsRequest, to be joined."""
    (records,) = blocks.records
    topics, _, queue_ids = zip(*queues, strict=True)
    table = AppendTable(
        topics=topics,
        queue_ids=_int32s(queue_ids),
        record_counts=_int32s(blocks.counts),
        record_sizes=on_wire(blocks.sizes),
        tag_codes=on_wire(blocks.tag_codes),
        key_counts=_ONE_KEY * len(blocks.sizes),
        key_hashes=on_wire(blocks.key_hashes),
        records_crc32=crc32_of(records),
    )
    if sequences:
        producer_ids, epochs, firsts = zip(*sequences, strict=True)
        table.producer_id = producer_ids[0]
        table.producer_epochs = _int32s(epochs)
        table.first_sequences = np.array(firsts, "<i8").tobytes()
    head = table.SerializeToString()
    return [
        group_part(producer_group),
        prefix(_TABLE, len(head)),
        head,
        length_prefix(_TABLE_RECORDS, len(records)),
        records,
    ]


def _int32s(numbers: Sequence[int]) -> bytes:
    return np.array(numbers, "<i4").tobytes()


class BundlePlaces(NamedTuple):
    """What a broker says of the batches of a bundle.

    Attributes:
        queue_offsets: Queue offset of the first message of each.
        commit_log_offsets: Where the first record of each starts.
        level: How safe all are, as the contract names it.
        store_timestamp_ms: When all were stored.
    """

    queue_offsets: NDArray[np.int64]
    commit_log_offsets: NDArray[np.int64]
    level: int
    store_timestamp_ms: int


def table_places(result: AppendTableResult, count: int) -> BundlePlaces:
    """What the result of a table says.

    Raises:
        ValueError: It is of another number of batches.
    """
    offsets, places = result.first_queue_offsets, result.first_commit_log_offsets
    queue_offsets, log_offsets = np.frombuffer(offsets, "<i8"), np.frombuffer(places, "<i8")
    if not len(queue_offsets) == len(log_offsets) == count:
        text = f"{len(queue_offsets)} queue offsets and {len(log_offsets)} commit-log offsets"
        raise ValueError(f"{text} in the answer to a table of {count} batches")
    return BundlePlaces(
        queue_offsets, log_offsets, result.acknowledged_level, result.store_time.ToMilliseconds()
    )
