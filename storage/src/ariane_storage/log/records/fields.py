"""Fields of many records at once: one numpy step per field instead of one statement per record.

Records lie back to back in a buffer, so their fields lie anywhere. An array whose elements start at
every single byte (a stride of one) makes any place an index: taking and setting become one fancy
index. Where all records have the same size, the stride is that size, and a plain slice does it five
times faster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from ariane_record.layout import CRC_DIGITS, HEADER

_HEADER_FIELDS: Final = cast("Mapping[str, tuple[np.dtype[Any], int]]", HEADER.fields)
FIELD_STARTS: Final = {name: field[1] for name, field in _HEADER_FIELDS.items()}
"""Byte position of each field in the header of a record with IPv4 hosts."""

Int64s = NDArray[np.int64]
ByteBuffer = bytes | bytearray | memoryview


class FieldColumn:
    """One value per record, wherever it lies in a buffer.

    Args:
        buffer: Where the records lie; writable if the values are to be set.
        dtype: Of one value.
        places: Byte position of each value, ascending; at least one, all inside the buffer.
        stride: Distance of each to the next, from the second on, if it is the same, else 0.
    """

    __slots__ = ("_first", "_index", "_values")

    def __init__(
        self, buffer: ByteBuffer, dtype: np.dtype[Any] | str, places: Int64s, stride: int
    ) -> None:
        first, shape = int(places[0]), len(places)
        self._first: NDArray[Any] | None = None
        if stride:
            self._index: Any = slice(None)
            if shape > 1 and int(places[1]) - first != stride:
                # The first record of a batch has its sequence, so only this one is longer.
                self._first = np.ndarray((1,), dtype, buffer=buffer, offset=first)
                first, shape = int(places[1]), shape - 1
        else:
            self._index = places - first if first else places
            shape = int(places[-1]) - first + 1
            stride = 1
        self._values: NDArray[Any] = np.ndarray(
            (shape,), dtype, buffer=buffer, offset=first, strides=(stride,)
        )

    def get(self) -> NDArray[Any]:
        """The values."""
        taken: NDArray[Any] = self._values[self._index]
        return taken if self._first is None else np.concatenate((self._first, taken))

    def set(self, values: Any) -> None:
        """Write the values, one for each record or one for all."""
        if self._first is not None:
            one_for_all = np.ndim(values) == 0
            self._first[:] = values if one_for_all else values[:1]
            values = values if one_for_all else values[1:]
        self._values[self._index] = values

    def field(self, name: str) -> NDArray[Any]:
        """One field of structured values."""
        taken: NDArray[Any] = self._values[name][self._index]
        if self._first is None:
            return taken
        return np.concatenate((self._first[name], taken))


def headers(buffer: ByteBuffer, starts: Int64s, stride: int) -> FieldColumn:
    """The headers of records with IPv4 hosts."""
    return FieldColumn(buffer, HEADER, starts, stride)


# Ten decimal digits, least significant first, as two groups of four and one of two.
_DIGITS: Final = np.dtype([("low", "u4"), ("middle", "u4"), ("high", "u2")])
_FOUR: Final = np.frombuffer(
    b"".join(f"{value:04d}"[::-1].encode() for value in range(10_000)), np.uint32
)
_TWO: Final = np.frombuffer(
    b"".join(f"{value:02d}"[::-1].encode() for value in range(100)), np.uint16
)


def checksum_digits(checksums: NDArray[np.uint32]) -> NDArray[np.void]:
    """The digits of many record checksums as ``V10`` values: decimal, least significant first."""
    digits = np.empty(len(checksums), _DIGITS)
    # Division and product: half the time of ``divmod``, which has no vector form.
    upper = checksums // np.uint32(10_000)
    low = checksums - upper * np.uint32(10_000)
    high = upper // np.uint32(10_000)
    middle = upper - high * np.uint32(10_000)
    digits["low"] = _FOUR.take(low)
    digits["middle"] = _FOUR.take(middle)
    digits["high"] = _TWO.take(high)
    return digits.view(f"V{CRC_DIGITS}")
