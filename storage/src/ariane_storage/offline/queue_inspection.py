"""Comparison of a closed store's consume queues with its log, both ways.

An entry has no checksum. So every field of every entry is compared with its record: offset, size,
and the code of the tag, by which brokers choose what a consumer gets. Differences are reported as
ranges of queue offsets, one for each reason.

Entries that point into damage of the log are right, and show which messages were lost there.

The comparison runs beside the scan of the log, so it holds only some of the records at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_record.names import DELAY_TOPIC, TIMER_TOPIC
from ariane_storage.log.damage import Damage
from ariane_storage.log.records.fields import Int64s
from ariane_storage.log.segment import segment_name
from ariane_storage.offline.closed_store import ClosedStore
from ariane_storage.offline.finding import Finding, FindingState
from ariane_storage.queues.consume_queue import ConsumeQueue
from ariane_storage.queues.consume_queue_entry import ENTRY_BYTES, HOLE_SIZE, Entries
from ariane_storage.queues.record_rows import Rows

_ENTRIES_AT_ONCE: Final = 65_536
_HELD_MAX: Final = 1 << 18
"""Records that are held before they are compared with their queues."""
_MISSING: Final = "queue offsets missing"
_TIME_MS_MIN: Final = 1_000_000_000_000
"""The year 2001: no message is due earlier."""


class QueueChecks:
    """Compares all queues with the log, while it is scanned."""

    def __init__(self, store: ClosedStore) -> None:
        self._store = store
        self._queues: dict[tuple[str, int], _Comparison] = {}
        self._held = 0

    @property
    def spans(self) -> dict[tuple[str, int], tuple[int, int]]:
        """First queue offset and end of each queue that the log has records of."""
        return {name: (queue.first, queue.end) for name, queue in self._queues.items()}

    def take(self, rows: Rows) -> None:
        """Take the next records of the log. Those of deleted topics need no entry."""
        store = self._store
        for (topic, queue_id), of_queue in rows.groups().items():
            deleted_end = store.deleted_topics.end_of(topic)
            chosen = of_queue[rows.commit_log_offsets[of_queue] >= deleted_end]
            if not len(chosen):
                continue
            queue = self._queues.get((topic, queue_id))
            if queue is None:
                queue = self._queues[topic, queue_id] = _Comparison(store, topic, queue_id)
            chosen = chosen[rows.has_entry[chosen]]
            if len(chosen):
                queue.queue_offsets.append(rows.queue_offsets[chosen])
                queue.entries.append(rows.entries(chosen, store.config.delay_levels_ms))
                if topic == TIMER_TOPIC:
                    queue.tag_hashes.append(rows.tag_hashes(chosen))
                self._held += len(chosen)
        if self._held >= _HELD_MAX:
            self._compare()

    def finish(self, lost: Sequence[tuple[int, int]]) -> Iterator[Finding]:
        """All differences, when the whole log was taken.

        Args:
            lost: Damaged ranges of the log, as begin and end.
        """
        self._compare()
        for _, comparison in sorted(self._queues.items(), key=_name):
            yield from comparison.finish(lost)
        for queue in self._store.queues:
            known = self._queues.get((queue.topic, queue.queue_id))
            if (known is None or not known.end) and not _will_go(self._store, queue):
                yield from _without_records(self._store, queue, lost)

    def _compare(self) -> None:
        for queue in self._queues.values():
            queue.compare_held()
        self._held = 0


def queues_before(store: ClosedStore, gone: Damage) -> Iterator[Finding]:
    """Messages that were lost with segments at the begin of the log, as queues still show them."""
    for queue in store.queues:
        begin = queue.first_at_or_above(gone.begin)
        end = queue.first_at_or_above(gone.end)
        if begin < end:
            comparison = _Comparison(store, queue.topic, queue.queue_id)
            yield comparison.lost_messages(begin, end)


def _will_go(store: ClosedStore, queue: ConsumeQueue) -> bool:
    """Whether a crash has left a deleted topic's queue: the next start removes it."""
    return store.crashed and queue.last_record_end <= store.deleted_topics.end_of(queue.topic)


def _name(queue: tuple[tuple[str, int], _Comparison]) -> tuple[str, int]:
    return queue[0]


def _without_records(
    store: ClosedStore, queue: ConsumeQueue, lost: Sequence[tuple[int, int]]
) -> Iterator[Finding]:
    """Check a queue without records in the log: it may only point to deleted ones."""
    begin = queue.first_at_or_above(store.log.min_offset)
    if begin < queue.end_offset:
        deleted = queue.last_record_end <= store.deleted_topics.end_of(queue.topic)
        reason = "queue of a deleted topic" if deleted else "leads to no record"
        comparison = _Comparison(store, queue.topic, queue.queue_id)
        end = queue.end_offset
        yield from comparison.beyond_the_log(queue, begin, end, reason, () if deleted else lost)


@dataclass(slots=True)
class _Comparison:
    """The comparison of one queue with the log."""

    store: ClosedStore
    topic: str
    queue_id: int
    queue_offsets: list[Int64s] = field(default_factory=list)
    """Queue offsets of the next records that have an entry, stretch by stretch."""
    entries: list[Entries] = field(default_factory=list)
    """The entry of each, as it follows from the log."""
    tag_hashes: list[Int64s] = field(default_factory=list)
    """Of the timer topic, the hash of each record's tag."""
    first: int = 0
    """The first queue offset of all records so far."""
    end: int = 0
    """Behind their last one; 0 without any."""
    jumps: list[Finding] = field(default_factory=list)
    """Queue offsets that the log lacks, or has twice."""
    is_ambiguous: bool = False
    """Whether it has any twice: no entry's record is known then."""
    wrong: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Ranges of queue offsets whose entries differ, by reason."""

    def compare_held(self) -> None:
        """Compare the records that were taken since the last time, and forget them."""
        if not self.queue_offsets:
            return
        queue_offsets, entries = np.concatenate(self.queue_offsets), np.concatenate(self.entries)
        tag_hashes = np.concatenate(self.tag_hashes) if self.tag_hashes else None
        for held in (self.queue_offsets, self.entries, self.tag_hashes):
            held.clear()
        if not self.end:
            self.first = self.end = int(queue_offsets[0])
        before = np.concatenate(([self.end - 1], queue_offsets[:-1]))
        for place in np.flatnonzero(queue_offsets - before != 1).tolist():
            jump = int(before[place]), int(queue_offsets[place])
            if jump[1] <= jump[0]:
                self.is_ambiguous = True
                state = FindingState.BY_HAND
                self.jumps.append(self._of_offsets("queue offset used again", *jump, state))
            else:
                self.jumps.append(self.lost_messages(jump[0] + 1, jump[1]))
        self.end = int(queue_offsets[-1]) + 1
        queue = self._queue()
        if queue is not None and not self.is_ambiguous:
            kept = (queue_offsets >= queue.min_offset) & (queue_offsets < queue.end_offset)
            kept_hashes = None if tag_hashes is None else tag_hashes[kept]
            self._compare_entries(queue, queue_offsets[kept], entries[kept], kept_hashes)

    def finish(self, lost: Sequence[tuple[int, int]]) -> Iterator[Finding]:
        """All differences; ``lost`` are damaged ranges of the log."""
        yield from self.jumps
        if self.is_ambiguous or not self.end:
            return
        queue, first, end = self._queue(), self.first, self.end
        written = queue.end_offset if queue is not None else first
        if queue is not None and first < queue.min_offset:
            yield self._of_entries("entries missing", first, min(end, queue.min_offset))
        # After a crash queues are behind the log, and the next start mends it.
        if written < end and not self.store.crashed:
            yield self._of_entries("entries missing", max(first, written), end)
        if queue is not None and written > end:
            yield from self.beyond_the_log(queue, end, written, "entries beyond the log", lost)
        for reason, ranges in self.wrong.items():
            for begin, behind in ranges:
                yield self._of_entries(reason, begin, behind)

    def _queue(self) -> ConsumeQueue | None:
        """The queue as it is written; None if its topic was deleted and created anew."""
        queue = self.store.queues.find(self.topic, self.queue_id)
        return None if queue is None or _will_go(self.store, queue) else queue

    def beyond_the_log(
        self,
        queue: ConsumeQueue,
        begin: int,
        end: int,
        reason: str,
        lost: Sequence[tuple[int, int]],
    ) -> Iterator[Finding]:
        """Entries without a record: of lost messages, or of none that ever existed."""
        for first in range(begin, end, _ENTRIES_AT_ONCE):
            found = queue.entries(first, min(_ENTRIES_AT_ONCE, end - first))
            is_hole = found["size"] == HOLE_SIZE
            into_damage = is_hole & bool(lost)
            for lost_begin, lost_end in lost:
                places = found["commit_log_offset"]
                into_damage |= ~is_hole & (places >= lost_begin) & (places < lost_end)
            places = np.arange(first, first + len(found))
            for run in _runs(places[into_damage]):
                yield self.lost_messages(*run)
            # Without any damage, holes are messages that retention has deleted since.
            for run in _runs(places[~into_damage & ~is_hole]):
                yield self._of_entries(reason, *run)

    def _compare_entries(
        self,
        queue: ConsumeQueue,
        queue_offsets: Int64s,
        entries: Entries,
        tag_hashes: Int64s | None,
    ) -> None:
        """Compare existing entries with the expected ones, many at a time."""
        for first in range(0, len(queue_offsets), _ENTRIES_AT_ONCE):
            part = slice(first, first + _ENTRIES_AT_ONCE)
            places, wanted = queue_offsets[part], entries[part]
            begin = int(places[0])
            # Read in parts: damage may have left very many queue offsets in between.
            found = np.concatenate(
                [
                    queue.entries(int(run[0]), len(run))
                    for run in np.split(places, np.flatnonzero(np.diff(places) != 1) + 1)
                ]
            )
            if len(found) != len(wanted):
                self._note("cannot be read", begin, int(places[-1]) + 1)
                continue
            hashes = None if tag_hashes is None else tag_hashes[part]
            for reason, wrong in _differences(self.topic, found, wanted, hashes):
                for run in _runs(places[wrong]):
                    self._note(reason, *run)

    def _note(self, reason: str, begin: int, end: int) -> None:
        """Note that entries differ; a range goes on where the one before it ends."""
        ranges = self.wrong.setdefault(reason, [])
        if ranges and ranges[-1][1] == begin:
            begin, _ = ranges.pop()
        ranges.append((begin, end))

    def lost_messages(self, begin: int, end: int) -> Finding:
        """The queue's messages that are lost for good."""
        return self._of_offsets(_MISSING, begin, end, FindingState.LOST)

    def _of_offsets(self, reason: str, begin: int, end: int, state: FindingState) -> Finding:
        return Finding("queue offsets", reason, begin, end, self.topic, self.queue_id, state=state)

    def _of_entries(self, reason: str, begin: int, end: int) -> Finding:
        place = begin % self.store.config.consume_queue_file_entries
        name = segment_name((begin - place) * ENTRY_BYTES)
        path = f"consumequeue/{self.topic}/{self.queue_id}/{name}"
        return Finding(
            "consume queue",
            reason,
            begin,
            end,
            self.topic,
            self.queue_id,
            path=path,
            position=place * ENTRY_BYTES,
        )


def _differences(
    topic: str, found: Entries, wanted: Entries, tag_hashes: Int64s | None
) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Which entries differ, by reason; each has one reason at most."""
    elsewhere = found["commit_log_offset"] != wanted["commit_log_offset"]
    size = found["size"] != wanted["size"]
    hole = size & (found["size"] == HOLE_SIZE)
    nothing = size & (found["size"] == 0) & (found["commit_log_offset"] == 0)
    tag = found["tags_code"] != wanted["tags_code"]
    if topic == DELAY_TOPIC:
        # While store timestamps are ahead of the clock, the times that they give are too late.
        tag &= (found["tags_code"] > wanted["tags_code"]) | (found["tags_code"] < _TIME_MS_MIN)
    if tag_hashes is not None:
        # In the timer topic our entries have delivery times; Java brokers' have hashes.
        tag &= found["tags_code"] != tag_hashes
    yield "hole in the place of a record", hole
    yield "no entry", nothing
    yield "leads to another place", elsewhere & ~hole & ~nothing
    yield "size differs from the record", size & ~hole & ~nothing & ~elsewhere
    yield "tag code differs from the record", tag & ~size & ~elsewhere


def _runs(queue_offsets: Int64s) -> Iterator[tuple[int, int]]:
    """Consecutive queue offsets as ranges."""
    if len(queue_offsets):
        for run in np.split(queue_offsets, np.flatnonzero(np.diff(queue_offsets) != 1) + 1):
            yield int(run[0]), int(run[-1]) + 1
