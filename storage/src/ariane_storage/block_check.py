"""Whether a block of records is what it claims to be, before one byte of it is written.

The block comes from the network. Nothing in it is believed: every length is checked before it is
followed, and every column against the records. All checks are by column; the one C call per record
is the checksum of its body.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ariane_record import RecordBlock, SystemFlag
from ariane_record.checksum import crc32
from ariane_record.layout import (
    CRC_MASK,
    CRC_PROPERTY_BYTES,
    CRC_PROPERTY_PREFIX,
    HEADER_BYTES,
    MAGIC_V1,
    MAGIC_V2,
    PROPERTIES_BYTES_MAX,
    PROPERTY_VALUE_END,
    RECORD_BYTES_MIN,
    TOPIC_V1_BYTES_MAX,
)
from ariane_storage.errors import BlockRejected
from ariane_storage.fields import ByteBuffer, FieldColumn, Int64s, even_stride, headers

ALLOWED_FLAGS: Final = int(
    SystemFlag.COMPRESSED
    | SystemFlag.MULTI_TAGS
    | SystemFlag.TRANSACTION_COMMIT
    | SystemFlag.COMPRESSION_LZ4
    | SystemFlag.COMPRESSION_ZSTD
)
"""Bits that a record in a block may carry. Hosts are IPv4 here, and half or rolled-back messages
are ordinary records of their own topics."""

_PREFIX: Final = np.frombuffer(CRC_PROPERTY_PREFIX, f"V{len(CRC_PROPERTY_PREFIX)}")
_LENGTHS_WRONG: Final = "its lengths do not add up to its size"
_VALUE_END: Final = PROPERTY_VALUE_END[0]

_COPIED_BYTES_MAX: Final = 4096
"""Up to this length cutting a range out as bytes costs less than a view of it (measured: 80 ns a
range with its checksum against 125 at 260 bytes, equal at 4 KiB)."""


@dataclass(frozen=True, slots=True)
class CheckedBlock:
    """A block that is sound, and where its records lie.

    Attributes:
        starts: Byte position of each record in the block.
        ends: Where each one ends.
        stride: Size of all records if they have the same, else 0.
        has_checksums: Whether every record ends with room for its checksum.
    """

    starts: Int64s
    ends: Int64s
    stride: int
    has_checksums: bool


def check_block(
    block: RecordBlock, *, record_bytes_max: int, block_bytes_max: int, checksum: bool
) -> CheckedBlock:
    """Check a block.

    Args:
        block: Records and columns as a producer sent them.
        record_bytes_max: Largest record.
        block_bytes_max: Largest block: what a segment can take.
        checksum: Whether records without room for their checksum are refused.

    Raises:
        BlockRejected: Says what is wrong, and with which record.
    """
    records = block.records
    starts, ends = _edges(block, record_bytes_max, block_bytes_max)
    if crc32(records) != block.crc32:
        raise BlockRejected("its checksum differs: damaged on the way")
    stride = even_stride(block.sizes)
    header = headers(records, starts, stride)
    _require(header.field("size") == block.sizes, "its size is not that of its column")
    topic = block.topic.encode()
    magic = MAGIC_V2 if len(topic) > TOPIC_V1_BYTES_MAX else MAGIC_V1
    _require(header.field("magic") == magic, "wrong magic code")
    _require(header.field("system_flag") & ~ALLOWED_FLAGS == 0, "system flag not allowed")
    body_lengths = header.field("body_length").astype(np.int64)
    counted_topic = len(topic).to_bytes(2 if magic == MAGIC_V2 else 1, "big") + topic
    topic_starts = starts + HEADER_BYTES + body_lengths
    _require((body_lengths >= 0) & (topic_starts + len(counted_topic) + 2 <= ends), _LENGTHS_WRONG)
    properties_lengths = _check_lengths(records, counted_topic, topic_starts, ends)
    has_checksums = _check_reserved(records, ends, stride, properties_lengths, required=checksum)
    body_starts = starts + HEADER_BYTES
    body_sums = checksums(memoryview(records), body_starts, body_starts + body_lengths, stride)
    _require(header.field("body_crc") == body_sums & CRC_MASK, "the checksum of the body differs")
    return CheckedBlock(starts, ends, stride, has_checksums)


def checksums(
    view: memoryview, begins: Int64s, ends: Int64s, stride: int = 0
) -> NDArray[np.uint32]:
    """CRC-32 of many ranges: the one C call per record that has no vector form.

    Args:
        view: What they are ranges of.
        begins: Where each one begins, ascending.
        ends: Where each one ends.
        stride: Distance of each to the next if it is the same for all, else 0.
    """
    count = len(begins)
    length = int(ends[0] - begins[0]) if stride else 0
    if 0 < length <= _COPIED_BYTES_MAX and bool((ends - begins == length).all()):
        # Ranges of one shape: numpy cuts them out in C, which costs less than slices and views do.
        ranges = np.ndarray((count,), f"V{length}", view, int(begins[0]), (stride,)).tolist()
        return np.fromiter(map(crc32, ranges), np.uint32, count)
    edges = zip(begins.tolist(), ends.tolist(), strict=True)
    return np.fromiter([crc32(view[begin:end]) for begin, end in edges], np.uint32, count)


def _edges(
    block: RecordBlock, record_bytes_max: int, block_bytes_max: int
) -> tuple[Int64s, Int64s]:
    """Where records begin and end, once sizes and columns fit together."""
    count = block.count
    if count == 0:
        raise BlockRejected("it has no records")
    if len(block.tag_codes) != count or len(block.key_counts) != count:
        raise BlockRejected("its columns differ in length")
    if int(block.key_counts.sum(dtype=np.int64)) != len(block.key_hashes):
        raise BlockRejected("its key hashes are not as many as its key counts say")
    if len(block.key_hashes) and int(block.key_hashes.min()) < 0:
        raise BlockRejected("a key hash is negative")
    _require(block.sizes >= RECORD_BYTES_MIN, "too small for a record")
    _require(block.sizes <= record_bytes_max, f"larger than {record_bytes_max} bytes")
    ends = np.cumsum(block.sizes, dtype=np.int64)
    if int(ends[-1]) != len(block.records):
        raise BlockRejected(
            f"its sizes add up to {int(ends[-1])} bytes, but it has {len(block.records)}"
        )
    if len(block.records) > block_bytes_max:
        raise BlockRejected(f"{len(block.records)} bytes; a segment takes {block_bytes_max}")
    return ends - block.sizes, ends


def _check_lengths(
    records: ByteBuffer, counted_topic: bytes, topic_starts: Int64s, ends: Int64s
) -> Int64s:
    """Topics and properties fill the rest of each record; returns the properties' lengths."""
    topics = FieldColumn(records, f"V{len(counted_topic)}", topic_starts, 0).get()
    if topics.tobytes() != counted_topic * len(ends):
        expected = np.frombuffer(counted_topic, topics.dtype)
        _require(topics == expected, "its topic is not that of the block")
    length_places = topic_starts + len(counted_topic)
    lengths = FieldColumn(records, ">u2", length_places, 0).get().astype(np.int64)
    _require(length_places + 2 + lengths == ends, _LENGTHS_WRONG)
    _require(lengths <= PROPERTIES_BYTES_MAX, "properties larger than the format can say")
    return lengths


def _check_reserved(
    records: ByteBuffer,
    ends: Int64s,
    stride: int,
    properties_lengths: Int64s,
    *,
    required: bool,
) -> bool:
    """Whether each record ends with the checksum property; all of them do, or none."""
    has_room = properties_lengths >= CRC_PROPERTY_BYTES
    # Every record is longer than the property, so that its last bytes can be looked at anyway.
    prefix = FieldColumn(records, _PREFIX.dtype, ends - CRC_PROPERTY_BYTES, stride).get()
    last = FieldColumn(records, "u1", ends - 1, stride).get()
    reserved = has_room & (prefix == _PREFIX) & (last == _VALUE_END)
    if required:
        _require(reserved, "no room for its checksum at its end")
    if bool(reserved.all()):
        return True
    _require(~reserved, "some records have room for their checksum and some have not")
    return False


def _require(sound: NDArray[Any], reason: str) -> None:
    """Reject the block at the first record that is not sound."""
    if not sound.all():
        raise BlockRejected(reason, int(np.argmin(sound)))
