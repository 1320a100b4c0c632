"""Blocks of few records, record by record: a step of numpy costs more than a record.

The accepted blocks and the written bytes are the same as by column (``block_check``, ``append``).
Wrong or unusual blocks are passed to that way too, which finds the fault.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from struct import Struct
from typing import Final, Self

import numpy as np

from ariane_record import RecordBlock
from ariane_record.checksums.checksum import checksum_digits, crc32
from ariane_record.control_characters import properties_hold_control_character
from ariane_record.layout import (
    CRC_DIGITS,
    CRC_MASK,
    CRC_PROPERTY_BYTES,
    CRC_PROPERTY_PREFIX,
    HEADER_BYTES,
    PROPERTIES_BYTES_MAX,
    PROPERTY_VALUE_END,
    RECORD_BYTES_MIN,
)
from ariane_record.single.counted_topic import counted_topic
from ariane_storage.log.records.fields import FIELD_STARTS, Int64s
from ariane_storage.log.records.tag_check import TAG_NAME, tag_code_of
from ariane_storage.writing.append import OwnedFields, packed_host
from ariane_storage.writing.block_check import (
    ALLOWED_FLAGS,
    BlockLimits,
    is_text,
    says_later_sequence,
)

FEW: Final = 64
"""Up to so many records are processed one by one: 2.3 us each (measured), against a fixed cost of
180 us by column."""

# The header without the broker's fields, and without the flag, which may have any value:
# size, magic, body CRC, system flag, born timestamp, attempts, half offset, body length.
_unpack_header = Struct(">iII24xiq24xiqi").unpack_from
_pack_queue_id = Struct(">i").pack_into
_pack_offsets = Struct(">qq").pack_into
_pack_hosts = Struct(">4siq4si").pack
_QUEUE_ID: Final = FIELD_STARTS["queue_id"]
_OFFSETS: Final = FIELD_STARTS["queue_offset"]
_HOSTS: Final = FIELD_STARTS["born_ip"]
_HOSTS_END: Final = FIELD_STARTS["attempts"]
_LENGTH_BYTES: Final = 2
_VALUE_END: Final = PROPERTY_VALUE_END[0]


# Never changed once made; not frozen, for that takes more than twice as long to make.
@dataclass(slots=True, eq=False)
class FewRecords:
    """A valid block of few records.

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
        """The block, or None if it has many, invalid or unusual records."""
        if block.record_crcs is not None or not 1 <= block.count <= FEW:
            return None
        records = bytes(block.records)  # No copy if they are bytes already.
        sizes = block.sizes.tolist()
        if not _are_columns_sound(block, records, sizes, limits):
            return None
        if not _are_records_sound(block, records, sizes):
            return None
        return cls(block, np.array([0, *accumulate(sizes[:-1])], np.int64), sizes)

    @property
    def size_bytes(self) -> int:
        """The bytes of all records."""
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
        stamp = owned.store_timestamp_ms
        hosts = _pack_hosts(born_ip, owned.born_host[1], stamp, store_ip, owned.store_host[1])
        queue_id, queue_offset, commit_log_offset, *_ = owned
        begin = position
        for size in self.record_sizes:
            end = begin + size
            _pack_queue_id(view, begin + _QUEUE_ID, queue_id)
            _pack_offsets(view, begin + _OFFSETS, queue_offset, commit_log_offset)
            view[begin + _HOSTS : begin + _HOSTS_END] = hosts
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


def _are_records_sound(block: RecordBlock, records: bytes, sizes: list[int]) -> bool:
    """Whether records of the announced sizes, none below the minimum, are valid."""
    magic, topic = counted_topic(block.topic)
    forwarded = block.forwarded
    width = len(topic) + _LENGTH_BYTES
    between, length_between = b"", -1
    properties = []
    begin = 0
    for size in sizes:
        end = begin + size
        header = _unpack_header(records, begin)
        said_size, said_magic, body_crc, flag, born_ms, attempts, half_offset, body_length = header
        body = begin + HEADER_BYTES
        body_end = body + body_length
        properties_start = body_end + width
        length = end - properties_start
        if (
            said_size != size
            or said_magic != magic
            or flag & ~ALLOWED_FLAGS
            or born_ms < 0
            or ((attempts or half_offset) and not forwarded)
            or body_length < 0
            or not CRC_PROPERTY_BYTES <= length <= PROPERTIES_BYTES_MAX
        ):
            return False
        if length != length_between:
            between, length_between = topic + length.to_bytes(_LENGTH_BYTES, "big"), length
        if (
            not records.startswith(between, body_end)
            or not records.startswith(CRC_PROPERTY_PREFIX, end - CRC_PROPERTY_BYTES)
            or records[end - 1] != _VALUE_END
            or crc32(records[body:body_end]) & CRC_MASK != body_crc
        ):
            return False
        properties.append(records[properties_start:end])
        begin = end
    encoded = b"".join(properties)
    # The checksum property is ASCII: no character spans two records.
    if (
        not is_text(encoded)
        or says_later_sequence(encoded)
        or (not forwarded and properties_hold_control_character(encoded))
    ):
        return False
    codes: list[int] = block.tag_codes.tolist()
    if TAG_NAME in encoded:
        return codes == list(map(tag_code_of, properties))
    return not any(codes)
