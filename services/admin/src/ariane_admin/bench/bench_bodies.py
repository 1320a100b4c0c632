"""Bodies of measurements: numbered, with a moment, and known again."""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

_STAMP: Final = struct.Struct("<qq")
"""Number of the message, nanoseconds from which its time counts."""

SIZE_MIN: Final = _STAMP.size


class BenchBodies:
    """Makes the bodies of one measurement, and checks off those that come back.

    Args:
        count: How many there are.
        size_bytes: Of each, at least `SIZE_MIN`.
        copies: How often each is to come: once for each group.
    """

    def __init__(self, count: int, size_bytes: int, copies: int = 1) -> None:
        self.count = count
        self.size_bytes = size_bytes
        self._filling = bytes((place * 31 + 7) & 0xFF for place in range(size_bytes - _STAMP.size))
        self._copies = copies
        self._seen = np.zeros(count, np.int32)
        self.altered_count = 0
        self.seen_count = 0
        self.first_took_ns: NDArray[np.int64] = np.full(count, -1, np.int64)
        """How long after its moment each came first; -1 of those that did not."""

    def body(self, number: int, moment_ns: int = 0) -> bytes:
        """The body of one message."""
        return _STAMP.pack(number, moment_ns) + self._filling

    def check(self, body: bytes | memoryview, at_ns: int = 0) -> None:
        """A message came back."""
        self.seen_count += 1
        number, moment_ns = _STAMP.unpack_from(body)
        if not 0 <= number < self.count or bytes(body[_STAMP.size :]) != self._filling:
            self.altered_count += 1
            return
        if not self._seen[number]:
            self.first_took_ns[number] = at_ns - moment_ns
        self._seen[number] += 1

    @property
    def missing_count(self) -> int:
        """Deliveries that did not come."""
        return int(np.maximum(self._copies - self._seen, 0).sum())

    @property
    def repeated_count(self) -> int:
        """Deliveries beyond one for each group: allowed, and told."""
        return int(np.maximum(self._seen - self._copies, 0).sum())
