"""The checksums of records, without their last property: from their parts, and to their block's.

::

    header | body | tail: topic, properties, the last of them
      crc     crc    crc

The last property of a record is its checksum, zeros as long as the broker has not filled it in; so
its bytes are the same in all records of a block, and what they add to a sum is known beforehand.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ariane_record.checksums.checksum import crc32
from ariane_record.checksums.crc_algebra import CrcFolder, row_crcs, zero_shift, zero_unshift
from ariane_record.encoding.block import EMPTY_CRC_PROPERTY
from ariane_record.layout import CRC_MASK, CRC_PROPERTY_BYTES

_PERIOD_BYTES: Final = 0xFFFFFFFF
"""After so many zero bytes a register of CRC-32 has its first value again."""

_BODY_CRC_START: Final = 8
"""Where a header has the sum of the body."""

_PROPERTY_CRC: Final = np.uint32(crc32(EMPTY_CRC_PROPERTY))

# What the property adds, as if it had been in the register before it: so that one shift does for
# both.
_PROPERTY_BEFORE: Final = np.uint32(zero_unshift(int(_PROPERTY_CRC), CRC_PROPERTY_BYTES))


def record_crcs_of_parts(
    headers: NDArray[np.uint8],
    body_crcs: NDArray[np.uint32],
    tail_crcs: NDArray[np.uint32],
    *,
    body_bytes: NDArray[np.integer[Any]],
    tail_bytes: int | NDArray[np.integer[Any]],
) -> NDArray[np.uint32]:
    """The sums of records, out of those of their parts.

    Args:
        headers: The header of each record, a row each: uint8[count, 88], contiguous.
        body_crcs: The sum of each body, uint32[count].
        tail_crcs: The sum of the bytes behind it, as many of them as shall count.
        body_bytes: Bytes of each body.
        tail_bytes: Number of bytes behind it: one number if it is the same for all.
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
    """``RecordBlock.record_crcs`` of records that differ in bodies and ids, and nothing else.

    What two records add to their sums differs by what their bodies add, the sums of these in the
    headers, and the ids. So only the first record is gone through.

    Args:
        records: A row for each: uint8[count, size], the last property included.
        body_crcs: The sum of each body, uint32[count].
        id_crcs: The sum of each id and what follows it, up to the last property.
        tail_bytes: Bytes behind the body.
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

    To go back some bytes is to go on by so many fewer than the period of the polynomial.

    Args:
        crcs: The sums of whole records, uint32[count].
    """
    return zero_shift(crcs ^ _PROPERTY_CRC, _PERIOD_BYTES - CRC_PROPERTY_BYTES)


def block_crc(
    record_crcs: NDArray[np.uint32], ends: NDArray[np.int64], folder: CrcFolder, stride: int = 0
) -> int:
    """The CRC-32 of a block, out of ``RecordBlock.record_crcs``.

    Args:
        record_crcs: Those of its records, uint32[count].
        ends: Where each record ends.
        folder: Adds them up.
        stride: Size of all records if they have the same, else 0.
    """
    places = ends - CRC_PROPERTY_BYTES
    return folder.fold(record_crcs ^ _PROPERTY_BEFORE, places, int(ends[-1]), stride)
