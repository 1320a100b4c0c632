"""Queue offsets as ranges: how they are kept in the log, and named by clients.

::

    offsets   3 4 5 9 10 17
    ranges    (3, 3) (9, 2) (17, 1)        first offset and count of each, int64[n, 2]
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ariane_storage.log.fields import Int64s

Ranges: TypeAlias = NDArray[np.int64]
"""First queue offset and count of each range, int64[n, 2]."""


def ranges_of(offsets: Int64s) -> Ranges:
    """The ranges that queue offsets make up; they ascend."""
    if not len(offsets):
        return np.empty((0, 2), np.int64)
    begins = np.flatnonzero(np.diff(offsets, prepend=offsets[0] - 2) != 1)
    counts = np.diff(begins, append=len(offsets))
    return np.stack((offsets[begins], counts), axis=1).astype(np.int64)


def offsets_of(ranges: Ranges) -> Int64s:
    """All queue offsets of some ranges, in their order."""
    firsts, counts = ranges[:, 0], ranges[:, 1]
    if len(ranges) == 1:
        return np.arange(firsts[0], firsts[0] + counts[0], dtype=np.int64)
    # Steps of one, but for the first of each range, which jumps there from the end of the last.
    total = int(counts.sum())
    starts = np.cumsum(counts) - counts
    return np.repeat(firsts - starts, counts) + np.arange(total, dtype=np.int64)


def rows_within(offsets: Int64s, ranges: Ranges) -> NDArray[np.int64]:
    """Which of some ascending offsets lie in ranges, however much these span.

    Args:
        offsets: Ascending.
        ranges: Any, also such that overlap.

    Returns:
        Rows of ``offsets``, ascending, each once.
    """
    begins = np.searchsorted(offsets, ranges[:, 0])
    # A range of a client may be as large as it likes; the sum must not overflow.
    lasts = ranges[:, 0] + np.minimum(ranges[:, 1], np.iinfo(np.int64).max - ranges[:, 0])
    ends = np.searchsorted(offsets, lasts)
    counts = np.maximum(ends - begins, 0)
    if len(ranges) == 1:
        return np.arange(begins[0], begins[0] + counts[0], dtype=np.int64)
    rows = offsets_of(np.stack((begins, counts), axis=1).astype(np.int64))
    return np.unique(rows)
