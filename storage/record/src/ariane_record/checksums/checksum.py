"""CRC-32 with the polynomial of zlib, computed by ISA-L.

A record takes 0.14 us instead of zlib's 0.45, and a block 50 GB/s instead of zlib's 4.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from ariane_record.layout import CRC_DIGITS, CRC_MASK, ByteBuffer

_COPIED_BYTES_MAX: Final = 768
"""Up to this length a copy of a range costs less than a view of it (measured: 75 ns a range with
its checksum against 150 at 260 bytes, equal at 700). For longer ranges a copy costs more, at 2 KB
up to three times as much in a process that allocates new memory for each batch."""

_EVEN_RUN_MIN: Final = 16
"""With fewer ranges of one length, on average, a search for runs does not pay."""

crc32 = isal_zlib.crc32
"""``crc32(buffer, value=0) -> int``: unsigned, 32 bits; ``value`` continues an earlier sum."""


def masked_crc32(buffer: ByteBuffer, value: int = 0) -> int:
    """CRC-32 without its highest bit: the form of checksums of bodies and records in the store."""
    return isal_zlib.crc32(buffer, value) & CRC_MASK


def checksum_digits(checksum: int) -> bytes:
    """The ten decimal digits of the checksum of a record, least significant first."""
    return str(checksum).zfill(CRC_DIGITS)[::-1].encode("ascii")


def range_crcs(
    view: memoryview, begins: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """CRC-32 of many ranges, by one C call for each.

    Args:
        view: The memory of the ranges.
        begins: The begin of each, ascending.
        ends: The end of each.
    """
    lengths = ends - begins
    edges = np.flatnonzero(lengths[1:] != lengths[:-1]) + 1
    if len(edges) * _EVEN_RUN_MIN > len(begins):
        return uneven_crcs(view, begins, ends)
    if not len(edges):
        return _crcs_of_one_length(view, begins, ends)
    # Batches back to back: the first record of each is longer than the others.
    runs = [0, *edges.tolist(), len(begins)]
    return np.concatenate(
        [
            _crcs_of_one_length(view, begins[first:behind], ends[first:behind])
            for first, behind in pairwise(runs)
        ]
    )


def _crcs_of_one_length(
    view: memoryview, begins: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.uint32]:
    count = len(begins)
    if count > 1:
        first, length = int(begins[0]), int(ends[0] - begins[0])
        stride = int(begins[1]) - first
        if length > 0 and bool((begins[1:] - begins[:-1] == stride).all()):
            # Ranges of one length: numpy copies them in C, for less than slices and views cost.
            if length <= _COPIED_BYTES_MAX:
                ranges = np.ndarray((count,), f"V{length}", view, first, (stride,)).tolist()
                return np.fromiter(map(crc32, ranges), np.uint32, count)
            rows = np.ndarray((count, length), np.uint8, view, first, (stride, 1))
            return np.fromiter(map(crc32, rows), np.uint32, count)
    return uneven_crcs(view, begins, ends)


def uneven_crcs(
    view: memoryview, begins: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """``range_crcs`` of ranges that are known to be uneven."""
    edges = zip(begins.tolist(), ends.tolist(), strict=True)
    return np.array([crc32(view[begin:end]) for begin, end in edges], np.uint32)
