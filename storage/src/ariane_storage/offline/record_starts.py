"""Where all valid records of a store begin, in four bytes a record."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_storage.log.records.fields import Int64s

_AT_ONCE: Final = 1 << 18


class RecordStarts:
    """Commit-log offsets of records, ascending; the only thing that is held of each record.

    They are kept by segment, as bytes from the segment's begin.
    """

    def __init__(self) -> None:
        self._segments: dict[int, array[int]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def first(self) -> int:
        """The first offset, or -1."""
        return next((start + starts[0] for start, starts in self._segments.items()), -1)

    @property
    def last(self) -> int:
        """The last offset, or -1."""
        segments = reversed(self._segments.items())
        return next((start + starts[-1] for start, starts in segments), -1)

    def add(self, segment_start: int, commit_log_offsets: Int64s) -> None:
        """Add the next records, at least one, which all lie in one segment."""
        starts = self._segments.setdefault(segment_start, array("I"))
        starts.frombytes((commit_log_offsets - segment_start).astype(np.uint32).tobytes())
        self._count += len(commit_log_offsets)

    def contain(self, commit_log_offsets: Int64s) -> NDArray[np.bool_]:
        """Which of some offsets are there; they may be in any order."""
        found = np.zeros(len(commit_log_offsets), np.bool_)
        begins = np.fromiter(self._segments, np.int64, len(self._segments))
        segments = np.searchsorted(begins, commit_log_offsets, side="right") - 1
        for number in np.unique(segments[segments >= 0]).tolist():
            begin = int(begins[number])
            starts = np.frombuffer(self._segments[begin], np.uint32)
            rows = np.flatnonzero(segments == number)
            wanted = commit_log_offsets[rows] - begin
            rows, wanted = rows[wanted <= starts[-1]], wanted[wanted <= starts[-1]]
            # Of the same type as the starts: they would be copied otherwise.
            wanted = wanted.astype(np.uint32)
            found[rows] = starts[np.searchsorted(starts, wanted)] == wanted
        return found

    def missing_in(self, other: RecordStarts) -> tuple[int, int, int]:
        """How many of these offsets another store lacks, the first of them and the last."""
        count, first, last = 0, -1, -1
        for offsets in self._parts():
            gone = offsets[~other.contain(offsets)]
            if len(gone):
                first = first if count else int(gone[0])
                count, last = count + len(gone), int(gone[-1])
        return count, first, last

    def _parts(self) -> Iterator[Int64s]:
        """All offsets, many at a time."""
        for begin, starts in self._segments.items():
            of_segment = np.frombuffer(starts, np.uint32)
            for place in range(0, len(of_segment), _AT_ONCE):
                yield of_segment[place : place + _AT_ONCE].astype(np.int64) + begin
