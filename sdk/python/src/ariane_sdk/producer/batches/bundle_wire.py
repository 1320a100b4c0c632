"""A bundle as bytes: a table, which says its batches by column.

A message object for each of very many tiny batches would cost more than its records do, on both
sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ariane.broker.v1.send_service_pb2 import AppendTable, StreamAppendsRequest
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
    """The parts of an AppendRecordsRequest, to be joined.

    Args:
        producer_group: The producer's group.
        queues: Where each block goes.
        blocks: What to append, in one piece.
        sequences: Where each block stands in the stream of its producer; nothing if they are not
            sequenced.
    """
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
