"""The commit log: one sequence of bytes over segments of fixed length, and the only truth.

All other offsets are measured against these, which are in this order::

    min_offset          flushed_offset      write_offset
    |                   |                   |
    v                   v                   v
    +--------+ +--------+ +-----------------+ +-------------+
    | segment| | segment| | records | zeros | | prepared    |
    +--------+ +--------+ +-----------------+ +-------------+

One thread appends. Another may flush, and a third prepare the next segment.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from ariane_record.layout import BLANK_SIZE_MIN_BYTES
from ariane_storage.disk.disk import Disk, is_exhausted
from ariane_storage.errors import StoreFormatError, StoreFull
from ariane_storage.log.segment import Segment, segment_name

_SEGMENTS_OPEN_MAX: Final = 64
_WRITTEN_AT_ONCE: Final = 1 << 20


class CommitLog:
    """The segments of a store and the positions in them."""

    def __init__(
        self,
        disk: Disk,
        folder: Path,
        starts: Iterable[int],
        *,
        segment_bytes: int,
        writable: bool = True,
    ) -> None:
        """Take over the segments that are there.

        Raises:
            StoreFormatError: A file is longer than configured.
        """
        self._disk = disk
        self._writable = writable
        self.folder = folder
        """The folder of the segments."""
        self.segment_bytes = segment_bytes
        """Length of each."""
        self._segments: list[Segment] = []
        self._starts: list[int] = []
        self._recent: OrderedDict[int, Segment] = OrderedDict()
        self._growing = threading.Lock()
        # One thread adds segments, another deletes them.
        self._listing = threading.Lock()
        self.shortened: list[Segment] = []
        for start in starts:
            self._adopt(start)
        self.write_offset = self._segments[0].start if self._segments else 0
        """Commit-log offset of the next record (exclusive end of written records)."""
        self.flushed_offset = self.write_offset
        """Everything below is durable."""

    def _adopt(self, start: int) -> None:
        path = self.folder / segment_name(start)
        length = self._disk.size_of(path) or 0
        if length > self.segment_bytes:
            raise StoreFormatError(
                path, f"{length} bytes long, but segments of {self.segment_bytes} are configured"
            )
        segment = self._new_segment(start)
        if length < self.segment_bytes:
            # A crash left it short, or it was cut: the missing part reads as zeros.
            self.shortened.append(segment)
            if self._writable:
                self._disk.allocate(path, self.segment_bytes)
        self._segments.append(segment)
        self._starts.append(start)

    def _new_segment(self, start: int) -> Segment:
        return Segment(
            self._disk,
            self.folder / segment_name(start),
            start=start,
            size=self.segment_bytes,
            writable=self._writable,
        )

    @property
    def min_offset(self) -> int:
        """Commit-log offset of the first byte that is kept."""
        return self._starts[0] if self._starts else self.write_offset

    @property
    def segments(self) -> tuple[Segment, ...]:
        """All segments, oldest first."""
        return tuple(self._segments)

    def walk(self, begin: int) -> Iterator[Segment]:
        """Segments from an offset on, each opened in its turn: a long log has very many."""
        for segment in self.segments:
            if segment.end > begin:
                if not segment.is_open:
                    self._open(segment)
                yield segment

    def segment_at(self, commit_log_offset: int) -> Segment | None:
        """The segment that holds a byte, or None."""
        starts = self._starts
        place = bisect_right(starts, commit_log_offset) - 1
        if place < 0:
            return None
        segment = self._segments[place]
        if commit_log_offset >= segment.end:
            return None
        if not segment.is_open:
            self._open(segment)
        return segment

    def _open(self, segment: Segment) -> None:
        """Open a segment, and close one that was not used for long."""
        segment.file()
        self._recent[segment.start] = segment
        while len(self._recent) > _SEGMENTS_OPEN_MAX:
            start, oldest = self._recent.popitem(last=False)
            unflushed = self._writable and oldest.end > self.flushed_offset
            if unflushed or oldest is segment:
                self._recent[start] = oldest  # Not flushed yet: its descriptor would report errors.
                break
            oldest.close()

    def read(self, commit_log_offset: int, size: int) -> bytes | None:
        """Bytes of the log within one segment, or None if they do not exist.

        Raises:
            BytesUnreadable: The disk cannot read them.
        """
        segment = self.segment_at(commit_log_offset)
        if segment is None:
            return None
        position = commit_log_offset - segment.start
        return segment.read(position, size) if size <= segment.length - position else None

    # Appending: one thread.

    def reserve(self, size: int) -> tuple[Segment, int]:
        """Reserve the next ``size`` bytes: a segment and a position in it.

        If they do not fit, the next segment begins. Readers and the flush see
        nothing of it until ``write_offset`` is behind it.

        Args:
            size: Bytes to be written, no more than ``size_max``.

        Raises:
            StoreFull: There is no space for another segment; the log is unchanged.
        """
        segment = self.segment_at(self.write_offset)
        if segment is not None:
            position = self.write_offset - segment.start
            if size + BLANK_SIZE_MIN_BYTES <= segment.size - position:
                return segment, position
            following = self._following(segment.end)
            segment.fill_rest(position)
            return following, 0
        return self._following(self.write_offset), 0

    def segment_to_write(self) -> Segment:
        """The segment of the next byte, made now if it is missing: for raw bytes.

        Raises:
            StoreFull: There is no space for another segment; the log is unchanged.
        """
        return self._following(self.write_offset)

    @property
    def size_max(self) -> int:
        """The most bytes that one segment can take."""
        return self.segment_bytes - BLANK_SIZE_MIN_BYTES

    @property
    def room(self) -> int:
        """The number of bytes that still fit into the segment being written."""
        segment = self.segment_at(self.write_offset)
        if segment is None:
            return 0
        return max(0, segment.end - self.write_offset - BLANK_SIZE_MIN_BYTES)

    def _following(self, start: int) -> Segment:
        """The segment that starts at an offset, made now if it was not prepared."""
        with self._growing:
            segment = self.segment_at(start)
            return segment if segment is not None else self._grow(start)

    def _grow(self, start: int) -> Segment:
        if start % self.segment_bytes or (self._segments and start < self._segments[-1].end):
            raise AssertionError("segments are found by where they start, so they come in order")
        segment = self._new_segment(start)
        if self._disk.size_of(segment.path) is not None:
            name = segment.path.relative_to(self.folder.parent)
            reason = f"{name} is there already, and no segment of this log: move it away"
            raise StoreFull(self.folder.parent, reason)
        try:
            self._disk.allocate(segment.path, self.segment_bytes)
            self._open(segment)
        except OSError as error:
            # There may be space for the file, but no descriptor.
            self._disk.remove(segment.path)
            if not is_exhausted(error):
                raise
            reason = f"no space left for another segment ({error.strerror})"
            raise StoreFull(self.folder.parent, reason) from error
        with self._listing:
            self._segments = [*self._segments, segment]
            self._starts = [*self._starts, start]
        return segment

    # Off the appending thread.

    def prepare_next(self) -> None:
        """Make sure that the next segment exists. Any thread.

        Raises:
            StoreFull: There is no space for it; appends continue in the current one.
        """
        with self._growing:
            last = self._segments[-1] if self._segments else None
            if last is None or last.start <= self.write_offset:
                self._grow(last.end if last is not None else self.write_offset)

    def flush(self) -> int:
        """Make durable everything written before the call. One thread at a time, any thread.

        Returns:
            The new ``flushed_offset``.

        Raises:
            OSError: The disk failed; ``flushed_offset`` is as before.
        """
        target = self.write_offset
        flushed = self.flushed_offset
        if target > flushed:
            for segment in self.segments:
                if segment.end > flushed and segment.start < target:
                    segment.flush()
            self.flushed_offset = target
        return self.flushed_offset

    # Recovery and retention.

    def resume_at(self, commit_log_offset: int) -> None:
        """Continue in a new segment, behind a gap: everything in between is lost."""
        self._following(commit_log_offset)
        self.write_offset = self.flushed_offset = commit_log_offset

    def write_again(self, begin: int, end: int) -> None:
        """Write the bytes between two offsets again, so that the next flush makes them durable.

        After a failed flush the system may hold bytes in memory that it takes for written: other
        processes read them, and no flush writes them. Unreadable bytes are left alone.

        Raises:
            OSError: The disk failed.
        """
        for segment in self.walk(begin):
            if segment.start >= end:
                break
            position, stop = max(0, begin - segment.start), min(end, segment.end) - segment.start
            for first in range(position, stop, _WRITTEN_AT_ONCE):
                window = segment.window(first, min(_WRITTEN_AT_ONCE, stop - first))
                for low, high in window.readable():
                    segment.write(low, window.content[low - first : high - first])
        self.flushed_offset = min(self.flushed_offset, begin)

    def cut(self, commit_log_offset: int) -> None:
        """Durably remove everything at and behind an offset, and continue writing there."""
        count = len(self._segments)
        while self._segments and self._segments[-1].start >= commit_log_offset:
            self._drop(len(self._segments) - 1)
        if len(self._segments) < count:
            # Later segments first: behind a gap they would look like damage before them.
            self._disk.sync(folders=[self.folder])
        if self._segments and self._segments[-1].end > commit_log_offset:
            last = self._segments[-1]
            last.close()
            self._disk.cut(last.path, commit_log_offset - last.start)
        self._disk.sync(folders=[self.folder])
        self.write_offset = commit_log_offset
        self.flushed_offset = min(self.flushed_offset, commit_log_offset)

    def forget_oldest(self) -> Segment:
        """Make the log begin behind its first segment, which must not be the last; deletes nothing.

        The appending thread: none of its reads is then halfway through the segment.
        """
        if len(self._segments) < 2:
            raise AssertionError("the last segment is never deleted")
        return self._forget(0)

    def delete(self, segment: Segment) -> None:
        """Durably delete a forgotten segment, once; a reader of it can finish.

        Any thread: removing a gigabyte takes the file system a while.
        """
        if segment.is_deleted:
            return
        segment.close()
        self._disk.remove(segment.path)
        self._disk.sync(folders=[self.folder])
        segment.is_deleted = True

    def _drop(self, place: int) -> None:
        segment = self._forget(place)
        segment.close()
        self._disk.remove(segment.path)

    def _forget(self, place: int) -> Segment:
        # Lists are replaced, not changed: another thread may be iterating over one.
        with self._listing:
            segment = self._segments[place]
            self._starts = self._starts[:place] + self._starts[place + 1 :]
            self._segments = self._segments[:place] + self._segments[place + 1 :]
        self._recent.pop(segment.start, None)
        return segment

    def close(self) -> None:
        """Close all files."""
        for segment in self._segments:
            segment.close()
        self._recent.clear()
