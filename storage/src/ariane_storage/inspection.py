"""Checking a closed store from end to end: every record, and everything that leads to one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ariane_storage.closed_store import ClosedStore
from ariane_storage.dispatch import Rows
from ariane_storage.fields import Int64s
from ariane_storage.finding import Finding
from ariane_storage.queue_inspection import ExpectedQueue, check_queues
from ariane_storage.recovery import Progress, ProgressCallback
from ariane_storage.scan import Damage, DamageReason, Ending, scan


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


def inspect(store: ClosedStore, progress: ProgressCallback | None = None) -> Inspection:
    """Scan the whole log, then compare consume queues and index with it.

    Records of deleted topics count as records; they have no queue, and none is missed.

    Args:
        store: The store.
        progress: Told now and then how far it is.
    """
    found = Inspection()
    expected: dict[tuple[str, int], ExpectedQueue] = {}
    starts: list[Int64s] = []
    begin = store.log.min_offset
    total = store.log.segments[-1].end - begin if store.log.segments else 0
    found.findings += _missing_end(store)
    for event in scan(store.log.walk(begin), begin):
        if isinstance(event, Damage):
            found.findings.append(Finding("commit log", event.reason.value, event.begin, event.end))
        elif isinstance(event, Ending):
            found.end_offset = event.commit_log_offset
            found.findings += _end_of_log(store, event)
        else:
            rows = Rows.of(event)
            starts.append(rows.commit_log_offsets)
            found.records += len(rows.topics)
            _collect(store, rows, expected)
            if progress is not None:
                progress(Progress("check the commit log", event.end - begin, total))
    found.queues = set(expected)
    found.topics = {topic for topic, _ in expected}
    offsets = np.concatenate(starts) if starts else np.empty(0, np.int64)
    if len(offsets):
        found.first_offset, found.last_offset = int(offsets[0]), int(offsets[-1])
    if store.deleted_topics_fault:
        found.findings.append(Finding("deleted topics", store.deleted_topics_fault, 0, 0))
    if store.idle_queues_fault:
        found.findings.append(Finding("idle queues", store.idle_queues_fault, 0, 0))
    found.findings += check_queues(store, expected)
    found.findings += _check_index(store, offsets)
    return found


def _log_end(store: ClosedStore) -> int:
    """Where the last segment ends."""
    return store.log.segments[-1].end if store.log.segments else store.log.min_offset


def _end_of_log(store: ClosedStore, ending: Ending) -> Iterator[Finding]:
    """What lies behind the last record: a torn tail, or damage where records were durable."""
    flushed = store.checkpoint.flushed_offset if store.checkpoint is not None else 0
    if ending.commit_log_offset < flushed <= _log_end(store):
        is_there = store.log.segment_at(ending.commit_log_offset) is not None
        nothing = DamageReason.NOTHING if is_there else DamageReason.SEGMENT_MISSING
        reason = ending.reason or nothing
        yield Finding("commit log", reason.value, ending.commit_log_offset, flushed)
    elif ending.reason is not None:
        yield Finding("tail", ending.reason.value, ending.commit_log_offset, _log_end(store))


def _missing_end(store: ClosedStore) -> Iterator[Finding]:
    """Segments that are gone from the end of the log although the checkpoint knows of them."""
    end = _log_end(store)
    if store.checkpoint is not None and end < store.checkpoint.flushed_offset:
        reason = DamageReason.SEGMENT_MISSING.value
        yield Finding("commit log", reason, end, store.checkpoint.flushed_offset)


def _collect(
    store: ClosedStore, rows: Rows, expected: dict[tuple[str, int], ExpectedQueue]
) -> None:
    for (topic, queue_id), members in rows.groups().items():
        chosen = np.array(members, np.int64)
        deleted_end = store.deleted_topics.end_of(topic)
        chosen = chosen[rows.commit_log_offsets[chosen] >= deleted_end]
        if not len(chosen):
            continue
        queue = expected.setdefault((topic, queue_id), ExpectedQueue())
        chosen = chosen[rows.has_entry[chosen]]
        if len(chosen):
            queue.queue_offsets.append(rows.queue_offsets[chosen])
            queue.entries.append(rows.entries(chosen, store.config.delay_levels_ms))


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
