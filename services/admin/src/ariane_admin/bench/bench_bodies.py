"""Bodies of measurements: with a number and a time, and recognised when they return."""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

_STAMP: Final = struct.Struct("<qq")
"""Number of the message, and the nanoseconds from which its time counts."""

SIZE_MIN: Final = _STAMP.size


class BenchBodies:
    """Makes the bodies of one measurement, and checks the ones that return.

    Args:
        count: The number of bodies.
        size_bytes: The size of each, at least `SIZE_MIN`.
        copies: The expected deliveries of each: one for each group.
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
        """The delay of each first delivery after its time; -1 for missing ones."""

    def body(self, number: int, moment_ns: int = 0) -> bytes:
        """The body of one message."""
        return _STAMP.pack(number, moment_ns) + self._filling

    def check(self, body: bytes | memoryview, at_ns: int = 0) -> None:
        """Check off a message that has returned."""
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
        """The number of missing deliveries."""
        return int(np.maximum(self._copies - self._seen, 0).sum())

    @property
    def repeated_count(self) -> int:
        """The number of deliveries beyond one for each group: allowed, and reported."""
        return int(np.maximum(self._seen - self._copies, 0).sum())
