"""Append requests as bytes: Protocol Buffers encodes the small fields, and records are put beside.

Protocol Buffers would copy the records twice, into freshly mapped pages. Here they are copied once,
when all parts of a request are joined. The pieces of a loose block come together only then.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ariane.broker.v1.send_service_pb2 import (
    AppendBatch,
    AppendRecordsRequest,
)
from ariane.common.v1.message_pb2 import AcknowledgedLevel
from ariane_record import ProducerSequence, RecordTable
from ariane_record.encoding.loose_block import LooseBlock
from ariane_record.layout import ByteBuffer
from ariane_record.single.wire_fields import length_prefix, length_tag
from ariane_sdk.checks.demand import Demand
from ariane_sdk.message_queue import MessageQueue


class EncodedBatch(NamedTuple):
    """A batch on the wire.

    Attributes:
        head: An ``AppendBatch`` without its records.
        records: The records, in pieces.
        size_bytes: Bytes of all pieces.
    """

    head: bytes
    records: Sequence[ByteBuffer]
    size_bytes: int


BATCHES: Final = length_tag(AppendRecordsRequest.BATCHES_FIELD_NUMBER)
"""The tag of a batch in a request."""

RECORDS: Final = length_tag(AppendBatch.RECORDS_FIELD_NUMBER)
"""The tag of the records in a batch."""

TRACE_PARENTS: Final = length_tag(AppendRecordsRequest.TRACE_PARENTS_FIELD_NUMBER)
"""The tag of a trace context in a request."""

# Cached: most batches of many tiny ones have one of few lengths.
prefix: Final = lru_cache(maxsize=1024)(length_prefix)
"""``length_prefix``."""


def encoded_batch(
    queue: MessageQueue,
    block: RecordTable | LooseBlock,
    sequence: ProducerSequence | None,
    *,
    delay_level: int = 0,
    delivery_times_ms: bytes = b"",
    delays_ms: bytes = b"",
    demand: Demand | None = None,
) -> EncodedBatch:
    """Encode a batch.

    Args:
        queue: The queue that it goes to.
        block: The records, with the sequence.
        sequence: The batch's place in its producer's sequence.
        delay_level: The delay level of all messages; 0 for none.
        delivery_times_ms: When each message is to be delivered: int64, little-endian.
        delays_ms: How long each message waits after the broker takes it: likewise.
        demand: The level that all messages must reach.
    """
    wire = AppendBatch(
        topic=queue.topic,
        queue_id=queue.queue_id,
        record_sizes=on_wire(block.sizes),
        tag_codes=on_wire(block.tag_codes),
        key_counts=block.key_counts.tobytes(),
        key_hashes=on_wire(block.key_hashes),
        records_crc32=block.crc32,
        delay_level=delay_level,
        delivery_times_ms=delivery_times_ms,
        delays_ms=delays_ms,
    )
    if demand is not None:
        wire.required_level = cast("AcknowledgedLevel.ValueType", int(demand.level))
        wire.in_sync_min = demand.in_sync_min
    if sequence is not None:
        place = wire.sequence
        place.producer_id, place.producer_epoch, place.first_sequence = sequence
    if block.record_crcs is not None:
        wire.record_crc32s = on_wire(block.record_crcs)
    return EncodedBatch(wire.SerializeToString(), pieces_of(block), block.size_bytes)


def pieces_of(block: RecordTable | LooseBlock) -> Sequence[ByteBuffer]:
    """The records of a block, in pieces."""
    return block.pieces if isinstance(block, LooseBlock) else (block.records,)


def request_parts(
    producer_group: str, batches: Iterable[EncodedBatch], trace_parents: Iterable[str] = ()
) -> list[ByteBuffer]:
    """Encode an AppendRecordsRequest, as parts to be joined."""
    parts = head_parts(producer_group, trace_parents)
    for head, records, size_bytes in batches:
        before_records = prefix(RECORDS, size_bytes)
        length = len(head) + len(before_records) + size_bytes
        parts += (prefix(BATCHES, length), head, before_records)
        parts += records
    return parts


def head_parts(producer_group: str, trace_parents: Iterable[str] = ()) -> list[ByteBuffer]:
    """Encode the fields of a request that describe its producer."""
    parts: list[ByteBuffer] = [group_part(producer_group)]
    for trace_parent in trace_parents:
        parts += (prefix(TRACE_PARENTS, len(trace_parent)), trace_parent.encode())
    return parts


@lru_cache(maxsize=64)
def group_part(producer_group: str) -> bytes:
    """Encode the producer group; empty if there is none."""
    return AppendRecordsRequest(producer_group=producer_group).SerializeToString()


def on_wire(column: NDArray[np.int32] | NDArray[np.uint32]) -> bytes:
    """Encode a column of packed numbers, little-endian."""
    return (column.byteswap() if sys.byteorder == "big" else column).tobytes()
