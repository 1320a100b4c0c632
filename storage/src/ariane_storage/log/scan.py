"""Walks through the commit log, and distinguishes records, filler and damage.

A scan yields, in order, without gaps and without overlaps:

* ``Stretch``   records back to back, every one whole and where it belongs;
* ``Damage``    a range that holds no valid record, with valid ones behind it;
* ``Ending``    the end of the log: no valid record is behind it.

A valid record has a plausible size and magic code, lengths that add up, a stored position that is
its own, and a right checksum. Behind an invalid one the scan looks for the next byte at which all
of this holds; if there is none up to the end of the last segment, the log ends there.

Bytes that the disk cannot read are damage and never the end of the log: if no valid record is
behind them, the log ends behind the last unreadable byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ariane_record.layout import BLANK_SIZE_MIN_BYTES, MAGIC_BLANK, RECORD_BYTES_MIN
from ariane_storage.log.damage import Damage, DamageReason
from ariane_storage.log.file_window import FileWindow
from ariane_storage.log.record_search import (
    MAGICS,
    WINDOW_BYTES,
    Stop,
    check_records,
    even_run,
    fault_of,
    is_plausible,
    or_unreadable,
    search_begin,
    search_record,
    unpack_front,
)
from ariane_storage.log.records.fields import Int64s
from ariane_storage.log.records.record_places import RecordPlaces
from ariane_storage.log.segment import Segment

_BATCH_RECORDS: Final = 4096


@dataclass(frozen=True, slots=True)
class Stretch:
    """Valid records of one segment, back to back.

    ``begin`` and ``end`` are those of at least one record.
    """

    segment: Segment
    """The segment of the records."""
    origin: int
    """Commit-log offset of the first byte of the buffer that holds them."""
    places: RecordPlaces
    """Positions of their parts in that buffer."""

    @property
    def begin(self) -> int:
        """Commit-log offset of the first record."""
        return self.origin + int(self.places.starts[0])

    @property
    def end(self) -> int:
        """Commit-log offset behind the last record."""
        return self.origin + int(self.places.ends[-1])

    @property
    def commit_log_offsets(self) -> Int64s:
        """The start of each record in the commit log."""
        return self.places.starts + self.origin

    def between(self, begin: int, end: int) -> Stretch:
        """Those of its records that start between two commit-log offsets; possibly none."""
        starts = self.places.starts
        span = (begin - self.origin, end - self.origin)
        first, behind = np.searchsorted(starts, span).tolist()
        if first == 0 and behind == len(starts):
            return self
        return replace(self, places=self.places.rows(first, behind))


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of the log."""

    commit_log_offset: int
    """Commit-log offset of the next record."""
    reason: DamageReason | None
    """Why the log ends here: None for zeros or the end of the last segment; otherwise a torn record
    is here."""


ScanEvent = Stretch | Damage | Ending


@dataclass(frozen=True, slots=True)
class _Walk:
    """How far the sizes of records lead from one record to the next."""

    starts: list[int]
    """Positions of records in the segment."""
    end: int
    """The end of the last record."""
    stop: Stop | None = None
    """The fault there, or None."""
    filler: bool = False
    """Whether filler is there."""
    wanted_bytes: int = 0
    """Bytes to read from there to continue; 0 if they are in the window."""


def scan(segments: Iterable[Segment], begin: int) -> Iterator[ScanEvent]:
    """Walk through the log from an offset at which a record starts, to its end.

    Args:
        segments: Segments of the log, oldest first; segments below ``begin`` are skipped.
        begin: Commit-log offset to start from.
    """
    expected = begin
    fault: tuple[int, DamageReason] | None = None
    ending: Ending | None = None
    for segment in segments:
        if segment.end <= begin:
            continue
        if segment.start > expected and fault is None:
            fault, ending = (expected, DamageReason.SEGMENT_MISSING), None
        for event in _scan_segment(segment, max(0, begin - segment.start)):
            if isinstance(event, Stop):
                fault = fault or (segment.start + event.position, event.reason)
                ending = _behind_unreadable(segment, event) or ending
                continue
            if fault is not None:
                yield Damage(fault[0], event.begin, fault[1])
                fault, ending = None, None
            yield event
        expected = segment.end
    if fault is None:
        yield Ending(expected, None)
    elif ending is not None:
        yield Damage(fault[0], ending.commit_log_offset, DamageReason.UNREADABLE)
        yield ending
    else:
        yield Ending(fault[0], _torn(fault[1]))


def _torn(reason: DamageReason) -> DamageReason | None:
    """The reason for a log to end at a fault; None if no torn record is there."""
    if reason in (DamageReason.NOTHING, DamageReason.SEGMENT_MISSING):
        return None
    return reason


def _behind_unreadable(segment: Segment, stop: Stop) -> Ending | None:
    """The place where the log continues if no valid record is after unreadable bytes."""
    end = stop.unreadable_end
    if not end:
        return None
    if end > segment.length - BLANK_SIZE_MIN_BYTES:
        return Ending(segment.end, None)
    front = segment.window(end, BLANK_SIZE_MIN_BYTES).content
    return Ending(segment.start + end, _torn(fault_of(*unpack_front(front))))


def _scan_segment(segment: Segment, position: int) -> Iterator[Stretch | Stop]:
    """The valid records of a segment from a position on, and the faults between them."""
    while True:
        stop = None
        for event in _records(segment, position):
            if isinstance(event, Stretch):
                yield event
            else:
                stop = event
        if stop is None:
            return
        begin = search_begin(segment, stop)
        found, unreadable_end = search_record(segment, begin)
        if stop.reason is DamageReason.UNREADABLE:
            unreadable_end = max(unreadable_end, stop.unreadable_end, begin)
        yield replace(stop, unreadable_end=unreadable_end)
        if found is None:
            return
        position = found


def _records(segment: Segment, position: int) -> Iterator[Stretch | Stop]:
    """The valid records up to the filler, or up to the first fault, which is the last item."""
    window = segment.window(position, WINDOW_BYTES)
    while True:
        walk = _walk(segment, window, position)
        stop = walk.stop
        if walk.starts:
            places, fault = check_records(segment, window, walk.starts, walk.end)
            if len(places.starts):
                yield Stretch(segment, segment.start + window.position, places)
            stop = fault or stop
        if stop is not None:
            yield stop
            return
        if walk.filler:
            return
        position = walk.end
        if walk.wanted_bytes:
            window = segment.window(position, max(WINDOW_BYTES, walk.wanted_bytes))


def _walk(segment: Segment, window: FileWindow, position: int) -> _Walk:
    """Follow sizes from record to record, within a window."""
    starts: list[int] = []
    length, first, shown = segment.length, window.position, window.content
    stop, filler, wanted_bytes = None, False, 0
    while len(starts) < _BATCH_RECORDS:
        if position + BLANK_SIZE_MIN_BYTES > length:
            stop = Stop(position, DamageReason.NOTHING)
            break
        if position + BLANK_SIZE_MIN_BYTES > window.end:
            wanted_bytes = BLANK_SIZE_MIN_BYTES
            break
        record_size, magic = unpack_front(shown, position - first)
        if not (magic in MAGICS and RECORD_BYTES_MIN <= record_size <= length - position):
            filler = magic == MAGIC_BLANK and record_size == segment.size - position
            if not filler:
                stop = Stop(position, fault_of(record_size, magic))
                stop = or_unreadable(stop, window, BLANK_SIZE_MIN_BYTES)
            break
        if position + record_size > window.end:
            wanted_bytes = record_size
            if record_size > WINDOW_BYTES and not is_plausible(segment, position):
                stop = Stop(position, DamageReason.STRUCTURE)
            break
        room = _BATCH_RECORDS - len(starts)
        whole = min(window.end, length, position + room * record_size)
        count = even_run(shown, position - first, record_size, whole - first)
        starts.extend(range(position, position + count * record_size, record_size))
        position += count * record_size
    return _Walk(starts, position, stop, filler, wanted_bytes)
