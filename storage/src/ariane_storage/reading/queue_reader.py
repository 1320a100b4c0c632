"""Reading message queues of an open store."""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np

from ariane_record.decoding.columns import decode_columns
from ariane_record.layout import RECORD_BYTES_MIN, QueueOffset
from ariane_storage.errors import QueueOffsetOutOfRange, QueueUnderRepair
from ariane_storage.log.records.fields import Int64s
from ariane_storage.log.records.queue_identity import identity_of
from ariane_storage.parts import StoreParts
from ariane_storage.queues.consume_queue import ConsumeQueue
from ariane_storage.queues.consume_queue_entry import ENTRY, ENTRY_BYTES, HOLE_SIZE, Entries
from ariane_storage.queues.time_lookup import TimeBoundary, find_by_time
from ariane_storage.reading.entry_check import is_lost
from ariane_storage.reading.expiry import may_expire
from ariane_storage.reading.filter import Filter
from ariane_storage.reading.matching import matching
from ariane_storage.reading.read import (
    Gathered,
    QueueRead,
    QueueReadStatus,
    gather,
    is_record_of,
    whole_record,
)
from ariane_storage.reading.record_finder import store_timestamp
from ariane_storage.reading.selection import Selection, select, suspects

QueueName: TypeAlias = tuple[str, int]
"""Topic and queue id."""

LOOKED_AT_BYTES: Final = 1 << 20
"""Bytes of records that one read examines for a filter, however few pass; some 300 us. A filter
that compares each record several times examines that many times fewer."""

LOOKED_AT_BYTES_MAX: Final = 4 << 20
"""The same, if the reader wants more than that."""

ENTRIES_AT_ONCE_MIN: Final = 1024
"""A step examines at least this many entries."""


class QueueReader:
    """Reads message queues. The appending thread."""

    def __init__(self, parts: StoreParts) -> None:
        self._parts = parts

    def bounds(self, topic: str, queue_id: int, limit: int | None) -> tuple[int, int]:
        """The oldest queue offset kept and the end of the readable part."""
        queue = self._parts.queues.find(topic, queue_id)
        return (0, 0) if queue is None else self._bounds(queue, limit)

    def _bounds(self, queue: ConsumeQueue, limit: int | None) -> tuple[int, int]:
        parts = self._parts
        end = queue.end_below(
            parts.confirmed_offset if limit is None else parts.readable_end(limit)
        )
        begin = max(queue.min_offset, queue.shown_from)
        return begin, max(end, begin)

    def show_from(self, topic: str, queue_id: int, queue_offset: int) -> None:
        """Hide what is before a queue offset; see ``Store.show_from``."""
        queue = self._parts.queues.find(topic, queue_id)
        if queue is not None:
            queue.shown_from = min(queue_offset, queue.end_offset)

    def read(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        *,
        max_count: int,
        max_bytes: int,
        wanted: Filter | None,
        limit: int | None,
        now_ms: int,
    ) -> QueueRead:
        """Read from a queue; see ``Store.read_queue``."""
        parts = self._parts
        parts.check_open()
        queue = parts.queues.find(topic, queue_id)
        low, high = (0, 0) if queue is None else self._bounds(queue, limit)
        if not low <= queue_offset <= high:
            if queue is None or not self._is_hidden(queue, queue_offset, limit):
                raise QueueOffsetOutOfRange(topic, queue_id, queue_offset, low, high)
            high = queue_offset
        if queue is None or queue_offset == high or max_count <= 0:
            return _nothing(QueueReadStatus.EMPTY, queue_offset, low, high)
        window = max_count
        if wanted is not None:
            window = max(window, parts.config.scan_entries_max)
        count = min(window, high - queue_offset)
        if count == 1:
            only = self._read_one(queue, queue_offset, wanted, (low, high), now_ms)
            if only is not None:
                return only
        lost: list[int] = []
        found, following, looked_at_bytes = self._found(
            queue,
            queue_offset,
            count,
            max_count=max_count,
            max_bytes=max_bytes,
            wanted=wanted,
            lost=lost,
            now_ms=now_ms,
        )
        has_some = bool(len(found.sizes))
        return QueueRead(
            status=QueueReadStatus.FOUND if has_some else QueueReadStatus.FILTERED,
            next_queue_offset=QueueOffset(following),
            min_queue_offset=QueueOffset(low),
            max_queue_offset=QueueOffset(high),
            chunks=found.chunks,
            sizes=found.sizes.astype("i4"),
            looked_at_bytes=looked_at_bytes,
            expired_count=found.expired_count,
            lost_offsets=np.array(sorted(each for each in lost if each < following), np.int64),
        )

    def _found(
        self,
        queue: ConsumeQueue,
        queue_offset: int,
        count: int,
        *,
        max_count: int,
        max_bytes: int,
        wanted: Filter | None,
        lost: list[int],
        now_ms: int,
    ) -> tuple[Gathered, int, int]:
        """The matching records among some entries, the next offset, and the bytes examined.

        The queue offsets of damaged ones are added to ``lost``, also some behind the next offset.

        Raises:
            QueueUnderRepair: The first entry is wrong, or one that was passed over.
        """
        looks = 0 if wanted is None else wanted.looks_per_record
        examined_bytes = min(max(max_bytes, LOOKED_AT_BYTES), LOOKED_AT_BYTES_MAX)
        selection, entries = _chosen(
            queue,
            queue_offset,
            count,
            # Few of the examined records may remain.
            max_count=count if looks else max_count,
            max_bytes=examined_bytes // looks if looks else max_bytes,
            wanted=wanted,
        )
        # Only what passes can expire for its reader: a filter that looks at records comes first.
        found = self._gathered(queue, selection, lost, 0 if looks else now_ms)
        if len(selection.sizes) < selection.next_queue_offset - queue_offset:
            holes = entries["size"][: selection.next_queue_offset - queue_offset] == HOLE_SIZE
            lost += (np.flatnonzero(holes) + queue_offset).tolist()
        following = selection.next_queue_offset
        if found.stopped_at is not None:
            following = found.stopped_at
        if following == queue_offset:
            raise self._under_repair(queue, queue_offset)
        if wanted is not None and len(found.sizes) < following - queue_offset:
            self._check_passed(queue, queue_offset, entries[: following - queue_offset])
        looked_at_bytes = ENTRY_BYTES * (following - queue_offset)
        looked_at_bytes += max(1, looks) * int(found.sizes.sum())
        if wanted is not None and looks and len(found.sizes):
            found = matching(found, wanted, max_count=max_count, max_bytes=max_bytes, now_ms=now_ms)
            if found.stopped_at is not None:
                following = found.stopped_at
        return found, following, looked_at_bytes

    def _check_passed(self, queue: ConsumeQueue, begin: int, entries: Entries) -> None:
        """Look for entries of another time or queue among the entries that a filter has skipped.

        Their records are not read. But a stretch of a file that is foreign mostly shows at the
        edges of what was examined, or because its records do not follow one another.

        Raises:
            QueueUnderRepair: There is one.
        """
        parts, identity = self._parts, self._parts.identity_of(queue)
        for row in suspects(entries):
            commit_log_offset, size, _ = entries[row].item()
            queue_offset = begin + row
            if not is_record_of(
                parts.log, commit_log_offset, size, queue_offset, identity
            ) and not is_lost(parts.quarantine, queue, queue_offset):
                raise self._under_repair(queue, queue_offset)

    def _gathered(
        self, queue: ConsumeQueue, selection: Selection, lost: list[int], now_ms: int
    ) -> Gathered:
        parts = self._parts

        def is_known(queue_offset: int) -> bool:
            known = is_lost(parts.quarantine, queue, queue_offset)
            if known:
                lost.append(queue_offset)
            return known

        return gather(
            parts.log,
            selection,
            parts.identity_of(queue),
            trusted_from=parts.trusted_from,
            is_lost=is_known,
            now_ms=now_ms,
        )

    def _is_hidden(self, queue: ConsumeQueue, queue_offset: int, limit: int | None) -> bool:
        """Whether an offset is beyond the confirmed end only because some copies lack it.

        Another copy of this log may have handed out the messages before it.
        """
        is_copied = limit is None and self._parts.confirm_limit is not None
        return is_copied and queue.begin_offset <= queue_offset <= queue.end_offset

    def _under_repair(self, queue: ConsumeQueue, queue_offset: int) -> QueueUnderRepair:
        """Request the repair of a wrong entry."""
        self._parts.repairs.ask(queue, queue_offset)
        return QueueUnderRepair(queue.topic, queue.queue_id, queue_offset)

    def _read_one(
        self,
        queue: ConsumeQueue,
        queue_offset: int,
        wanted: Filter | None,
        bounds: tuple[int, int],
        now_ms: int,
    ) -> QueueRead | None:
        """The only message to read, if all quick checks pass."""
        commit_log_offset, size, _ = queue.entry_at(queue_offset)
        if wanted is not None and not bool(wanted.entries_mask(queue.entries(queue_offset, 1))[0]):
            return None
        record = whole_record(
            self._parts.log,
            commit_log_offset,
            size,
            queue_offset,
            self._parts.identity_of(queue),
            trusted_from=self._parts.trusted_from,
        )
        if record is None or (now_ms and may_expire(record)):
            return None
        sizes = np.array((size,), np.int32)
        looks = 0 if wanted is None else wanted.looks_per_record
        if wanted is not None and looks:
            columns = decode_columns(record, sizes)
            if not bool(wanted.records_mask(columns)[0]):
                return None
        return QueueRead(
            status=QueueReadStatus.FOUND,
            next_queue_offset=QueueOffset(queue_offset + 1),
            min_queue_offset=QueueOffset(bounds[0]),
            max_queue_offset=QueueOffset(bounds[1]),
            chunks=[record],
            sizes=sizes,
            looked_at_bytes=ENTRY_BYTES + max(1, looks) * size,
        )

    def end(self, topic: str, queue_id: int) -> int:
        """The next queue offset; see ``Store.queue_end``."""
        self._parts.check_open()
        queue = self._parts.queues.find(topic, queue_id)
        return 0 if queue is None else max(queue.min_offset, queue.end_offset)

    def offset_behind(self, topic: str, queue_id: int, commit_log_offset: int) -> int:
        """The first queue offset behind; see ``Store.queue_offset_behind``."""
        self._parts.check_open()
        queue = self._parts.queues.find(topic, queue_id)
        if queue is None:
            return 0
        # Messages that are not confirmed are not lost, though they cannot be read yet.
        behind = min(queue.first_at_or_above(commit_log_offset), queue.end_offset)
        return max(queue.begin_offset, behind)

    def entries(self, topic: str, queue_id: int, queue_offset: int, max_count: int) -> Entries:
        """Entries of a queue; see ``Store.queue_entries``."""
        self._parts.check_open()
        queue = self._parts.queues.find(topic, queue_id)
        if queue is None:
            return np.empty(0, ENTRY)
        return queue.entries(max(queue_offset, queue.begin_offset), max_count)

    def records(self, queue: QueueName, selection: Selection) -> tuple[bytes, Int64s, Int64s]:
        """Records by their places; see ``Store.records_of``."""
        parts = self._parts
        parts.check_open()
        found = gather(
            parts.log,
            selection,
            identity_of(*queue, 0),
            trusted_from=parts.trusted_from,
            is_lost=lambda _: True,
        )
        return b"".join(found.chunks), found.sizes, found.queue_offsets

    def check_lost(self, name: QueueName, queue_offsets: Int64s) -> None:
        """Check that messages are really lost; see ``Store.check_lost``."""
        parts = self._parts
        parts.check_open()
        queue = parts.queues.find(*name)
        if queue is None:
            return
        for queue_offset in queue_offsets.tolist():
            if not queue.min_offset <= queue_offset < queue.end_offset:
                continue
            is_hole = queue.entry_at(queue_offset)[1] == HOLE_SIZE
            if not is_hole and not is_lost(parts.quarantine, queue, queue_offset):
                raise self._under_repair(queue, queue_offset)

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
            if size == HOLE_SIZE:
                return None
            record = whole_record(
                parts.log,
                commit_log_offset,
                size,
                queue_offset,
                parts.identity_of(queue),
                trusted_from=parts.trusted_from,
            )
            if record is not None:
                return store_timestamp(record)
            if is_lost(parts.quarantine, queue, queue_offset):
                return None
            raise self._under_repair(queue, queue_offset)

        return find_by_time(
            low,
            high,
            timestamp_ms,
            boundary,
            stored_at=stored_at,
            next_message=queue.next_message,
            last_message=queue.last_message,
        )


def _chosen(
    queue: ConsumeQueue,
    queue_offset: int,
    count: int,
    *,
    max_count: int,
    max_bytes: int,
    wanted: Filter | None,
) -> tuple[Selection, Entries]:
    """Choose from up to ``count`` entries; returns the examined ones, too.

    If the byte limit ends a read long before the entries do, most of these are not needed: first
    about twice as many as will fit are tried, and all of them only if those were not enough.
    """
    first_count = count
    if count > ENTRIES_AT_ONCE_MIN:
        _, size_bytes, _ = queue.entry_at(queue_offset)
        fitting = max_bytes // max(size_bytes, RECORD_BYTES_MIN)
        first_count = min(count, 2 * fitting + ENTRIES_AT_ONCE_MIN)
    while True:
        entries = queue.entries(queue_offset, first_count)
        nothing = entries["size"] <= 0
        if bool(nothing.any()):
            # Every entry within the queue's bounds is real or a hole: the file is damaged here.
            first_count = count = int(np.argmax(nothing))
            entries = entries[:count]
            if not count:
                none = Selection(*3 * (np.empty(0, np.int64),), next_queue_offset=queue_offset)
                return none, entries
        selection = select(
            entries,
            queue_offset,
            max_count=max_count,
            max_bytes=max_bytes,
            wanted=wanted,
        )
        if first_count == count or selection.next_queue_offset < queue_offset + len(entries):
            return selection, entries
        first_count = count


def _nothing(status: QueueReadStatus, next_queue_offset: int, low: int, high: int) -> QueueRead:
    return QueueRead(
        status=status,
        next_queue_offset=QueueOffset(next_queue_offset),
        min_queue_offset=QueueOffset(low),
        max_queue_offset=QueueOffset(high),
    )
