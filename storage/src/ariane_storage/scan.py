"""Walking through the commit log: which ranges hold records, which are filler, which are damaged.

A scan yields, in order, without gaps and without overlaps:

* ``Stretch``   records back to back, every one whole and where it belongs;
* ``Damage``    a range that holds no valid record, with valid ones behind it;
* ``Ending``    where the log ends: nothing valid is behind it.

What makes a record: its size and magic code, lengths that add up, a stored position that is where
it lies, and its checksum. Behind a bad one the scan looks for the next byte at which all of this
holds; only if there is none, up to the end of the last segment, the log ends there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from struct import Struct
from typing import Final

import numpy as np

from ariane_record.layout import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, RECORD_BYTES_MIN
from ariane_storage.fields import Int64s
from ariane_storage.record_places import RecordPlaces, checksum_faults, locate, misplaced
from ariane_storage.segment import Segment

_BATCH_RECORDS: Final = 4096
_unpack_front = Struct(">iI").unpack_from
_unpack_position = Struct(">q").unpack_from
_POSITION_START: Final = 28
_MAGIC_START: Final = 4
_MAGICS: Final = (MAGIC_V1, MAGIC_V2)
_ANY_MAGIC: Final = re.compile(
    b"|".join(re.escape(magic.to_bytes(4, "big")) for magic in _MAGICS), re.DOTALL
)


class DamageReason(StrEnum):
    """Why a range of the commit log holds no valid record."""

    SEGMENT_MISSING = "segment missing"
    SIZE = "impossible size"
    MAGIC = "unknown magic code"
    NOTHING = "zeros where a record should be"
    BLANK = "filler that does not reach the end of its segment"
    STRUCTURE = "lengths that do not add up"
    POSITION = "a record of another place"
    CHECKSUM = "checksum differs"
    QUEUE = "a topic or queue id that names no queue"
    QUEUE_OFFSET = "a queue offset that does not follow"
    BATCH = "a batch without its end"


@dataclass(frozen=True, slots=True)
class Damage:
    """A range of the commit log that holds no valid record.

    Attributes:
        begin: Commit-log offset of its first byte.
        end: Where the next valid record, or the next segment, starts.
        reason: What is wrong at its first byte.
    """

    begin: int
    end: int
    reason: DamageReason


@dataclass(frozen=True, slots=True)
class Stretch:
    """Valid records of one segment, back to back.

    ``begin`` and ``end`` are those of at least one record.

    Attributes:
        segment: Where they lie.
        places: Their parts, as positions in the segment.
    """

    segment: Segment
    places: RecordPlaces

    @property
    def begin(self) -> int:
        """Commit-log offset of the first record."""
        return self.segment.start + int(self.places.starts[0])

    @property
    def end(self) -> int:
        """Commit-log offset behind the last record."""
        return self.segment.start + int(self.places.ends[-1])

    @property
    def commit_log_offsets(self) -> Int64s:
        """Where each record starts in the commit log."""
        return self.places.starts + self.segment.start

    def between(self, begin: int, end: int) -> Stretch:
        """Those of its records that start between two commit-log offsets; possibly none."""
        starts = self.places.starts
        span = (begin - self.segment.start, end - self.segment.start)
        first, behind = np.searchsorted(starts, span).tolist()
        if first == 0 and behind == len(starts):
            return self
        return Stretch(self.segment, self.places.rows(first, behind))


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
class _Stop:
    """Where a run of records is broken off: position in the segment, and why."""

    position: int
    reason: DamageReason


def scan(segments: Iterable[Segment], begin: int) -> Iterator[ScanEvent]:
    """Walk through the log from an offset at which a record starts, to its end.

    Args:
        segments: Segments of the log, oldest first; those below ``begin`` are passed over.
        begin: Commit-log offset to start from.
    """
    expected = begin
    fault: tuple[int, DamageReason] | None = None
    for segment in segments:
        if segment.end <= begin:
            continue
        if segment.start > expected and fault is None:
            fault = (expected, DamageReason.SEGMENT_MISSING)
        for event in _scan_segment(segment, max(0, begin - segment.start)):
            if isinstance(event, _Stop):
                fault = fault or (segment.start + event.position, event.reason)
                continue
            if fault is not None:
                yield Damage(fault[0], event.begin, fault[1])
                fault = None
            yield event
        expected = segment.end
    if fault is None:
        yield Ending(expected, None)
    else:
        torn = fault[1] not in (DamageReason.NOTHING, DamageReason.SEGMENT_MISSING)
        yield Ending(fault[0], fault[1] if torn else None)


def _scan_segment(segment: Segment, position: int) -> Iterator[Stretch | _Stop]:
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
        yield stop
        found = find_record(segment, _behind(segment, stop))
        if found is None:
            return
        position = found


def _records(segment: Segment, position: int) -> Iterator[Stretch | _Stop]:
    """Valid records up to the filler, or last of all where and why they break off."""
    view = segment.view
    stop: _Stop | None = None
    filler = False
    while stop is None and not filler:
        starts, position, stop, filler = _walk(view, segment.size, position)
        if not starts:
            continue
        places, fault = _check(segment, starts, position)
        if len(places.starts):
            yield Stretch(segment, places)
        if fault is not None:
            stop = fault
    if stop is not None:
        yield stop


def _walk(view: memoryview, size: int, position: int) -> tuple[list[int], int, _Stop | None, bool]:
    """Follow sizes from record to record.

    Returns:
        Where records start, where the last one ends, what is wrong there, and whether the filler
        is there.
    """
    starts: list[int] = []
    length = len(view)
    while len(starts) < _BATCH_RECORDS:
        if position + 8 > length:
            return starts, position, _Stop(position, DamageReason.NOTHING), False
        record_size, magic = _unpack_front(view, position)
        if magic in _MAGICS and RECORD_BYTES_MIN <= record_size <= length - position:
            starts.append(position)
            position += record_size
            continue
        if magic == MAGIC_BLANK and record_size == size - position:
            return starts, position, None, True
        return starts, position, _Stop(position, _fault_of(record_size, magic)), False
    return starts, position, None, False


def _fault_of(record_size: int, magic: int) -> DamageReason:
    """What is wrong with a front that is neither that of a record nor filler."""
    if magic in _MAGICS:
        return DamageReason.SIZE
    if magic == MAGIC_BLANK:
        return DamageReason.BLANK
    if magic == 0 and record_size == 0:
        return DamageReason.NOTHING
    return DamageReason.MAGIC


def _check(segment: Segment, starts: list[int], end: int) -> tuple[RecordPlaces, _Stop | None]:
    """Records up to the first that is not valid, and that one."""
    begins = np.array(starts, np.int64)
    sizes = np.diff(begins, append=end)
    places, sound = locate(segment.view, begins, sizes)
    first_unsound = len(begins) if bool(sound.all()) else int(np.argmin(sound))
    moved = misplaced(places, segment.start) if len(places.starts) else np.zeros(0, np.bool_)
    faults = moved | checksum_faults(places)
    # Places of unsound records are left out, so counts agree up to the first of them.
    first_fault = int(np.argmax(faults)) if bool(faults.any()) else len(faults)
    if first_fault < first_unsound:
        reason = DamageReason.POSITION if moved[first_fault] else DamageReason.CHECKSUM
        return places.rows(0, first_fault), _Stop(starts[first_fault], reason)
    if first_unsound < len(begins):
        return places.rows(0, first_unsound), _Stop(starts[first_unsound], DamageReason.STRUCTURE)
    return places, None


def find_record(segment: Segment, position: int) -> int | None:
    """The next position of a segment at which a valid record starts, or None."""
    file = segment.file()
    first = position + _MAGIC_START
    for begin, end in file.written_ranges(first):
        for match in _ANY_MAGIC.finditer(file.view, max(begin, first), end):
            start = match.start() - _MAGIC_START
            if record_at(segment, start) is not None:
                return start
    return None


def _behind(segment: Segment, stop: _Stop) -> int:
    """Where the next record may start at the earliest.

    A record that lies where it says, with lengths that add up, ends where it says even if its
    checksum is wrong. Nothing within it is looked at: its body is its sender's, who could put there
    what looks like a record of a topic that he may not write to.
    """
    position = stop.position
    if stop.reason is not DamageReason.CHECKSUM:
        return position + 1
    view = segment.view
    while position + RECORD_BYTES_MIN <= len(view):
        size, magic = _unpack_front(view, position)
        if magic not in _MAGICS or not RECORD_BYTES_MIN <= size <= len(view) - position:
            break
        places, sound = locate(view, np.array([position]), np.array([size]))
        if not sound[0] or misplaced(places, segment.start)[0]:
            break
        position += size
        if record_at(segment, position) is not None:
            break
    return position


def record_at(segment: Segment, position: int) -> int | None:
    """Where the valid record ends that starts at a position of a segment, or None."""
    view = segment.view
    if position < 0 or position + RECORD_BYTES_MIN > len(view):
        return None
    size, magic = _unpack_front(view, position)
    if magic not in _MAGICS or not RECORD_BYTES_MIN <= size <= len(view) - position:
        return None
    # The stored position first: it is cheap, and nothing that is no record passes it.
    if _unpack_position(view, position + _POSITION_START)[0] != segment.start + position:
        return None
    _, fault = _check(segment, [position], position + size)
    return position + size if fault is None else None
