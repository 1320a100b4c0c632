"""What the system has in memory of a file, by its descriptor (Linux)."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from itertools import accumulate, chain, repeat
from typing import Final

import numpy as np

_GAP_MAX: Final = 128 << 10
"""Ranges this near are fetched with what is between them: a disk reads on faster than it seeks."""
_PIECE_BYTES: Final = 1 << 20


class _Scratch(threading.local):
    """Where fetched bytes go: only that they were read matters."""

    def __init__(self) -> None:
        self.octets = bytearray(_PIECE_BYTES)


_SCRATCH: Final = _Scratch()


def read_in_memory(descriptor: int, positions: Sequence[int], sizes: Sequence[int]) -> bytearray:
    """Ranges of a file that are in memory, back to back; fewer bytes than asked at its end.

    Raises:
        BlockingIOError: Some of them are not.
        OSError: The file system cannot tell (EOPNOTSUPP), or the disk failed.
    """
    content = bytearray(sum(sizes))
    with memoryview(content) as view:
        ends = list(accumulate(sizes))
        pieces = map(view.__getitem__, map(slice, chain((0,), ends), ends))
        buffers = zip(pieces, strict=True)
        counts = list(map(os.preadv, repeat(descriptor), buffers, positions, repeat(os.RWF_NOWAIT)))
    missing = len(content) - sum(counts)
    if missing:
        # Where a range came in part, its file ends, or the rest is on the disk.
        known = os.fstat(descriptor).st_size
        reached = map(min, map(int.__add__, positions, sizes), repeat(known))
        if any(map(int.__lt__, map(int.__add__, positions, counts), reached)):
            raise BlockingIOError
        return content[: len(content) - missing]
    return content


def fetch(
    descriptor: int, positions: Sequence[int], sizes: Sequence[int], ahead_bytes: int
) -> None:
    """Bring ranges into memory, and have so many bytes behind them come without waiting for them.

    Raises:
        OSError: The disk cannot read some of them.
    """
    begins = np.array(positions, np.int64)
    order = np.argsort(begins, kind="stable")
    begins, ends = begins[order], (begins + np.array(sizes, np.int64))[order]
    ends = np.maximum.accumulate(ends)
    breaks = np.flatnonzero(begins[1:] > ends[:-1] + _GAP_MAX)
    firsts = begins[np.concatenate(([0], breaks + 1))].tolist()
    lasts = ends[np.concatenate((breaks, [len(ends) - 1]))].tolist()
    spans = list(zip(firsts, lasts, strict=True))
    for begin, end in spans:
        _ask(descriptor, begin, end)
    for begin, end in spans:
        _await(descriptor, begin, end)
    _ask(descriptor, lasts[-1], lasts[-1] + ahead_bytes)


def _ask(descriptor: int, begin: int, end: int) -> None:
    """Have the system read a range in its own time, as deep as the disk takes it."""
    for first in range(begin, end, _PIECE_BYTES):
        size = min(_PIECE_BYTES, end - first)
        os.posix_fadvise(descriptor, first, size, os.POSIX_FADV_WILLNEED)


def _await(descriptor: int, begin: int, end: int) -> None:
    with memoryview(_SCRATCH.octets) as room:
        while begin < end:
            count = os.preadv(descriptor, (room[: min(_PIECE_BYTES, end - begin)],), begin)
            if not count:
                break  # The file ends there.
            begin += count
