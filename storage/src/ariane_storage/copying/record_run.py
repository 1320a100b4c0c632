"""Divides raw bytes of the log into records.

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

import numpy as np

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
from ariane_storage.log.records.fields import Int64s
from ariane_storage.log.scan import Stretch
from ariane_storage.log.segment import Segment


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
