"""Distinguishes segments of the log from other files with a segment's name.

::

    commitlog/00000000000000000000    |
    commitlog/00000000000000008192    | one run: each begins where the one before it ends
    commitlog/00000000000000016384    |
                                        a gap: a segment is missing, or the next file is foreign
    commitlog/00000000000000032768    another run
    commitlog/00000000000000032769    no multiple of the segments' length: foreign

Appending to a log that takes a foreign file for a segment loses records, since segments are found
by their begin. So a run behind a gap counts only if it shows where it belongs: it holds a valid
record, or the end of the log that the checkpoint knows. After a stop that end is certain, and
behind it only one prepared segment of zeros belongs to the log. If the log goes on there all the
same, or begins behind it, the checkpoint is an older one, and the log ends somewhere behind.

Foreign files are renamed, and reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

import numpy as np

from ariane_record.layout import BLANK_SIZE_MIN_BYTES, MAGIC_BLANK
from ariane_storage.disk.disk import Disk
from ariane_storage.errors import StoreFormatError
from ariane_storage.log.checkpoint import Checkpoint
from ariane_storage.log.record_search import (
    WINDOW_BYTES,
    find_record,
    record_at,
    unpack_front,
)
from ariane_storage.log.segment import Segment, segment_name, segment_starts

_FOREIGN: Final = ".foreign"


@dataclass(frozen=True, slots=True)
class SegmentFiles:
    """Files in ``commitlog`` with a segment's name."""

    starts: tuple[int, ...]
    """First bytes of the segments of the log, ascending."""
    foreign: tuple[int, ...]
    """First bytes by the names of foreign files, ascending."""


def find_segments(
    disk: Disk,
    folder: Path,
    segment_bytes: int,
    checkpoint: Checkpoint | None,
    *,
    crashed: bool,
) -> SegmentFiles:
    """Distinguish the segments of a log from foreign files; changes nothing.

    Args:
        disk: The disk of the files.
        folder: ``commitlog`` of a store.
        segment_bytes: Length of a segment.
        checkpoint: The durable state, or None.
        crashed: Whether the previous run ended without a stop: the log may reach beyond the
            checkpoint.

    Raises:
        StoreFormatError: A file holds records of this log under a name that is no segment's.
    """
    files = _Files(disk, folder, segment_bytes)
    starts = segment_starts(disk, folder)
    aligned = [start for start in starts if start % segment_bytes == 0]
    for start in set(starts).difference(aligned):
        if files.has_record(start):
            raise StoreFormatError(
                files.path(start),
                f"holds records, but segments of {segment_bytes} bytes begin at multiples of that: "
                "give it its name, or move it out of the folder",
            )
    log_end = checkpoint.flushed_offset if checkpoint is not None else None
    stopped_at = None if crashed or files.go_on_behind(log_end, aligned) else log_end
    runs = list(_runs(aligned, segment_bytes))
    if len(runs) > 1:
        kept = [run for run in runs if files.belongs(run, log_end, stopped_at)]
        runs = kept or (runs[:1] if log_end is None else [])
    own = [start for run in runs for start in run]
    if stopped_at is not None:
        behind = [start for start in own if start > stopped_at]
        first = next((start for start in behind if not files.is_zero(start)), None)
        own = [start for start in own if first is None or start < first]
    return SegmentFiles(tuple(own), tuple(start for start in starts if start not in set(own)))


def set_aside(disk: Disk, folder: Path, starts: tuple[int, ...]) -> tuple[str, ...]:
    """Rename foreign files, durably; returns the new names.

    Raises:
        OSError: The disk failed.
    """
    names = []
    taken = set(disk.names(folder))
    for start in starts:
        name = next(other for other in _other_names(start) if other not in taken)
        disk.rename(folder / segment_name(start), folder / name)
        taken.add(name)
        names.append(name)
    if names:
        disk.sync(folders=[folder])
    return tuple(names)


def _other_names(start: int) -> Iterator[str]:
    yield segment_name(start) + _FOREIGN
    for number in count(2):
        yield f"{segment_name(start)}{_FOREIGN}.{number}"


def _runs(starts: list[int], segment_bytes: int) -> Iterator[list[int]]:
    """The starts of contiguous files."""
    run: list[int] = []
    for start in starts:
        if run and start != run[-1] + segment_bytes:
            yield run
            run = []
        run.append(start)
    if run:
        yield run


@dataclass(frozen=True, slots=True)
class _Files:
    """Files that may be segments, and their contents."""

    disk: Disk
    folder: Path
    segment_bytes: int

    def path(self, start: int) -> Path:
        return self.folder / segment_name(start)

    def belongs(self, run: list[int], log_end: int | None, stopped_at: int | None) -> bool:
        """Whether a run of files belongs to the log."""
        if stopped_at is not None and run[0] > stopped_at:
            return False
        if log_end is not None and run[0] <= log_end <= run[-1] + self.segment_bytes:
            return True
        return any(map(self.has_record, run))

    def go_on_behind(self, log_end: int | None, starts: list[int]) -> bool:
        """Whether the log continues at the place where it should end, by some files in order.

        It does if a record or filler is there; or if nothing is left up to there, and records
        behind.
        """
        if log_end is None or not starts:
            return False
        if starts[0] > log_end:
            return any(map(self.has_record, starts))
        position = log_end % self.segment_bytes
        if log_end - position not in starts:
            return False
        with closing(self._segment(log_end - position)) as segment:
            front = segment.window(position, BLANK_SIZE_MIN_BYTES).content
            filler = len(front) == BLANK_SIZE_MIN_BYTES and unpack_front(front) == (
                self.segment_bytes - position,
                MAGIC_BLANK,
            )
            return filler or record_at(segment, position) is not None

    def has_record(self, start: int) -> bool:
        """Whether a file holds a valid record of its place in the log."""
        with closing(self._segment(start)) as segment:
            return find_record(segment, 0) is not None

    def is_zero(self, start: int) -> bool:
        """Whether a file holds only zeros, as far as it is readable."""
        with closing(self._segment(start)) as segment:
            for begin, end in segment.file().written_ranges(0):
                for position in range(begin, min(end, segment.length), WINDOW_BYTES):
                    content = segment.window(position, min(WINDOW_BYTES, end - position)).content
                    if np.frombuffer(content, np.uint8).any():
                        return False
        return True

    def _segment(self, start: int) -> Segment:
        path = self.path(start)
        return Segment(self.disk, path, start=start, size=self.segment_bytes, writable=False)
