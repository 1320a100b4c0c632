"""What the headers of many records have in common, found in one go over all their bits."""

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
_FEW: Final = 64


@dataclass(frozen=True, slots=True)
class HeaderBits:
    """The bits of each header field over all records.

    Attributes:
        in_all: By name of the field: bits that every record has.
        in_any: By name of the field: bits that some record has. Nothing is negative if this is
            not; all are zero if this is.
    """

    in_all: dict[str, int]
    in_any: dict[str, int]

    @classmethod
    def of(cls, headers: NDArray[np.void]) -> HeaderBits:
        """Of records, at least one.

        Args:
            headers: ``layout.HEADER``, contiguous.
        """
        words = headers.view(np.uint64).reshape(-1, _WORDS)
        first = words[0]
        differing = words ^ first
        while len(differing) > _FEW:
            # Halves laid over one another: numpy is faster down a long array than across.
            half = (len(differing) + 1) // 2
            # The halves overlap by one where their number is odd, which changes nothing.
            differing = differing[:half] | differing[-half:]
        varying = np.bitwise_or.reduce(differing, axis=0)
        in_all = _unpack((first & ~varying).tobytes())
        in_any = _unpack((first | varying).tobytes())
        return cls(dict(zip(_NAMES, in_all, strict=True)), dict(zip(_NAMES, in_any, strict=True)))

    def is_everywhere(self, name: str, value: int) -> bool:
        """Whether a field has one value in all records."""
        return self.in_all[name] == self.in_any[name] == value
