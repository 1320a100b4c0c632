"""Appends bytes of another copy of the log at the positions that they have there.

Records are checked as in recovery, written unchanged, and dispatched to consume queues and index.
The first part of an incomplete record waits in memory, so that the log always ends with a whole
record.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ariane_record.layout import BLANK_SIZE_MIN_BYTES, MAGIC_BLANK, RECORD_BYTES_MIN
from ariane_storage.errors import LogPositionMismatch, RawBytesRefused, StoreFull
from ariane_storage.log.file_window import FileWindow
from ariane_storage.log.record_search import (
    MAGICS,
    check_records,
    even_run,
    fault_of,
    unpack_front,
)
from ariane_storage.log.records.fields import Int64s
from ariane_storage.log.scan import Stretch
from ariane_storage.log.segment import Segment
from ariane_storage.parts import StoreParts
from ariane_storage.queues.dispatch import Dispatcher

_NO_LIMIT = 1 << 62


class RawAppended(NamedTuple):
    """The result of an append of raw bytes."""

    stretches: tuple[Stretch, ...]
    """The records that were appended, in the order of the log."""
    max_offset: int
    """The new end of the log."""


class RawAppender:
    """Appends the bytes of another log, one run after the other. For the appending thread."""

    def __init__(self, parts: StoreParts) -> None:
        self._parts = parts
        self._waiting = b""
        self._dispatcher = Dispatcher(
            parts.queues,
            parts.index,
            parts.config.delay_levels_ms,
            queues_from=0,
            index_from=0,
            deleted_topics=parts.deleted_topics,
            pending_keys_max=_NO_LIMIT,
        )

    @property
    def next_offset(self) -> int:
        """Commit-log offset of the next byte."""
        return self._parts.log.write_offset + len(self._waiting)

    def forget_waiting(self) -> None:
        """Drop the first part of an incomplete record: it will be sent again."""
        self._waiting = b""

    def append(self, commit_log_offset: int, content: bytes | memoryview) -> RawAppended:
        """Append bytes; see ``LogCopy.append``."""
        parts = self._parts
        parts.check_open()
        parts.guard.check()
        if parts.full_reason:
            raise StoreFull(parts.files.root, parts.full_reason)
        if commit_log_offset != self.next_offset:
            raise LogPositionMismatch(self.next_offset, commit_log_offset)
        if self._waiting:
            content = self._waiting + content
        content, self._waiting = memoryview(content), b""
        stretches: list[Stretch] = []
        place = 0
        while place < len(content):
            segment = parts.guard.watch(parts.log.segment_to_write)
            begin = parts.log.write_offset
            part = content[place : place + segment.end - begin]
            run = record_run(segment, begin - segment.start, part)
            if run.records is not None:
                self._put(segment, part, run)
                stretches.append(run.records)
            place += run.size_bytes
            if len(part) < segment.end - begin:
                break  # Filler, too, is written only once the rest of its segment is there.
            if not run.has_filler:
                raise RawBytesRefused(begin + run.size_bytes, "a record spans two segments")
            position = segment.size - (len(part) - run.size_bytes)
            parts.guard.watch(lambda: segment.fill_rest(position))  # noqa: B023 - runs at once.
            parts.log.write_offset = segment.end
            place += len(part) - run.size_bytes
        self._waiting = bytes(content[place:])
        return RawAppended(tuple(stretches), parts.log.write_offset)

    def _put(self, segment: Segment, content: memoryview, run: RecordRun) -> None:
        """Write whole records, and dispatch them."""
        parts, records = self._parts, run.records
        if records is None:
            return
        if parts.index.pending_keys > parts.config.index_backlog_keys:
            parts.guard.watch(parts.index.file_some)
        begin = records.begin
        written = content[: run.size_bytes]
        parts.guard.watch(lambda: segment.write(begin - segment.start, written))
        dispatcher = self._dispatcher
        parts.guard.watch(lambda: dispatcher.dispatch(records))
        for misfit in dispatcher.misfits:
            parts.quarantine.add(misfit)
        dispatcher.misfits.clear()
        stamp = int(records.places.store_timestamps()[-1])
        parts.store_timestamp_ms = max(parts.store_timestamp_ms, stamp)
        parts.log.write_offset = begin + run.size_bytes


class RecordRun(NamedTuple):
    """The whole records at the beginning of some bytes."""

    records: Stretch | None
    """The records; None if not even one is whole."""
    size_bytes: int
    """Their size together."""
    has_filler: bool
    """Whether filler follows, so that the segment is full."""


def record_run(segment: Segment, position: int, content: memoryview) -> RecordRun:
    """Find and check the whole records at the beginning of some bytes of a segment.

    Args:
        segment: The segment.
        position: Position of the bytes in the segment: the start of a record.
        content: The bytes; none may be beyond the end of the segment.

    Raises:
        RawBytesRefused: The bytes are not valid at their place.
    """
    runs: list[tuple[int, int, int]] = []
    place, end, has_filler = 0, len(content), False
    while place + BLANK_SIZE_MIN_BYTES <= end:
        size, magic = unpack_front(content, place)
        room = segment.size - position - place
        if magic == MAGIC_BLANK and size == room:
            has_filler = True
            break
        if magic not in MAGICS or not RECORD_BYTES_MIN <= size <= room - BLANK_SIZE_MIN_BYTES:
            reason = fault_of(size, magic).value
            raise RawBytesRefused(segment.start + position + place, reason)
        if place + size > end:
            break
        whole = min(end, segment.size - position - BLANK_SIZE_MIN_BYTES)
        count = even_run(content, place, size, whole)
        runs.append((position + place, size, count))
        place += count * size
    if not runs:
        return RecordRun(None, 0, has_filler)
    window = FileWindow(position, content[:place])
    places, fault = check_records(segment, window, _starts(runs), position + place)
    if fault is not None:
        raise RawBytesRefused(segment.start + fault.position, fault.reason.value)
    return RecordRun(Stretch(segment, segment.start + position, places), place, has_filler)


def _starts(runs: list[tuple[int, int, int]]) -> Int64s:
    """The starts of records, from the begin, record size and length of each run of one size."""
    firsts, sizes, counts = np.array(runs, np.int64).T
    behind = np.cumsum(counts)
    numbers = np.arange(int(behind[-1])) - np.repeat(behind - counts, counts)
    starts: Int64s = np.repeat(firsts, counts) + numbers * np.repeat(sizes, counts)
    return starts
