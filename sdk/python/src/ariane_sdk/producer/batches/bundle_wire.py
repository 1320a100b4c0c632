"""The batches of a bundle as bytes: a table, or batches side by side.

A message object for each of very many tiny batches would cost more than its records do, on both
sides: a broker that takes tables is told them by column. Another gets what ``SendBatch.to_wire``
and ``_append_wire`` say of one batch after the other; what is said by column is cut, and what is
known beforehand is put beside it::

    AppendBatch | topic, queue_id | record_sizes    | tag_codes | key_counts, key_hashes |
                  ---------------   -----------------------------------------------------
                  of its queue      tag and length: of its count; cut from the columns

                | records_crc32, sequence  | records
                  -----------------------    -------
                  rows of equal width, cut   once
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from ariane.broker.v1.send_service_pb2 import AppendBatch, AppendTable, StreamAppendsRequest
from ariane.broker.v1.send_service_pb2 import ProducerSequence as WireSequence
from ariane_record import ProducerSequence
from ariane_record.checksums.checksum import crc32 as crc32_of
from ariane_record.encoding.plain_blocks import PlainBlocks
from ariane_record.layout import ByteBuffer
from ariane_record.single.wire_fields import (
    fixed32_tag,
    length_prefix,
    length_tag,
    message_fields,
    varint,
)
from ariane_sdk.message import MessageQueue
from ariane_sdk.producer.sending.append_wire import BATCHES, RECORDS, group_part, on_wire, prefix

_TABLE: Final = length_tag(StreamAppendsRequest.TABLE_FIELD_NUMBER)
_TABLE_RECORDS: Final = length_tag(StreamAppendsRequest.TABLE_RECORDS_FIELD_NUMBER)
_SEQUENCE: Final = length_tag(AppendBatch.SEQUENCE_FIELD_NUMBER)
_SEQUENCE_NUMBERS: Final = (
    WireSequence.PRODUCER_ID_FIELD_NUMBER,
    WireSequence.PRODUCER_EPOCH_FIELD_NUMBER,
    WireSequence.FIRST_SEQUENCE_FIELD_NUMBER,
)
_CRC: Final = varint(fixed32_tag(AppendBatch.RECORDS_CRC32_FIELD_NUMBER))
_WORD_BYTES: Final = 4
_ONE_KEY: Final = b"\x01"


def table_parts(
    producer_group: str,
    queues: Sequence[MessageQueue],
    blocks: PlainBlocks,
    sequences: Sequence[ProducerSequence],
) -> list[ByteBuffer]:
    """The parts of an AppendRecordsRequest for a broker that takes tables, to be joined.

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


def bundle_parts(
    producer_group: str,
    queues: Sequence[MessageQueue],
    blocks: PlainBlocks,
    sequences: Sequence[ProducerSequence],
) -> list[ByteBuffer]:
    """The same for any broker.

    Args:
        producer_group: The producer's group.
        queues: Where each block goes.
        blocks: What to append, in a piece each.
        sequences: Where each block stands in the stream of its producer; nothing if they are not
            sequenced.
    """
    sizes, codes, hashes = map(on_wire, (blocks.sizes, blocks.tag_codes, blocks.key_hashes))
    places = b""
    if sequences:
        rows = np.array(sequences, np.int64)
        places = message_fields(_SEQUENCE, _SEQUENCE_NUMBERS, rows, b"")
    width = len(places) // len(queues)
    parts: list[ByteBuffer] = [group_part(producer_group)]
    begin = place = 0
    for queue, count, records in zip(queues, blocks.counts, blocks.records, strict=True):
        end = begin + _WORD_BYTES * count
        before_sizes, before_codes, before_hashes = _column_parts(count)
        head = b"".join(
            (
                _queue_part(queue),
                before_sizes,
                sizes[begin:end],
                before_codes,
                codes[begin:end],
                before_hashes,
                hashes[begin:end],
                _CRC,
                crc32_of(records).to_bytes(_WORD_BYTES, "little"),
                places[place : place + width],
                prefix(RECORDS, len(records)),
            )
        )
        parts += (prefix(BATCHES, len(head) + len(records)), head, records)
        begin, place = end, place + width
    return parts


@lru_cache(maxsize=1 << 14)
def _queue_part(queue: MessageQueue) -> bytes:
    """What a batch says of its queue."""
    return AppendBatch(topic=queue.topic, queue_id=queue.queue_id).SerializeToString()


@lru_cache(maxsize=1 << 10)
def _column_parts(count: int) -> tuple[bytes, bytes, bytes]:
    """What stands before sizes, tag codes and key hashes of so many records with a key each."""
    words = _WORD_BYTES * count
    key_counts = length_prefix(length_tag(AppendBatch.KEY_COUNTS_FIELD_NUMBER), count)
    return (
        length_prefix(length_tag(AppendBatch.RECORD_SIZES_FIELD_NUMBER), words),
        length_prefix(length_tag(AppendBatch.TAG_CODES_FIELD_NUMBER), words),
        key_counts
        + _ONE_KEY * count
        + length_prefix(length_tag(AppendBatch.KEY_HASHES_FIELD_NUMBER), words),
    )
