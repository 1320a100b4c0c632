"""Valid records of a segment: at a position, and the next one.

A valid record has a plausible size and magic code, lengths that add up, a stored position that is
its own, and a right checksum.
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
from ariane_storage.log.records.fields import Int64s
from ariane_storage.log.records.record_places import (
    RecordPlaces,
    checksum_faults,
    locate,
    misplaced,
)
from ariane_storage.log.segment import Segment

WINDOW_BYTES: Final = 1 << 22
"""Bytes of one read: enough that the call costs little beside the work on them."""
MAGICS: Final = (MAGIC_V1, MAGIC_V2)
unpack_front: Final = Struct(">iI").unpack_from
"""Size and magic code of a record, or of filler."""

_FRONT: Final = 8
_BESIDE_BODY_MAX: Final = 1 << 18
"""More than the bytes of a record beside its body: header, hosts, topic and properties."""
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
    """The end of a run of records."""

    position: int
    """Position in the segment."""
    reason: DamageReason
    """The fault there."""
    unreadable_end: int = 0
    """Behind the last unreadable byte between that position and the next valid record; 0 if all
    bytes are readable."""


def even_run(content: memoryview, place: int, size: int, end: int) -> int:
    """Number of records of one size and kind in a row, at least one.

    Looks only at their first bytes, not whether they are valid.

    Args:
        content: Bytes of a segment.
        place: The start of the first one in the content.
        size: Its size by its first bytes.
        end: Where in the content the last one ends at the latest; not before the end of the first.
    """
    behind = place + size
    if behind + size > end or content[behind : behind + _FRONT] != content[place : place + _FRONT]:
        return 1
    fronts = np.ndarray(((end - place) // size,), np.uint64, content, place, (size,))
    same = fronts == fronts[0]
    return len(same) if bool(same.all()) else int(np.argmin(same))


def fault_of(record_size: int, magic: int) -> DamageReason:
    """The fault of first bytes that belong neither to a record nor to filler."""
    if magic in MAGICS:
        return DamageReason.SIZE
    if magic == MAGIC_BLANK:
        return DamageReason.BLANK
    if magic == 0 and record_size == 0:
        return DamageReason.NOTHING
    return DamageReason.MAGIC


def or_unreadable(stop: Stop, window: FileWindow, size: int) -> Stop:
    """The same stop, or one that names unreadable bytes at its position as the cause."""
    lost = window.unreadable_in(stop.position, stop.position + size)
    return stop if lost is None else Stop(stop.position, DamageReason.UNREADABLE, lost[1])


def is_plausible(segment: Segment, position: int) -> bool:
    """Whether a large record has a plausible body, so that it is worth reading."""
    front = segment.window(position, HEADER_BYTES + 2 * IPV6_EXTRA_BYTES).content
    size, flags = unpack_front(front)[0], _unpack_length(front, SYSTEM_FLAG_START)[0]
    shift = IPV6_EXTRA_BYTES * (
        bool(flags & SystemFlag.BORN_HOST_IPV6) + bool(flags & SystemFlag.STORE_HOST_IPV6)
    )
    body_length = _unpack_length(front, HEADER_BYTES + shift - 4)[0]
    return bool(0 < size - body_length <= _BESIDE_BODY_MAX)


def check_records(
    segment: Segment, window: FileWindow, starts: list[int] | Int64s, end: int
) -> tuple[RecordPlaces, Stop | None]:
    """The valid records up to the first invalid one, and that one."""
    begins = np.asarray(starts, np.int64) - window.position
    sizes = np.append(begins[1:], end - window.position) - begins
    places, sound = locate(window.content, begins, sizes)
    first_unsound = len(begins) if bool(sound.all()) else int(np.argmin(sound))
    moved = np.zeros(0, np.bool_)
    if len(places.starts):
        moved = misplaced(places, segment.start + window.position)
    faults = moved | checksum_faults(places)
    if window.unreadable:
        # Zeros in place of unreadable bytes may look like a valid record.
        faults |= window.lacks(places.starts + window.position, places.ends + window.position)
    # Invalid records are missing in the places, so counts agree up to the first of them.
    first_fault = int(np.argmax(faults)) if bool(faults.any()) else len(faults)
    first = min(first_fault, first_unsound)
    if first == len(begins):
        return places, None
    reason = DamageReason.STRUCTURE
    if first_fault < first_unsound:
        reason = DamageReason.POSITION if moved[first_fault] else DamageReason.CHECKSUM
    stop = or_unreadable(Stop(int(starts[first]), reason), window, int(sizes[first]))
    return places.rows(0, first), stop


def find_record(segment: Segment, position: int) -> int | None:
    """The next position of a segment at which a valid record starts, or None."""
    return search_record(segment, position)[0]


def search_record(segment: Segment, position: int) -> tuple[int | None, int]:
    """The next position at which a valid record starts, or None, and the damage before it.

    Returns:
        The position, and the end of the last unreadable byte before it, or 0.
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
            # A magic code may cross the end of a window.
            begin = window.end if window.end >= end else window.end - _MAGIC_BYTES + 1  # noqa: PLW2901
    if segment.file().size() < segment.length:
        unreadable_end = segment.length  # Another process has shortened the file.
    return None, unreadable_end


def search_begin(segment: Segment, stop: Stop) -> int:
    """The earliest position at which the next record may start.

    A record at its stored position, whose lengths add up, ends where it says even if its checksum
    is wrong, or part of it is unreadable. Nothing inside is searched: the sender could have put
    something that looks like a record of a forbidden topic into the body.
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
    # Unreadable bytes are unknown: a record can only start after them.
    return max(position, stop.unreadable_end if position == stop.position else 0)


def _size_in_place(segment: Segment, position: int) -> int | None:
    """Size of the record at a position if only its content may be wrong, or None."""
    size = _front_size(segment, position)
    if size is None:
        return None
    window = segment.window(position, size)
    places, sound = locate(window.content, np.array([0]), np.array([size]))
    if sound[0]:
        return None if misplaced(places, segment.start + position)[0] else size
    if window.unreadable_in(position, position + RECORD_BYTES_MIN) is None and window.unreadable:
        return size  # The header is whole and at its place, but the lengths are unreadable.
    return None


def _front_size(segment: Segment, position: int) -> int | None:
    """The size of a record at its stored position, by its first bytes, or None."""
    if position < 0 or position + RECORD_BYTES_MIN > segment.length:
        return None
    front = segment.window(position, RECORD_BYTES_MIN).content
    size, magic = unpack_front(front)
    if magic not in MAGICS or not RECORD_BYTES_MIN <= size <= segment.length - position:
        return None
    # The stored position is cheap to check, and excludes everything that is no record.
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
