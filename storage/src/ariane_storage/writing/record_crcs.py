"""The checksums of records from the producer's checksums, without a call for each record.

A producer sends the CRC-32 of every record in the table, with zeros in the fields that the broker
owns. Three steps compute the final checksums from them, all by column
(``ariane_record.checksums.crc_algebra``):

1. The sums match the bytes: their total, each shifted by the bytes after its record, equals the
   CRC-32 of the whole table, which the broker has computed.
2. A record with the owned fields filled in differs from the one with zeros only in those fields, so
   its CRC differs by their bare CRC, shifted by the bytes after them.
3. Most of those fields are the same for all; only queue offset and commit-log offset vary.

The first step checks the total of the sums, not each of them: a producer that sends two wrong sums
that cancel out only damages two of its own records. See ``docs/formats.md``, checksums.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_record import RecordTable
from ariane_record.checksums.checksum import range_crcs
from ariane_record.checksums.crc_algebra import (
    CrcFolder,
    bare_crc,
    counter_crcs,
    place_tables,
    shifted,
    zero_shift,
)
from ariane_record.checksums.record_sums import block_crc
from ariane_record.layout import CRC_PROPERTY_BYTES, HEADER_BYTES
from ariane_storage.errors import BlockRejected
from ariane_storage.layout import DISK_SECTOR_BYTES
from ariane_storage.log.records.fields import FIELD_STARTS, ByteBuffer, Int64s

_QUEUE_OFFSET: Final = FIELD_STARTS["queue_offset"]
_COMMIT_LOG_OFFSET: Final = FIELD_STARTS["commit_log_offset"]
_NUMBER_BYTES: Final = 8
_FRONT_BYTES: Final = 3
_DIFFERS: Final = "its checksum is not the one that came along"


def trusted_sums(table: RecordTable) -> NDArray[np.uint32] | None:
    """The sums from which the checksums of records are made; None if these are computed.

    Of several rows they are: each has another queue.
    """
    return table.record_crcs if len(table) == 1 else None


def check_record_crcs(  # noqa: PLR0917 - the sums of one table.
    table: RecordTable,
    crcs: NDArray[np.uint32],
    starts: Int64s,
    ends: Int64s,
    stride: int,
    folder: CrcFolder,
) -> None:
    """Compare the sums of the records with that of the table, which is known to be right.

    Raises:
        BlockRejected: They do not add up; the error names the record if only one is wrong.
    """
    if block_crc(crcs, ends, folder, stride) != table.crc32:
        check_crcs_of(table.records, crcs, starts, ends, np.arange(table.count))
        raise BlockRejected("the checksums of its records do not add up to its own")


def check_crcs_of(
    records: ByteBuffer, crcs: NDArray[np.uint32], starts: Int64s, ends: Int64s, chosen: Int64s
) -> None:
    """Compare sums of single records, one call for each.

    Raises:
        BlockRejected: One differs.
    """
    covered_ends = ends[chosen] - CRC_PROPERTY_BYTES
    sums = range_crcs(memoryview(records), starts[chosen], covered_ends)
    wrong = np.flatnonzero(sums != crcs[chosen])
    if len(wrong):
        raise BlockRejected(_DIFFERS, int(chosen[wrong[0]]))


def like_holes(view: memoryview, position: int, size: int, starts: Int64s) -> Int64s:
    """Records that, with wrong sums, would look like pages that never reached the disk.

    In the unflushed end of the log, recovery treats a damaged range as such a hole if the end of a
    disk sector in it is zeros, and cuts the log before it. So for records with such a place, or
    that begin just before the end of a sector, the producer's sums must not be trusted.

    Args:
        view: A segment, which begins with a sector.
        position: The start of the table in it.
        size: Bytes of the table.
        starts: The start of each record in the table.
    """
    places_in_sector = (starts + position) & (DISK_SECTOR_BYTES - 1)
    found = np.flatnonzero(places_in_sector >= DISK_SECTOR_BYTES - _FRONT_BYTES)
    first = -position % DISK_SECTOR_BYTES
    if first < _NUMBER_BYTES:
        first += DISK_SECTOR_BYTES
    count = (size - first) // DISK_SECTOR_BYTES + 1 if size >= first else 0
    words: NDArray[np.uint64] = np.ndarray(
        (count,),
        "<u8",
        view,
        position + first - _NUMBER_BYTES if count else 0,
        (DISK_SECTOR_BYTES,),
    )
    zeros = np.flatnonzero(words == 0)
    if len(zeros):
        last_bytes = zeros * DISK_SECTOR_BYTES + (first - 1)
        found = np.concatenate((found, np.searchsorted(starts, last_bytes, "right") - 1))
    return found


def final_crcs(
    crcs: NDArray[np.uint32],
    *,
    covered: int | Int64s,
    covered_of_first: int,
    constant: bytes,
    queue_offsets: Int64s,
    commit_log_offsets: Int64s,
) -> NDArray[np.uint32]:
    """The CRCs of records once the owned fields are filled in.

    Args:
        crcs: The CRC of each with zeros in these fields.
        covered: The bytes that each CRC covers: one number if it is the same for all, except
            perhaps the first.
        covered_of_first: The bytes that the first CRC covers.
        constant: A header with the common owned fields, and zeros elsewhere.
        queue_offsets: Queue offset of each, ascending.
        commit_log_offsets: Commit-log offset of each, ascending.
    """
    owned = counter_crcs(queue_offsets, _tables(_QUEUE_OFFSET))
    owned ^= counter_crcs(commit_log_offsets, _tables(_COMMIT_LOG_OFFSET))
    owned ^= np.uint32(bare_crc(constant))
    lifted = zero_shift(owned, covered - HEADER_BYTES)
    lifted[0] = shifted(int(owned[0]), covered_of_first - HEADER_BYTES)
    return crcs ^ lifted


def _tables(place: int) -> NDArray[np.uint32]:
    return place_tables(place, place + _NUMBER_BYTES, HEADER_BYTES)
