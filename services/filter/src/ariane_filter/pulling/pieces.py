"""A pull's records in pieces that a worker can hold, whatever the consumer has asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

PIECE_RECORDS_MAX: Final = 4096
PIECE_BYTES_MAX: Final = 2 << 20


def pieces(sizes: NDArray[np.int32]) -> Iterator[tuple[int, int]]:
    """Where each piece begins and ends, as places of records; none is empty.

    Args:
        sizes: Bytes of each record; one that is larger than a piece is a piece by itself.
    """
    ends = np.cumsum(sizes, dtype=np.int64)
    first = 0
    while first < len(sizes):
        begin_bytes = int(ends[first - 1]) if first else 0
        last = int(np.searchsorted(ends, begin_bytes + PIECE_BYTES_MAX, side="right"))
        last = min(max(last, first + 1), first + PIECE_RECORDS_MAX)
        yield first, last
        first = last
