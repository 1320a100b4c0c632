"""Walking through the commit log: which ranges hold records, which are filler, which are damaged.

A scan yields, in order, without gaps and without overlaps:

* ``Stretch``   records back to back, every one whole and where it belongs;
* ``Damage``    a range that holds no valid record, with valid ones behind it;
* ``Ending``    where the log ends: nothing valid is behind it.

What makes a record: its size and magic code, lengths that add up, a stored position that is where
it lies, and its checksum. Behind a bad one the scan looks for the next byte at which all of this
holds; only if there is none, up to the end of the last segment, the log ends there.

What the disk cannot read is damage and never the end of the log: where nothing valid is behind it,
the log ends behind the last byte that could not be read.
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

    Attributes:
        segment: Where they lie.
        origin: Commit-log offset of the first byte of the buffer that they were read into.
        places: Their parts, as positions in that buffer.
    """

    segment: Segment
    origin: int
    places: RecordPlaces

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
        """Where each record starts in the commit log."""
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
    """The end of the log.

    Attributes:
        commit_log_offset: At which the next record goes.
        reason: Why it ends here: None for zeros or the end of the last segment, else what lies
            there is a torn record.
    """

    commit_log_offset: int
    reason: DamageReason | None


ScanEvent = Stretch | Damage | Ending


@dataclass(frozen=True, slots=True)
class _Walk:
    """How far sizes led from record to record.

    Attributes:
        starts: Where records start, positions in the segment.
        end: Where the last one ends.
        stop: What is wrong there, or None.
        filler: Whether the filler is there.
        wanted_bytes: What has to be read from there to go on, 0 if it lies in the window.
    """

    starts: list[int]
    end: int
    stop: Stop | None = None
    filler: bool = False
    wanted_bytes: int = 0


def scan(segments: Iterable[Segment], begin: int) -> Iterator[ScanEvent]:
    """Walk through the log from an offset at which a record starts, to its end.

    Args:
        segments: Segments of the log, oldest first; those below ``begin`` are passed over.
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
    """Why a log ends that is broken off for a reason: None if nothing torn lies there."""
    if reason in (DamageReason.NOTHING, DamageReason.SEGMENT_MISSING):
        return None
    return reason


def _behind_unreadable(segment: Segment, stop: Stop) -> Ending | None:
    """Where the log goes on if nothing valid lies behind what the disk cannot read."""
    end = stop.unreadable_end
    if not end:
        return None
    if end > segment.length - BLANK_SIZE_MIN_BYTES:
        return Ending(segment.end, None)
    front = segment.window(end, BLANK_SIZE_MIN_BYTES).content
    return Ending(segment.start + end, _torn(fault_of(*unpack_front(front))))


def _scan_segment(segment: Segment, position: int) -> Iterator[Stretch | Stop]:
    """All valid records of a segment from a position on, and each fault before, between, behind."""
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
    """Valid records up to the filler, or last of all where and why they break off."""
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
    """Follow sizes from record to record, as far as a window shows them."""
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
