"""Raw bytes of the log, cut into the records that they are made of.

::

    +--------+--------+--------+----------+-------------+
    | record | record | record | filler   | zeros       |   the last bytes of a segment
    +--------+--------+--------+----------+-------------+

    +--------+--------+-----
    | record | record | rec                                 the last one comes with the next bytes
    +--------+--------+-----
"""

from __future__ import annotations

from typing import NamedTuple

from ariane_record.layout import BLANK_SIZE_MIN_BYTES, MAGIC_BLANK, RECORD_BYTES_MIN
from ariane_storage.errors import RawBytesRefused
from ariane_storage.log.file_window import FileWindow
from ariane_storage.log.record_search import (
    MAGICS,
    check_records,
    even_run,
    fault_of,
    unpack_front,
)
from ariane_storage.log.scan import Stretch
from ariane_storage.log.segment import Segment


class RecordRun(NamedTuple):
    """Whole records at the beginning of some bytes.

    Attributes:
        records: They; None where not even one is whole.
        size_bytes: How long they are together.
        has_filler: Whether the filler follows, so that the segment is full.
    """

    records: Stretch | None
    size_bytes: int
    has_filler: bool


def record_run(segment: Segment, position: int, content: memoryview) -> RecordRun:
    """The whole records that some bytes of a segment begin with, each checked.

    Args:
        segment: The segment.
        position: Where in it the bytes begin: at a record.
        content: The bytes; none beyond the end of the segment.

    Raises:
        RawBytesRefused: They are not what a log holds there.
    """
    starts: list[int] = []
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
        starts.extend(range(position + place, position + place + count * size, size))
        place += count * size
    if not starts:
        return RecordRun(None, 0, has_filler)
    window = FileWindow(position, content[:place])
    places, fault = check_records(segment, window, starts, position + place)
    if fault is not None:
        raise RawBytesRefused(segment.start + fault.position, fault.reason.value)
    return RecordRun(Stretch(segment, segment.start + position, places), place, has_filler)
