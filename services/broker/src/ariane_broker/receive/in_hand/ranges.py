"""Queue offsets as ranges: the form in the log, and in requests of clients.

::

    offsets   3 4 5 9 10 17
    ranges    (3, 3) (9, 2) (17, 1)        first offset and count of each, int64[n, 2]
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ariane_storage.log.records.fields import Int64s

INT64_MAX: Final = (1 << 63) - 1

Ranges: TypeAlias = NDArray[np.int64]
"""First queue offset and count of each range, int64[n, 2]."""


def ranges_of(offsets: Int64s) -> Ranges:
    """The ranges of ascending queue offsets."""
    if not len(offsets):
        return np.empty((0, 2), np.int64)
    if offsets[-1] - offsets[0] == len(offsets) - 1:
        return np.array([[offsets[0], len(offsets)]], np.int64)
    begins = np.flatnonzero(np.diff(offsets, prepend=offsets[0] - 2) != 1)
    counts = np.diff(begins, append=len(offsets))
    return np.stack((offsets[begins], counts), axis=1).astype(np.int64)


def offsets_of(ranges: Ranges) -> Int64s:
    """All queue offsets of some ranges, in their order."""
    firsts, counts = ranges[:, 0], ranges[:, 1]
    if len(ranges) == 1:
        return np.arange(firsts[0], firsts[0] + counts[0], dtype=np.int64)
    # Steps of one, except that the first of each range jumps from the end of the range before.
    total = int(counts.sum())
    starts = np.cumsum(counts) - counts
    return np.repeat(firsts - starts, counts) + np.arange(total, dtype=np.int64)


def apart(ranges: Ranges) -> Ranges:
    """The same offsets as ascending ranges that do not overlap; for any ranges of a client.

    Their ends, and the sum of their counts, are int64 that do not overflow.
    """
    if len(ranges) == 1 and ranges[0, 0] <= INT64_MAX - ranges[0, 1]:
        return ranges
    firsts = np.minimum(ranges[:, 0], INT64_MAX - 1)
    ends = firsts + np.minimum(ranges[:, 1], INT64_MAX - firsts)
    order = np.argsort(firsts, kind="stable")
    firsts, ends = firsts[order], np.maximum.accumulate(ends[order])
    begins = np.flatnonzero(np.append(True, firsts[1:] > ends[:-1]))
    lasts = np.append(begins[1:], len(firsts)) - 1
    return np.stack((firsts[begins], ends[lasts] - firsts[begins]), axis=1).astype(np.int64)


def rows_within(offsets: Int64s, ranges: Ranges) -> NDArray[np.int64]:
    """The positions of the offsets that lie in ranges; its cost does not depend on their span.

    Args:
        offsets: Ascending.
        ranges: Ascending and without overlap, as from ``apart``.

    Returns:
        Positions in ``offsets``, ascending, each once.
    """
    if len(ranges) == 1:
        first, count = ranges[0].tolist()
        return np.arange(*offsets.searchsorted((first, first + count)).tolist(), dtype=np.int64)
    begins = np.searchsorted(offsets, ranges[:, 0])
    counts = np.searchsorted(offsets, ranges[:, 0] + ranges[:, 1]) - begins
    return offsets_of(np.stack((begins, counts), axis=1).astype(np.int64))
