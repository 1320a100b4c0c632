"""The format of a stage, the records of one call: the body of a record of the stage topic.

All numbers are little-endian. n is the number of records, k that of their keys, t the bytes of the
topic, r the bytes of the records::

     0  4  magic "ASTG"
     4  2  version, 1
     6  2  t
     8  4  n
    12  4  k
    16  4  r
    20  4  CRC-32 of the records
    24  4  1 when there are delivery times, else 0
    28  4  CRC-32 of bytes 0 to 27, and of everything from 32 on up to the records

    32             n x i64  when each record is to be delivered, in ms, 0 for at once; may be absent
                   n x i32  bytes of each record
                   n x i32  tag codes
                   n x i32  queue ids
                   k x i32  key hashes
                   n x u8   keys of each record
                   t        topic, UTF-8
                   r        the records

The query, batch and attempt are in the properties of the record, so that a scan of the log needs no
bodies.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ariane_record import RecordTable
from ariane_record.checksums.checksum import crc32
from ariane_storage.errors import RecordCorrupted
from ariane_storage.log.records.fields import Int64s

_HEADER: Final = struct.Struct("<4sHHIIIIII")
_CHECKSUM: Final = struct.Struct("<I")
_MAGIC: Final = b"ASTG"
_VERSION: Final = 1
_INT32: Final = np.dtype("<i4")
_INT64: Final = np.dtype("<i8")


@dataclass(frozen=True, slots=True)
class StagedBlock:
    """The records of one stage."""

    block: RecordTable
    """The records, with their columns."""
    queue_ids: NDArray[np.int32]
    """The queue of each: int32[count]."""
    times_ms: Int64s
    """When each is to be delivered; 0 for at once."""


def encode_stage(staged: StagedBlock) -> bytes:
    """Encode a stage."""
    block = staged.block
    topic = block.topic.encode()
    has_times = bool(staged.times_ms.any())
    pieces = (
        staged.times_ms.astype(_INT64).tobytes() if has_times else b"",
        block.sizes.astype(_INT32).tobytes(),
        block.tag_codes.astype(_INT32).tobytes(),
        staged.queue_ids.astype(_INT32).tobytes(),
        block.key_hashes.astype(_INT32).tobytes(),
        block.key_counts.astype(np.uint8).tobytes(),
        topic,
    )
    columns = b"".join(pieces)
    header = _HEADER.pack(
        *(_MAGIC, _VERSION, len(topic), block.count, len(block.key_hashes), len(block.records)),
        *(block.crc32, has_times, 0),
    )[: -_CHECKSUM.size]
    checksum = _CHECKSUM.pack(crc32(columns, crc32(header)))
    return b"".join((header, checksum, columns, block.records))


def decode_stage(body: bytes, commit_log_offset: int) -> StagedBlock:
    """The staged records of an encoded stage.

    Args:
        body: The body of the stage's record.
        commit_log_offset: The offset of that record, for errors.

    Raises:
        RecordCorrupted: They are not what was written.
    """
    if len(body) < _HEADER.size or not body.startswith(_MAGIC):
        raise RecordCorrupted(commit_log_offset, "it is no staged block")
    _, version, topic_bytes, count, key_count, record_bytes, records_crc, has_times, checksum = (
        _HEADER.unpack_from(body)
    )
    if version != _VERSION:
        raise RecordCorrupted(commit_log_offset, f"a staged block of version {version}")
    widths: tuple[tuple[np.dtype[Any], int], ...] = (
        (_INT64, count if has_times else 0),
        *((_INT32, number) for number in (count, count, count, key_count)),
        (np.dtype(np.uint8), count),
    )
    records_start = (
        _HEADER.size + sum(kind.itemsize * number for kind, number in widths) + topic_bytes
    )
    if len(body) != records_start + record_bytes:
        raise RecordCorrupted(commit_log_offset, "the lengths of a staged block do not add up")
    view = memoryview(body)
    columns_crc = crc32(
        view[_HEADER.size : records_start], crc32(view[: -_CHECKSUM.size + _HEADER.size])
    )
    if columns_crc != checksum:
        raise RecordCorrupted(
            commit_log_offset, "the columns of a staged block fail their checksum"
        )
    records = body[records_start:]
    if crc32(records) != records_crc:
        raise RecordCorrupted(
            commit_log_offset, "the records of a staged block fail their checksum"
        )
    columns, place = [], _HEADER.size
    for kind, number in widths:
        columns.append(np.frombuffer(body, kind, number, place))
        place += kind.itemsize * number
    times_ms, sizes, tag_codes, queue_ids, key_hashes, key_counts = columns
    block = RecordTable.of(
        str(view[place:records_start], "utf-8"),
        records,
        sizes=sizes,
        tag_codes=tag_codes,
        key_counts=key_counts,
        key_hashes=key_hashes,
        crc32=records_crc,
    )
    return StagedBlock(block, queue_ids, times_ms if has_times else np.zeros(count, np.int64))
