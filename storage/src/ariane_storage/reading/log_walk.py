"""Walks over the records of an open log, for rebuilding state.

A stretch can be cut at any record, so several states can share one walk although their snapshots
end at different places.
"""

from __future__ import annotations

from collections.abc import Iterator

from ariane_storage.errors import StorageError
from ariane_storage.log.commit_log import CommitLog
from ariane_storage.log.scan import Stretch, scan
from ariane_storage.reading.record_finder import RecordFinder


def stretches_of_log(log: CommitLog, begin: int) -> Iterator[Stretch]:
    """All records from an offset to the end of the log as it is now, some at a time.

    Args:
        log: The commit log.
        begin: The start of a record, or the end of the log.
    """
    end = log.write_offset
    begin = max(begin, log.min_offset)
    if begin >= end:
        return
    for event in scan(log.walk(begin), begin):
        if isinstance(event, Stretch):
            yield event.between(begin, end)
            if event.end >= end:
                return


def offset_before(log: CommitLog, finder: RecordFinder, timestamp_ms: int) -> int:
    """The start of a segment below which every record was stored before a time."""
    for segment in reversed(log.segments):
        if segment.start >= log.write_offset:
            continue
        try:
            if finder.store_timestamp_at(segment.start) < timestamp_ms:
                return segment.start
        except StorageError:
            continue  # Damaged: an older segment decides.
    return log.min_offset
