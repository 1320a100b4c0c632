"""Checksums of records without their last property: from their parts, and for their block.

::

    header | body | tail: topic, properties, the last of them
      crc     crc    crc

The last property of a record is its checksum, which is zeros until the broker fills it in. So its
bytes are the same in all records of a block, and their contribution to a sum is known in advance.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ariane_record.checksums.checksum import crc32
from ariane_record.checksums.crc_algebra import CrcFolder, row_crcs, zero_shift, zero_unshift
from ariane_record.layout import CRC_MASK, CRC_PROPERTY_BYTES, EMPTY_CRC_PROPERTY

_PERIOD_BYTES: Final = 0xFFFFFFFF
"""The period of CRC-32: after so many zero bytes a register has its first value again."""

_BODY_CRC_START: Final = 8
"""The place of the body's sum in a header."""

_PROPERTY_CRC: Final = np.uint32(crc32(EMPTY_CRC_PROPERTY))

# The contribution of the property, as a change of the register before it: so that one shift
# serves both.
_PROPERTY_BEFORE: Final = np.uint32(zero_unshift(int(_PROPERTY_CRC), CRC_PROPERTY_BYTES))


def record_crcs_of_parts(
    headers: NDArray[np.uint8],
    body_crcs: NDArray[np.uint32],
    tail_crcs: NDArray[np.uint32],
    *,
    body_bytes: NDArray[np.integer[Any]],
    tail_bytes: int | NDArray[np.integer[Any]],
) -> NDArray[np.uint32]:
    """The sums of records from the sums of their parts.

    Args:
        headers: The header of each record, a row each: uint8[count, 88], contiguous.
        body_crcs: The sum of each body, uint32[count].
        tail_crcs: The sum of the bytes after it, up to the end of the sum.
        body_bytes: Bytes of each body.
        tail_bytes: Number of these bytes: one number if it is the same for all.
    """
    crcs = row_crcs(headers)
    first = int(body_bytes[0])
    even = bool((body_bytes == first).all())
    crcs = zero_shift(crcs, first if even else body_bytes) ^ body_crcs
    return zero_shift(crcs, tail_bytes) ^ tail_crcs


def even_record_crcs(
    records: NDArray[np.uint8],
    body_crcs: NDArray[np.uint32],
    id_crcs: NDArray[np.uint32],
    *,
    tail_bytes: int,
) -> NDArray[np.uint32]:
    """``RecordTable.record_crcs`` of records that differ only in bodies and ids.

    The sums of two records differ only by the contributions of the bodies, of the bodies' sums in
    the headers, and of the ids. So only the first record is read as a whole.

    Args:
        records: A row for each: uint8[count, size], the last property included.
        body_crcs: The sum of each body, uint32[count].
        id_crcs: The sum of each id and the bytes after it, up to the last property.
        tail_bytes: Bytes after the body.
    """
    length = records.shape[1] - CRC_PROPERTY_BYTES
    in_headers = (body_crcs & np.uint32(CRC_MASK)).byteswap()
    crcs = zero_shift(body_crcs, tail_bytes - CRC_PROPERTY_BYTES)
    crcs ^= zero_shift(in_headers, length - _BODY_CRC_START)
    crcs ^= id_crcs
    crcs ^= np.uint32(crc32(records[0, :length]) ^ int(crcs[0]))
    return crcs


def without_last_property(crcs: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The sums of records without their last property.

    Going back by some bytes equals going forward by the period minus these bytes.

    Args:
        crcs: The sums of whole records, uint32[count].
    """
    return zero_shift(crcs ^ _PROPERTY_CRC, _PERIOD_BYTES - CRC_PROPERTY_BYTES)


def block_crc(
    record_crcs: NDArray[np.uint32], ends: NDArray[np.int64], folder: CrcFolder, stride: int = 0
) -> int:
    """The CRC-32 of a block from ``RecordTable.record_crcs``.

    Args:
        record_crcs: The sums of its records, uint32[count].
        ends: The end of each record.
        folder: Adds the sums up.
        stride: Size of all records if they have the same, else 0.
    """
    places = ends - CRC_PROPERTY_BYTES
    return folder.fold(record_crcs ^ _PROPERTY_BEFORE, places, int(ends[-1]), stride)
