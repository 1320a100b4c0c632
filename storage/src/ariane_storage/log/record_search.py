"""Valid records of a segment: whether one is at a position, and where the next one is.

What makes a record: its size and magic code, lengths that add up, a stored position that is where
it lies, and its checksum.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from struct import Struct
from typing import Final

import numpy as np

from ariane_record import SystemFlag
from ariane_record.layout import (
    HEADER_BYTES,
    IPV6_EXTRA_BYTES,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_BYTES_MIN,
    SYSTEM_FLAG_START,
)
from ariane_storage.log.damage import DamageReason
from ariane_storage.log.file_window import FileWindow
from ariane_storage.log.records.record_places import (
    RecordPlaces,
    checksum_faults,
    locate,
    misplaced,
)
from ariane_storage.log.segment import Segment

WINDOW_BYTES: Final = 1 << 22
"""Read in one step: enough for a call to cost nothing beside the work on what it has read."""
MAGICS: Final = (MAGIC_V1, MAGIC_V2)
unpack_front: Final = Struct(">iI").unpack_from
"""Size and magic code of a record, or of filler."""

_FRONT: Final = 8
_BESIDE_BODY_MAX: Final = 1 << 18
"""More than a record has beside its body: header, hosts, topic and properties."""
_unpack_position = Struct(">q").unpack_from
_unpack_length = Struct(">i").unpack_from
_POSITION_START: Final = 28
_MAGIC_START: Final = 4
_MAGIC_BYTES: Final = 4
_ANY_MAGIC: Final = re.compile(
    b"|".join(re.escape(magic.to_bytes(4, "big")) for magic in MAGICS), re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Stop:
    """Where a run of records is broken off.

    Attributes:
        position: In the segment.
        reason: Why.
        unreadable_end: Behind the last byte from there on that the disk cannot read, and that lies
            in front of the next valid record; 0 if it can read all.
    """

    position: int
    reason: DamageReason
    unreadable_end: int = 0


def even_run(content: memoryview, place: int, size: int, end: int) -> int:
    """How many records of one size and kind lie back to back, at least one.

    Whether they are records is not looked at, only what their fronts say.

    Args:
        content: Bytes of a segment.
        place: Where in them the first one starts.
        size: Bytes that its front says.
        end: Where in them the last one ends at the latest; the first one does not end behind it.
    """
    behind = place + size
    if behind + size > end or content[behind : behind + _FRONT] != content[place : place + _FRONT]:
        return 1
    fronts = np.ndarray(((end - place) // size,), np.uint64, content, place, (size,))
    same = fronts == fronts[0]
    return len(same) if bool(same.all()) else int(np.argmin(same))


def fault_of(record_size: int, magic: int) -> DamageReason:
    """What is wrong with a front that is neither that of a record nor filler."""
    if magic in MAGICS:
        return DamageReason.SIZE
    if magic == MAGIC_BLANK:
        return DamageReason.BLANK
    if magic == 0 and record_size == 0:
        return DamageReason.NOTHING
    return DamageReason.MAGIC


def or_unreadable(stop: Stop, window: FileWindow, size: int) -> Stop:
    """A stop, or what it comes from: that some of its first bytes could not be read."""
    lost = window.unreadable_in(stop.position, stop.position + size)
    return stop if lost is None else Stop(stop.position, DamageReason.UNREADABLE, lost[1])


def is_plausible(segment: Segment, position: int) -> bool:
    """Whether a large record has the body for it, so that it is worth reading."""
    front = segment.window(position, HEADER_BYTES + 2 * IPV6_EXTRA_BYTES).content
    size, flags = unpack_front(front)[0], _unpack_length(front, SYSTEM_FLAG_START)[0]
    shift = IPV6_EXTRA_BYTES * (
        bool(flags & SystemFlag.BORN_HOST_IPV6) + bool(flags & SystemFlag.STORE_HOST_IPV6)
    )
    body_length = _unpack_length(front, HEADER_BYTES + shift - 4)[0]
    return bool(0 < size - body_length <= _BESIDE_BODY_MAX)


def check_records(
    segment: Segment, window: FileWindow, starts: list[int], end: int
) -> tuple[RecordPlaces, Stop | None]:
    """Records up to the first that is not valid, and that one."""
    begins = np.array(starts, np.int64) - window.position
    sizes = np.diff(begins, append=end - window.position)
    places, sound = locate(window.content, begins, sizes)
    first_unsound = len(begins) if bool(sound.all()) else int(np.argmin(sound))
    moved = np.zeros(0, np.bool_)
    if len(places.starts):
        moved = misplaced(places, segment.start + window.position)
    faults = moved | checksum_faults(places)
    if window.unreadable:
        # Zeros in the place of what cannot be read may make a record that looks valid.
        faults |= window.lacks(places.starts + window.position, places.ends + window.position)
    # Places of unsound records are left out, so counts agree up to the first of them.
    first_fault = int(np.argmax(faults)) if bool(faults.any()) else len(faults)
    first = min(first_fault, first_unsound)
    if first == len(begins):
        return places, None
    reason = DamageReason.STRUCTURE
    if first_fault < first_unsound:
        reason = DamageReason.POSITION if moved[first_fault] else DamageReason.CHECKSUM
    stop = or_unreadable(Stop(starts[first], reason), window, int(sizes[first]))
    return places.rows(0, first), stop


def find_record(segment: Segment, position: int) -> int | None:
    """The next position of a segment at which a valid record starts, or None."""
    return search_record(segment, position)[0]


def search_record(segment: Segment, position: int) -> tuple[int | None, int]:
    """The next position at which a valid record starts, or None, and what was in the way.

    Returns:
        Beside the position, where the last byte that could not be read before it ends, or 0.
    """
    first = position + _MAGIC_START
    unreadable_end = 0
    for begin, end in segment.file().written_ranges(first):
        begin, end = max(begin, first), min(end, segment.length)  # noqa: PLW2901 - a part of it.
        while begin < end:
            window = segment.window(begin, min(WINDOW_BYTES, end - begin))
            for match in _ANY_MAGIC.finditer(window.content):
                start = begin + match.start() - _MAGIC_START
                if record_at(segment, start) is not None:
                    return start, unreadable_end
            unreadable_end = max(unreadable_end, window.unreadable_end)
            # A magic code may lie across the end of a window.
            begin = window.end if window.end >= end else window.end - _MAGIC_BYTES + 1  # noqa: PLW2901
    if segment.file().size() < segment.length:
        unreadable_end = segment.length  # The file was shortened by another process.
    return None, unreadable_end


def search_begin(segment: Segment, stop: Stop) -> int:
    """Where the next record may start at the earliest.

    A record that lies where it says, with lengths that add up, ends where it says even if its
    checksum is wrong, or some of it cannot be read. Nothing within it is looked at: its body is its
    sender's, who could put there what looks like a record of a topic that he may not write to.
    """
    position = stop.position
    if stop.reason not in (DamageReason.CHECKSUM, DamageReason.UNREADABLE):
        return position + 1
    while True:
        size = _size_in_place(segment, position)
        if size is None:
            break
        position += size
        if record_at(segment, position) is not None:
            break
    # Of what cannot be read nothing is known: whatever starts, starts behind it.
    return max(position, stop.unreadable_end if position == stop.position else 0)


def _size_in_place(segment: Segment, position: int) -> int | None:
    """Bytes of the record at a position if all but its content is as it should be, or None."""
    size = _front_size(segment, position)
    if size is None:
        return None
    window = segment.window(position, size)
    places, sound = locate(window.content, np.array([0]), np.array([size]))
    if sound[0]:
        return None if misplaced(places, segment.start + position)[0] else size
    if window.unreadable_in(position, position + RECORD_BYTES_MIN) is None and window.unreadable:
        return size  # Its header is whole, and lies where it says: its lengths cannot be read.
    return None


def _front_size(segment: Segment, position: int) -> int | None:
    """The size that the front of a record says, if it is one that lies where it says, or None."""
    if position < 0 or position + RECORD_BYTES_MIN > segment.length:
        return None
    front = segment.window(position, RECORD_BYTES_MIN).content
    size, magic = unpack_front(front)
    if magic not in MAGICS or not RECORD_BYTES_MIN <= size <= segment.length - position:
        return None
    # The stored position: it is cheap to look at, and nothing that is no record passes it.
    if _unpack_position(front, _POSITION_START)[0] != segment.start + position:
        return None
    if size > WINDOW_BYTES and not is_plausible(segment, position):
        return None
    return int(size)


def record_at(segment: Segment, position: int) -> memoryview | None:
    """The valid record that starts at a position of a segment, or None."""
    size = _front_size(segment, position)
    if size is None:
        return None
    window = segment.window(position, size)
    _, fault = check_records(segment, window, [position], position + size)
    return window.content if fault is None else None
