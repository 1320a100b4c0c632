"""CRC-32 as a linear function: sums of many records by column, without a call for each.

Over GF(2) the register of a CRC is a linear function of the bytes that it has processed. Let
``shift(c, d)`` be the register ``c`` after another ``d`` zero bytes. Then:

* ``crc(a + b) == shift(crc(a), len(b)) ^ crc(b)``
* two texts of one length that differ by ``x`` have CRCs that differ by the bare register of ``x``,
  which starts at zero and is not inverted at the end: ``bare(x)``
* ``bare(x)`` is the sum of the contributions of the bytes of ``x``: each is a table look-up,
  shifted by the bytes after it.

``shift`` is a multiplication by ``x**(8 * d)`` modulo the polynomial. It is computed by look-up of
the four bytes of the register, with a table for each digit of ``d`` in base 256; if a whole column
is shifted by one distance, with one table for that distance.

Source: Mark Adler, ``crc32_combine`` of zlib, which squares the matrix of one zero bit. The same in
tables: M. E. Kounavis and F. L. Berry, "A Systematic Approach to Building High Performance
Software-Based CRC Generators", 2005 (slicing).
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ariane_record.checksums.checksum import crc32
from ariane_record.checksums.row_octets import differing_places
from ariane_record.layout import ByteBuffer

Crcs = NDArray[np.uint32]

_INVERT: Final = 0xFFFFFFFF
_DIGIT_BITS: Final = 8
_DIGITS: Final = 1 << _DIGIT_BITS
_OPERATOR: Final = 4 * 256
"""Entries of the table of one shift: the result for each value of each byte of the register."""

_IDENTITY: Final = (
    np.arange(256, dtype=np.uint32) << (8 * np.arange(4, dtype=np.uint32)[:, None])
).reshape(_OPERATOR)
_KEPT_SCRATCH_BYTES_MAX: Final = 8 << 20
_LOOKED_UP_MAX: Final = 16
"""Look-ups that cost as much as one call for each text (measured: 3 ns a text and look-up)."""


def bare_crc(buffer: ByteBuffer | NDArray[np.uint8]) -> int:
    """The register after some bytes, if it starts at zero and is not inverted at the end."""
    return crc32(buffer, _INVERT) ^ _INVERT


BYTE_CRCS: Final = np.array([bare_crc(bytes((value,))) for value in range(256)], np.uint32)
"""``bare_crc`` of each single byte: the table of the classic algorithm."""


def zero_shift(crcs: Crcs, distances: int | NDArray[np.integer[Any]]) -> Crcs:
    """Registers after zero bytes.

    Args:
        crcs: The registers, uint32[n].
        distances: The number of zero bytes: one for all, or one for each; below 2**32.
    """
    if isinstance(distances, int):
        return _apply(_operator(distances), crcs)
    remaining = distances.astype(np.int64)
    level = 0
    while remaining.any():
        base = (remaining & (_DIGITS - 1)) * _OPERATOR
        crcs = _apply(_level_tables(level), crcs, base)
        remaining >>= _DIGIT_BITS
        level += 1
    return crcs


def shifted(crc: int, distance: int) -> int:
    """One register after ``distance`` zero bytes; below 2**32."""
    level = 0
    while distance:
        digit = distance & (_DIGITS - 1)
        if digit:
            table = _level_tables(level)
            begin = digit * _OPERATOR
            crc = (
                int(table[begin + (crc & 0xFF)])
                ^ int(table[begin + 256 + (crc >> 8 & 0xFF)])
                ^ int(table[begin + 512 + (crc >> 16 & 0xFF)])
                ^ int(table[begin + 768 + (crc >> 24)])
            )
        distance >>= _DIGIT_BITS
        level += 1
    return crc


def zero_unshift(crc: int, distance: int) -> int:
    """The register that becomes ``crc`` after ``distance`` zero bytes."""
    for _ in range(distance):
        # The highest bytes of the table all differ: they identify the entry that was added.
        value = int(_BYTE_OF_HIGHEST[crc >> 24])
        crc = (crc ^ int(BYTE_CRCS[value])) << 8 & _INVERT | value
    return crc


_BYTE_OF_HIGHEST: Final = np.argsort(BYTE_CRCS >> np.uint32(24)).astype(np.uint8)


def _apply(table: Crcs, crcs: Crcs, base: NDArray[np.int64] | None = None) -> Crcs:
    """Look the four bytes of each register up in the table of a shift."""
    octets = np.ascontiguousarray(crcs, "<u4").view(np.uint8)
    shifted: Crcs | None = None
    for place in range(4):
        values = octets[place::4]
        if base is None:
            part = table[place * 256 : (place + 1) * 256].take(values)
        else:
            part = table.take(base + values + place * 256)
        shifted = part if shifted is None else np.bitwise_xor(shifted, part, out=shifted)
    assert shifted is not None  # noqa: S101 - four places, always.
    return shifted


@lru_cache(maxsize=256)
def _operator(distance: int) -> Crcs:
    """The table of one distance: 4 KiB."""
    table = _IDENTITY
    level = 0
    while distance:
        digit = distance & (_DIGITS - 1)
        if digit:
            begin = digit * _OPERATOR
            table = _apply(_level_tables(level)[begin : begin + _OPERATOR], table)
        distance >>= _DIGIT_BITS
        level += 1
    return table


@cache
def _level_tables(level: int) -> Crcs:
    """The tables of all values of one digit of a distance: 1 MiB."""
    if level == 0:
        # One zero byte: the lowest byte of the register is looked up, the others move down.
        one = np.concatenate((BYTE_CRCS, _IDENTITY[256:] >> np.uint32(8)))
    else:
        last = _level_tables(level - 1)
        one = _apply(last[_OPERATOR : 2 * _OPERATOR], last[-_OPERATOR:])
    tables = np.empty((_DIGITS, _OPERATOR), np.uint32)
    tables[0] = _IDENTITY
    for digit in range(1, _DIGITS):
        tables[digit] = _apply(one, tables[digit - 1])
    return tables.reshape(-1)


@cache
def place_tables(begin: int, end: int, length: int) -> NDArray[np.uint32]:
    """The bare CRC of each value of each byte of a range.

    Args:
        begin: First byte of the range.
        end: The byte after its last.
        length: Bytes of the text.

    Returns:
        uint32[end - begin, 256], first byte first.
    """
    return np.stack([zero_shift(BYTE_CRCS, length - 1 - place) for place in range(begin, end)])


def counter_crcs(numbers: NDArray[np.int64], tables: NDArray[np.uint32]) -> Crcs:
    """The bare CRCs of big-endian numbers, all in the same place of their texts.

    Args:
        numbers: Ascending and not negative, int64[n], n at least 1. Bytes that are the same in the
            first and in the last are the same in all, and looked up once.
        tables: ``place_tables`` of the eight bytes.
    """
    first, last = int(numbers[0]), int(numbers[-1])
    octets = np.ascontiguousarray(numbers, "<i8").view(np.uint8)
    crcs: Crcs | None = None
    constant = 0
    for place in range(8):
        table = tables[7 - place]
        if crcs is not None and first >> (8 * place) == last >> (8 * place):
            constant ^= int(table[first >> (8 * place) & 0xFF])
            continue
        part = table.take(octets[place::8])
        crcs = part if crcs is None else np.bitwise_xor(crcs, part, out=crcs)
    assert crcs is not None  # noqa: S101 - the lowest byte is always looked up.
    crcs ^= np.uint32(constant)
    return crcs


def row_crcs(rows: NDArray[np.uint8]) -> Crcs:
    """CRC-32 of texts of one length; by look-ups if they differ in few places.

    Args:
        rows: The texts, uint8[n, length], contiguous, n at least 1.
    """
    count, length = rows.shape
    places = differing_places(rows)
    if len(places) > _LOOKED_UP_MAX:
        return np.fromiter(map(crc32, rows.view(f"V{length}").ravel().tolist()), np.uint32, count)
    first = rows[0]
    crcs = np.full(count, crc32(first.tobytes()), np.uint32)
    for place in places:
        crcs ^= _place_table(length - 1 - place).take(rows[:, place] ^ first[place])
    return crcs


@lru_cache(maxsize=4096)
def _place_table(distance: int) -> Crcs:
    """The bare CRC of each value of a byte that is followed by a number of others: 1 KiB."""
    return zero_shift(BYTE_CRCS, distance)


class CrcFolder:
    """Adds up shifted CRCs at the speed of one CRC over as many bytes. Not for several threads.

    A register that is written over four zero bytes of a text changes the CRC exactly as if it had
    been the register at that place. So the sum of ``shift(crcs[i], length - places[i])`` is the
    bare CRC of ``length`` zeros with the CRCs written at their places: one call at 50 GB/s.
    """

    __slots__ = ("_zeros",)

    def __init__(self) -> None:
        self._zeros = np.zeros(0, np.uint8)

    def fold(self, crcs: Crcs, places: NDArray[np.int64], length: int, stride: int = 0) -> int:
        """The sum of all ``shift(crcs[i], length - places[i])``.

        Args:
            crcs: Registers, uint32[n], n at least 1.
            places: The place of each, ascending and at least four bytes apart; four bytes fit
                after the last one.
            length: Bytes of the whole.
            stride: Distance from place to place if it is the same for all, else 0.
        """
        zeros = self._zeros
        if len(zeros) < length:
            zeros = np.zeros(length, np.uint8)
            if length <= _KEPT_SCRATCH_BYTES_MAX:
                self._zeros = zeros
        if stride:
            over: NDArray[np.uint32] = np.ndarray(
                (len(places),), "<u4", zeros.data, int(places[0]), (stride,)
            )
            where: slice | NDArray[np.int64] = slice(None)
        else:
            over = np.ndarray((length - 3,), "<u4", zeros.data, 0, (1,))
            where = places
        try:
            over[where] = crcs
            return bare_crc(zeros[:length])
        finally:
            over[where] = 0
