"""Comparing two writes of a batch: by their number of rows, and a sum over the contents.

The sum depends neither on the order of the rows nor on their division among tasks, because both may
differ in a repeated batch. It is the sum modulo 2**64 of a number for each row, computed from the
row's columns::

    text            CRC-32 and length, mixed to 64 bits
    several texts   the sum of their numbers (keys)
    pairs           the sum of the mixed numbers of name and value (properties)
    time            milliseconds, mixed
    row             the numbers of its columns, each mixed with the column's name, and the topic's

The id that a write adds to a row is not included. An absent value equals an empty one, as in
messages. The sum detects accidents and does not protect against forgery.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ariane_spark.records.rows import DELIVERY_COLUMN, MESSAGE_ID_PROPERTY, TopicRows

if TYPE_CHECKING:
    import pyarrow as pa

Numbers: TypeAlias = NDArray[np.uint64]

_SUM_MASK: Final = (1 << 64) - 1
_LENGTH_BITS: Final = np.uint64(32)

# The finaliser of splitmix64: each bit of a number changes about half of the result's.
_STEP: Final = np.uint64(0x9E3779B97F4A7C15)
_FACTORS: Final = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFTS: Final = (np.uint64(30), np.uint64(27), np.uint64(31))


class Contents(NamedTuple):
    """The fingerprint by which repeated writes of rows are compared."""

    row_count: int = 0
    """The number of rows."""
    total: int = 0
    """The sum, unsigned, 64 bits."""

    def plus(self, other: Contents) -> Contents:
        """The fingerprint of the rows of both."""
        return Contents(self.row_count + other.row_count, (self.total + other.total) & _SUM_MASK)


def contents_of(share: TopicRows) -> Contents:
    """The fingerprint of rows from ``RowPlan.tables``."""
    total = _mixed(np.full(len(share.table), zlib.crc32(share.topic.encode()), np.uint64))
    for name in share.table.column_names:
        column = _whole(share.table[name])
        numbers = _column(name, column)
        # A row without the column equals one with a null.
        mask = numbers != 0
        place = np.uint64(zlib.crc32(name.encode()))
        total[mask] += _mixed(numbers[mask] ^ place)
    return Contents(len(total), int(_mixed(total).sum(dtype=np.uint64)))


def _whole(column: pa.ChunkedArray) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - tasks only: planning needs no Arrow.

    array = column.combine_chunks()
    return array.chunk(0) if isinstance(array, pa.ChunkedArray) else array


def _column(name: str, column: Any) -> Numbers:
    """A number for each row; 0 for a null."""
    if name == DELIVERY_COLUMN:
        return _times(column)
    if name == "keys":
        return _sums(column, _texts(column.values))
    if name == "properties":
        return _sums(column, _pairs(column.keys, column.items))
    return _texts(column)


def _texts(array: Any) -> Numbers:
    """Numbers of texts or bytes: CRC-32 and length of each, mixed; 0 for null or empty ones."""
    import pyarrow as pa  # noqa: PLC0415 - tasks only: planning needs no Arrow.

    from ariane_record.checksums.checksum import range_crcs  # noqa: PLC0415 - the same.
    from ariane_record.encoding.columns.arrow_texts import (  # noqa: PLC0415 - it needs Arrow.
        bounds_of,
        lengths_of,
        octets_of,
    )

    if pa.types.is_string_view(array.type) or pa.types.is_binary_view(array.type):
        array = array.cast(pa.large_binary())
    bounds = bounds_of(array).astype(np.int64, copy=False)
    lengths = lengths_of(array)
    crcs = range_crcs(octets_of(array).data, bounds[:-1], bounds[:-1] + lengths)
    numbers = _mixed(crcs.astype(np.uint64) | (lengths.astype(np.uint64) << _LENGTH_BITS))
    numbers[lengths == 0] = 0
    return numbers


def _times(array: Any) -> Numbers:
    """Numbers of delivery times, with the precision of messages."""
    import pyarrow as pa  # noqa: PLC0415 - tasks only: planning needs no Arrow.
    import pyarrow.compute as pc  # noqa: PLC0415 - the same.

    millis = pc.cast(array, pa.timestamp("ms", array.type.tz), safe=False).cast(pa.int64())
    numbers = millis.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64)
    mixed: Numbers = np.where(numbers == 0, np.uint64(0), _mixed(numbers))
    return mixed


def _sums(array: pa.ListArray, numbers: Numbers) -> Numbers:
    """The sum of the numbers of each row's elements; 0 for a null."""
    starts = array.offsets.to_numpy().astype(np.int64)
    until = np.zeros(len(numbers) + 1, np.uint64)
    np.cumsum(numbers, out=until[1:])
    sums: Numbers = until[starts[1:]] - until[starts[:-1]]
    if array.null_count:
        sums[array.is_null().to_numpy(zero_copy_only=False)] = 0
    return sums


def _pairs(names: Any, values: Any) -> Numbers:
    """Numbers of properties: 0 for the id of the row, which is the only one of most rows."""
    import pyarrow.compute as pc  # noqa: PLC0415 - tasks only: planning needs no Arrow.

    counts = pc.not_equal(names, MESSAGE_ID_PROPERTY)
    flags = counts.to_numpy(zero_copy_only=False)
    numbers = np.zeros(len(names), np.uint64)
    if flags.any():
        mask = _mixed(_texts(names.filter(counts)))
        numbers[flags] = _mixed(mask ^ _texts(values.filter(counts)))
    return numbers


def _mixed(numbers: Numbers) -> Numbers:
    """Numbers with mixed bits, modulo 2**64."""
    spread = numbers + _STEP
    for factor, shift in zip(_FACTORS, _SHIFTS, strict=False):
        spread = (spread ^ (spread >> shift)) * factor
    return spread ^ (spread >> _SHIFTS[-1])
