"""Checking a closed store from end to end: every record, and everything that leads to one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ariane_storage.closed_store import ClosedStore
from ariane_storage.consume_queue import ConsumeQueue
from ariane_storage.consume_queue_entry import HOLE_SIZE
from ariane_storage.dispatch import Rows
from ariane_storage.fields import Int64s
from ariane_storage.recovery import Progress, ProgressCallback
from ariane_storage.scan import Damage, DamageReason, Ending, scan

_ENTRIES_AT_ONCE = 65_536
_ENTRIES_MISSING: Final = "entries missing"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be.

    Attributes:
        where: "commit log", "tail", "consume queue", "index" or "queue offsets".
        reason: What is wrong.
        begin: Commit-log offset, or queue offset, at which it begins.
        end: Where it ends.
        topic: Topic of the queue, or nothing.
        queue_id: Number of the queue, or -1.
    """

    where: str
    reason: str
    begin: int
    end: int
    topic: str = ""
    queue_id: int = -1


@dataclass(slots=True)
class Inspection:
    """What a store holds.

    Attributes:
        records: Valid records.
        topics: Topics that they have.
        queues: Queues that they have.
        first_offset: Commit-log offset of the first valid record, or -1.
        last_offset: Commit-log offset of the last valid record, or -1.
        end_offset: Where the log ends.
        findings: What is not as it should be, damage of the commit log first.
    """

    records: int = 0
    topics: set[str] = field(default_factory=set)
    queues: set[tuple[str, int]] = field(default_factory=set)
    first_offset: int = -1
    last_offset: int = -1
    end_offset: int = 0
    findings: list[Finding] = field(default_factory=list)

    @property
    def damaged(self) -> list[Finding]:
        """Damaged ranges of the commit log, those that no rebuild can mend."""
        return [finding for finding in self.findings if finding.where == "commit log"]

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong but a torn tail, which the next start cuts."""
        return all(finding.where == "tail" for finding in self.findings)


@dataclass(slots=True)
class _QueueColumns:
    """What the log says of one queue."""

    queue_offsets: list[Int64s] = field(default_factory=list)
    commit_log_offsets: list[Int64s] = field(default_factory=list)
    sizes: list[Int64s] = field(default_factory=list)


def inspect(store: ClosedStore, progress: ProgressCallback | None = None) -> Inspection:
    """Scan the whole log, then compare consume queues and index with it.

    Args:
        store: The store.
        progress: Told now and then how far it is.
    """
    found = Inspection()
    columns: dict[tuple[str, int], _QueueColumns] = {}
    starts: list[Int64s] = []
    begin = store.log.min_offset
    total = store.log.segments[-1].end - begin if store.log.segments else 0
    found.findings += _missing_end(store)
    for event in scan(store.log.walk(begin), begin):
        if isinstance(event, Damage):
            found.findings.append(Finding("commit log", event.reason.value, event.begin, event.end))
        elif isinstance(event, Ending):
            found.end_offset = event.offset
            if event.reason is not None:
                end = store.log.segments[-1].end
                found.findings.append(Finding("tail", event.reason.value, event.offset, end))
        else:
            rows = Rows.of(event)
            starts.append(rows.commit_log_offsets)
            found.records += len(rows.topics)
            _collect(rows, columns)
            if progress is not None:
                progress(Progress("check the commit log", event.end - begin, total))
    found.queues = set(columns)
    found.topics = {topic for topic, _ in columns}
    offsets = np.concatenate(starts) if starts else np.empty(0, np.int64)
    if len(offsets):
        found.first_offset, found.last_offset = int(offsets[0]), int(offsets[-1])
    for (topic, queue_id), column in sorted(columns.items()):
        queue = store.queues.find(topic, queue_id)
        found.findings += [
            finding
            for finding in _check_queue(topic, queue_id, queue, column)
            # After a crash queues are behind the log, and the next start sees to it.
            if not (store.crashed and finding.reason == _ENTRIES_MISSING)
        ]
    found.findings += _check_index(store, offsets)
    return found


def _missing_end(store: ClosedStore) -> Iterator[Finding]:
    """Segments that are gone from the end of the log although the checkpoint knows of them."""
    end = store.log.segments[-1].end if store.log.segments else store.log.min_offset
    if store.checkpoint is not None and end < store.checkpoint.flushed_offset:
        reason = DamageReason.SEGMENT_MISSING.value
        yield Finding("commit log", reason, end, store.checkpoint.flushed_offset)


def _collect(rows: Rows, columns: dict[tuple[str, int], _QueueColumns]) -> None:
    for queue, members in rows.groups().items():
        chosen = np.array(members, np.int64)
        chosen = chosen[rows.has_entry[chosen]]
        column = columns.setdefault(queue, _QueueColumns())
        column.queue_offsets.append(rows.queue_offsets[chosen])
        column.commit_log_offsets.append(rows.commit_log_offsets[chosen])
        column.sizes.append(rows.sizes[chosen])


def _check_queue(
    topic: str, queue_id: int, queue: ConsumeQueue | None, column: _QueueColumns
) -> Iterator[Finding]:
    """Compare a queue with the log, both ways."""
    queue_offsets = np.concatenate(column.queue_offsets)
    commit_log_offsets = np.concatenate(column.commit_log_offsets)
    sizes = np.concatenate(column.sizes)
    if not len(queue_offsets):
        return
    steps = np.diff(queue_offsets)
    if bool((steps != 1).any()):
        place = int(np.argmax(steps != 1))
        jump = int(queue_offsets[place]), int(queue_offsets[place + 1])
        reason = "queue offset used again" if jump[1] <= jump[0] else "queue offsets missing"
        yield Finding("queue offsets", reason, *jump, topic, queue_id)
        return
    first, end = int(queue_offsets[0]), int(queue_offsets[-1]) + 1
    written = queue.end_offset if queue is not None else first
    if queue is None or written < end:
        yield Finding("consume queue", _ENTRIES_MISSING, max(first, written), end, topic, queue_id)
    if queue is None:
        return
    if written > end:
        yield Finding("consume queue", "entries beyond the log", end, written, topic, queue_id)
    for begin in range(max(first, queue.min_offset), min(written, end), _ENTRIES_AT_ONCE):
        entries = queue.entries(begin, min(_ENTRIES_AT_ONCE, min(written, end) - begin))
        part = slice(begin - first, begin - first + len(entries))
        wrong = (entries["commit_log_offset"] != commit_log_offsets[part]) | (
            entries["size"] != sizes[part]
        )
        for place in np.flatnonzero(wrong).tolist():
            hole = int(entries["size"][place]) == HOLE_SIZE
            reason = "hole in the place of a record" if hole else "leads to another place"
            queue_offset = begin + place
            yield Finding("consume queue", reason, queue_offset, queue_offset + 1, topic, queue_id)


def _check_index(store: ClosedStore, record_starts: Int64s) -> Iterator[Finding]:
    """Every item of the index leads to a record, or to one that is deleted."""
    if store.index_fault:
        yield Finding("index", store.index_fault, 0, 0)
        return
    for offsets in store.index.offsets():
        kept = offsets[offsets >= store.log.min_offset]
        stray = kept[~np.isin(kept, record_starts)]
        if len(stray):
            first, last = int(stray.min()), int(stray.max())
            yield Finding("index", f"{len(stray)} items lead to no record", first, last)
