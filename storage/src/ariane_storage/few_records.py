"""Blocks of few records, one record after the other: a step of numpy costs more than a record does.

What is accepted here and what is written is the same as by column (``block_check``, ``append``).
Whatever looks wrong or unusual is not judged here: it goes that way too, which says what it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final, Self

import numpy as np

from ariane_record import RecordBlock
from ariane_record.checksum import checksum_digits, crc32
from ariane_record.layout import (
    CRC_DIGITS,
    CRC_MASK,
    CRC_PROPERTY_BYTES,
    CRC_PROPERTY_PREFIX,
    HEADER_BYTES,
    HEADER_STRUCTS,
    PROPERTIES_BYTES_MAX,
    PROPERTY_VALUE_END,
    RECORD_BYTES_MIN,
)
from ariane_record.producer_sequence import stored_sequence
from ariane_storage.append import OwnedFields, packed_host
from ariane_storage.block_check import ALLOWED_FLAGS, BlockLimits, counted_topic, is_text
from ariane_storage.fields import FIELD_STARTS, Int64s

FEW: Final = 16
"""Up to so many records are done one by one: 5 us each (measured), against 80 us and more for what
columns cost however few the records are."""

_unpack_header = HEADER_STRUCTS[False, False].unpack_from
_pack_queue_id = Struct(">i").pack_into
_pack_offsets = Struct(">qq").pack_into
_pack_hosts = Struct(">4siq4si").pack_into
_VALUE_END: Final = PROPERTY_VALUE_END[0]
_QUEUE_ID: Final = FIELD_STARTS["queue_id"]
_OFFSETS: Final = FIELD_STARTS["queue_offset"]
_HOSTS: Final = FIELD_STARTS["born_ip"]


@dataclass(frozen=True, slots=True)
class FewRecords:
    """A block of few records that is sound.

    Attributes:
        block: The block.
        starts: Byte position of each record in it.
        record_sizes: Bytes of each.
    """

    block: RecordBlock
    starts: Int64s
    record_sizes: list[int]

    @classmethod
    def of(cls, block: RecordBlock, limits: BlockLimits) -> Self | None:
        """A block, or None if it is not one of few records, all sound and of the usual kind."""
        if block.record_crcs is not None or not 1 <= block.count <= FEW:
            return None
        records = bytes(block.records)  # No copy if they are bytes already.
        sizes = block.sizes.tolist()
        if not _are_columns_sound(block, records, sizes, limits):
            return None
        magic, topic = counted_topic(block.topic)
        starts = []
        begin = 0
        for size in sizes:
            record = records[begin : begin + size]
            if not _is_sound(record, size, magic, topic, block.forwarded):
                return None
            if begin and stored_sequence(record) is not None:
                return None
            starts.append(begin)
            begin += size
        return cls(block, np.array(starts, np.int64), sizes)

    @property
    def size_bytes(self) -> int:
        """Bytes that it takes."""
        return len(self.block.records)

    @property
    def sizes(self) -> list[int]:
        """Bytes of each record."""
        return self.record_sizes

    def place(self, view: memoryview, position: int, owned: OwnedFields) -> None:
        """Write the records and their owned fields; see ``append.PackedRecords``."""
        records = self.block.records
        view[position : position + len(records)] = records
        born_ip, store_ip = packed_host(owned.born_host), packed_host(owned.store_host)
        hosts = (born_ip, owned.born_host[1], owned.store_timestamp_ms, store_ip)
        queue_offset = owned.first_queue_offset
        commit_log_offset = owned.first_commit_log_offset
        begin = position
        for size in self.record_sizes:
            end = begin + size
            _pack_queue_id(view, begin + _QUEUE_ID, owned.queue_id)
            _pack_offsets(view, begin + _OFFSETS, queue_offset, commit_log_offset)
            _pack_hosts(view, begin + _HOSTS, *hosts, owned.store_host[1])
            checksum = crc32(view[begin : end - CRC_PROPERTY_BYTES]) & CRC_MASK
            view[end - (CRC_DIGITS + 1) : end - 1] = checksum_digits(checksum)
            begin = end
            queue_offset += 1
            commit_log_offset += size


def _are_columns_sound(
    block: RecordBlock, records: bytes, sizes: list[int], limits: BlockLimits
) -> bool:
    hashes = block.key_hashes.tolist()
    return (
        len(block.tag_codes) == len(sizes) == len(block.key_counts)
        and sum(block.key_counts.tolist()) == len(hashes)
        and min(hashes, default=0) >= 0
        and min(sizes) >= RECORD_BYTES_MIN
        and max(sizes) <= limits.record_bytes_max
        and sum(sizes) == len(records) <= limits.block_bytes_max
        and crc32(records) == block.crc32
    )


def _is_sound(
    record: bytes,
    size: int,
    magic: int,
    topic: bytes,
    forwarded: bool,
) -> bool:
    """Whether a record of the size announced, and no shorter than the shortest, is sound."""
    header = _unpack_header(record)
    body_end = HEADER_BYTES + header[16]
    topic_end = body_end + len(topic)
    properties_length = size - topic_end - 2
    return (
        header[0] == size
        and header[1] == magic
        and not header[7] & ~ALLOWED_FLAGS
        and header[8] >= 0
        and (forwarded or not (header[14] or header[15]))
        and body_end >= HEADER_BYTES
        and CRC_PROPERTY_BYTES <= properties_length <= PROPERTIES_BYTES_MAX
        and record[body_end:topic_end] == topic
        and record[topic_end : topic_end + 2] == properties_length.to_bytes(2, "big")
        and record.startswith(CRC_PROPERTY_PREFIX, size - CRC_PROPERTY_BYTES)
        and record[-1] == _VALUE_END
        and crc32(record[HEADER_BYTES:body_end]) & CRC_MASK == header[2]
        and is_text(record[topic_end + 2 :])
    )
