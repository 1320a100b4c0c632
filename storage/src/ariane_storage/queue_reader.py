"""Reading message queues of an open store."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np

from ariane_record.layout import RECORD_BYTES_MIN, QueueOffset
from ariane_storage.consume_queue import ConsumeQueue
from ariane_storage.consume_queue_entry import ENTRY, Entries
from ariane_storage.errors import QueueOffsetOutOfRange
from ariane_storage.fields import Int64s
from ariane_storage.parts import StoreParts
from ariane_storage.queue_repair import settle_fault
from ariane_storage.read import QueueRead, QueueReadStatus, Selection, gather, select, whole_record
from ariane_storage.record_finder import entry_timestamp
from ariane_storage.time_lookup import TimeBoundary, find_by_time

ENTRIES_AT_ONCE_MIN: Final = 1024
"""Fewer entries than that are looked at in one step."""


class QueueReader:
    """Reads message queues. The appending thread."""

    def __init__(self, parts: StoreParts) -> None:
        self._parts = parts

    def bounds(self, topic: str, queue_id: int, limit: int | None) -> tuple[int, int]:
        """The oldest queue offset kept and the end of the readable part."""
        queue = self._parts.queues.find(topic, queue_id)
        return (0, 0) if queue is None else self._bounds(queue, limit)

    def _bounds(self, queue: ConsumeQueue, limit: int | None) -> tuple[int, int]:
        end = queue.end_below(self._parts.readable_end(limit))
        return queue.min_offset, max(end, queue.min_offset)

    def read(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        *,
        max_count: int,
        max_bytes: int,
        tag_codes: Collection[int] | None,
        limit: int | None,
    ) -> QueueRead:
        """Read from a queue; see ``Store.read_queue``."""
        parts = self._parts
        parts.check_open()
        queue = parts.queues.find(topic, queue_id)
        low, high = (0, 0) if queue is None else self._bounds(queue, limit)
        if not low <= queue_offset <= high:
            raise QueueOffsetOutOfRange(topic, queue_id, queue_offset, low, high)
        if queue is None or queue_offset == high or max_count <= 0:
            return _nothing(QueueReadStatus.EMPTY, queue_offset, low, high)
        window = max_count
        if tag_codes is not None:
            window = max(window, parts.config.scan_entries_max)
        count = min(window, high - queue_offset)
        if count == 1:
            only = self._read_one(queue, queue_offset, tag_codes, (low, high))
            if only is not None:
                return only
        entries, selection = _chosen(
            queue,
            queue_offset,
            count,
            max_count=max_count,
            max_bytes=max_bytes,
            tag_codes=tag_codes,
        )
        faults: list[int] = []
        chunks, sizes = gather(
            parts.log,
            selection,
            trusted_from=parts.trusted_from,
            on_fault=faults.append,
        )
        if faults or bool((entries["size"] <= 0).any()):
            settled = self._settle(queue, queue_offset, entries, faults)
            if settled:
                return self.read(
                    topic,
                    queue_id,
                    queue_offset,
                    max_count=max_count,
                    max_bytes=max_bytes,
                    tag_codes=tag_codes,
                    limit=limit,
                )
        following = selection.next_queue_offset
        if not len(sizes):
            return _nothing(QueueReadStatus.FILTERED, following, low, high)
        return QueueRead(
            status=QueueReadStatus.FOUND,
            next_queue_offset=QueueOffset(following),
            min_queue_offset=QueueOffset(low),
            max_queue_offset=QueueOffset(high),
            chunks=chunks,
            sizes=sizes.astype("i4"),
        )

    def _read_one(
        self,
        queue: ConsumeQueue,
        queue_offset: int,
        tag_codes: Collection[int] | None,
        bounds: tuple[int, int],
    ) -> QueueRead | None:
        """The only message that there is to read, if nothing is to be said against it."""
        commit_log_offset, size, tag_code = queue.entry_at(queue_offset)
        if tag_codes is not None and tag_code not in tag_codes:
            return None
        record = whole_record(
            self._parts.log,
            commit_log_offset,
            size,
            queue_offset,
            trusted_from=self._parts.trusted_from,
        )
        if record is None:
            return None
        return QueueRead(
            status=QueueReadStatus.FOUND,
            next_queue_offset=QueueOffset(queue_offset + 1),
            min_queue_offset=QueueOffset(bounds[0]),
            max_queue_offset=QueueOffset(bounds[1]),
            chunks=[record],
            sizes=np.array((size,), np.int32),
        )

    def _settle(
        self, queue: ConsumeQueue, queue_offset: int, entries: Entries, faults: list[int]
    ) -> bool:
        """See to what a read has passed over; returns whether another read finds more.

        Between the ends of a queue every entry says something: zeros mean that a file was damaged,
        and no record has a negative size.
        """
        empty = np.flatnonzero(entries["size"] <= 0) + queue_offset
        settled = [
            settle_fault(self._parts, queue, fault) for fault in sorted({*faults, *empty.tolist()})
        ]
        return any(settled)

    def offset_behind(self, topic: str, queue_id: int, commit_log_offset: int) -> int:
        """The first queue offset behind; see ``Store.queue_offset_behind``."""
        self._parts.check_open()
        queue = self._parts.queues.find(topic, queue_id)
        if queue is None:
            return 0
        low, high = self._bounds(queue, None)
        return max(low, min(queue.first_at_or_above(commit_log_offset), high))

    def entries(self, topic: str, queue_id: int, queue_offset: int, max_count: int) -> Entries:
        """Entries of a queue; see ``Store.queue_entries``."""
        self._parts.check_open()
        queue = self._parts.queues.find(topic, queue_id)
        if queue is None:
            return np.empty(0, ENTRY)
        return queue.entries(max(queue_offset, queue.min_offset), max_count)

    def records(self, selection: Selection) -> tuple[bytes, Int64s, Int64s]:
        """Records by their entries; see ``Store.records_of``."""
        parts = self._parts
        parts.check_open()
        faults: list[int] = []
        chunks, sizes = gather(
            parts.log, selection, trusted_from=parts.trusted_from, on_fault=faults.append
        )
        found = selection.queue_offsets
        if faults:
            found = found[~np.isin(found, faults)]
        return b"".join(chunks), sizes, found

    def at_time(
        self,
        topic: str,
        queue_id: int,
        timestamp_ms: int,
        boundary: TimeBoundary,
        limit: int | None,
    ) -> int:
        """The queue offset of a time; see ``Store.queue_offset_at_time``."""
        parts = self._parts
        parts.check_open()
        queue = parts.queues.find(topic, queue_id)
        if queue is None:
            return 0
        low, high = self._bounds(queue, limit)

        def stored_at(queue_offset: int) -> int | None:
            commit_log_offset, size, _ = queue.entry_at(queue_offset)
            return entry_timestamp(parts.log, commit_log_offset, size)

        return find_by_time(low, high, timestamp_ms, boundary, stored_at)


def _chosen(
    queue: ConsumeQueue,
    queue_offset: int,
    count: int,
    *,
    max_count: int,
    max_bytes: int,
    tag_codes: Collection[int] | None,
) -> tuple[Entries, Selection]:
    """Choose from up to ``count`` entries, and tell those that were looked at.

    Where the bytes end a read long before the entries do, most of these need no look: first come
    about twice as many as will fit, and all only if those were not enough.
    """
    first_count = count
    if count > ENTRIES_AT_ONCE_MIN:
        _, size_bytes, _ = queue.entry_at(queue_offset)
        fitting = max_bytes // max(size_bytes, RECORD_BYTES_MIN)
        first_count = min(count, 2 * fitting + ENTRIES_AT_ONCE_MIN)
    while True:
        entries = queue.entries(queue_offset, first_count)
        selection = select(
            entries,
            queue_offset,
            max_count=max_count,
            max_bytes=max_bytes,
            tag_codes=tag_codes,
        )
        if first_count == count or selection.next_queue_offset < queue_offset + len(entries):
            return entries, selection
        first_count = count


def _nothing(status: QueueReadStatus, next_queue_offset: int, low: int, high: int) -> QueueRead:
    return QueueRead(
        status=status,
        next_queue_offset=QueueOffset(next_queue_offset),
        min_queue_offset=QueueOffset(low),
        max_queue_offset=QueueOffset(high),
    )
