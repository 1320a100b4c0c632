"""The common bits of the headers of many records, found in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_record.layout import HEADER, HEADER_BYTES

_WORDS: Final = HEADER_BYTES // 8
_unpack = Struct(">iIIiiqqiqIiqIiiqi").unpack
_NAMES: Final = HEADER.names or ()
_ROWS: Final = 64


@dataclass(frozen=True, slots=True)
class HeaderBits:
    """The bits of each header field over all records."""

    in_all: dict[str, int]
    """By name of the field: bits that every record has."""
    in_any: dict[str, int]
    """By name of the field: bits that some record has. If this is zero, so is the field of every
    record; if its sign bit is not set, no record has a negative value."""

    @classmethod
    def of(cls, headers: NDArray[np.void]) -> HeaderBits:
        """The bits of the headers of at least one record.

        Args:
            headers: ``layout.HEADER``, contiguous.
        """
        words = _words_of(headers)
        flat = words.reshape(-1)
        # Bits that change from one header to the next; all others are as in the first.
        changing = _laid_over((flat[_WORDS:] ^ flat[:-_WORDS]).reshape(-1, _WORDS))
        in_all = _unpack((words[0] & ~changing).tobytes())
        in_any = _unpack((words[0] | changing).tobytes())
        return cls(dict(zip(_NAMES, in_all, strict=True)), dict(zip(_NAMES, in_any, strict=True)))

    def is_everywhere(self, name: str, value: int) -> bool:
        """Whether a field has one value in all records."""
        return self.in_all[name] == self.in_any[name] == value


def _words_of(headers: NDArray[np.void]) -> NDArray[np.uint64]:
    return headers.view(np.uint64).reshape(-1, _WORDS)


def _laid_over(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The bits of all rows.

    numpy processes rows one at a time, and is fast with long ones: many headers become one row.
    """
    even = len(words) - len(words) % _ROWS
    if even > _ROWS:
        wide = np.bitwise_or.reduce(words[:even].reshape(-1, _ROWS * _WORDS), axis=0)
        wide = wide.reshape(_ROWS, _WORDS)
        words = np.concatenate((wide, words[even:])) if even < len(words) else wide
    bits: NDArray[np.uint64] = np.bitwise_or.reduce(words, axis=0)
    return bits
