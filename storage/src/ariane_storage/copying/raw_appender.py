"""Appending bytes of another copy of the log, exactly where they lie there.

Records are checked as recovery checks them, written as they are, and dispatched to consume queues
and index. Bytes of a record that has not come as a whole wait in memory, so that the log ends
behind a whole record at all times.
"""

from __future__ import annotations

from typing import NamedTuple

from ariane_storage.copying.record_run import RecordRun, record_run
from ariane_storage.errors import LogPositionMismatch, RawBytesRefused, StoreFull
from ariane_storage.log.scan import Stretch
from ariane_storage.log.segment import Segment
from ariane_storage.parts import StoreParts
from ariane_storage.queues.dispatch import Dispatcher

_NO_LIMIT = 1 << 62


class RawAppended(NamedTuple):
    """What an append of raw bytes has done.

    Attributes:
        stretches: The records that are in the log now, in its order.
        max_offset: Where the log ends now.
    """

    stretches: tuple[Stretch, ...]
    max_offset: int


class RawAppender:
    """Takes the bytes of another log, one run after the other. The appending thread."""

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
        """Commit-log offset of the byte that is to come next."""
        return self._parts.log.write_offset + len(self._waiting)

    def forget_waiting(self) -> None:
        """Forget bytes of a record that is not whole: they will come again."""
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
                break  # Filler, too, is taken once the segment has come as a whole.
            if not run.has_filler:
                raise RawBytesRefused(begin + run.size_bytes, "a record spans two segments")
            position = segment.size - (len(part) - run.size_bytes)
            parts.guard.watch(lambda: segment.fill_rest(position))  # noqa: B023 - runs at once.
            parts.log.advance(segment.end)
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
        parts.log.advance(begin + run.size_bytes)
