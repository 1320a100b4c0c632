"""Comparison of a closed store's consume queues with its log, both ways.

An entry has no checksum. So every field of every entry is compared with its record: offset, size,
and the code of the tag, by which brokers choose what a consumer gets. Differences are reported as
ranges of queue offsets, one for each reason.

Entries that point into damage of the log are right, and show which messages were lost there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_record.names import DELAY_TOPIC
from ariane_storage.log.damage import Damage
from ariane_storage.log.records.fields import Int64s
from ariane_storage.log.segment import segment_name
from ariane_storage.offline.closed_store import ClosedStore
from ariane_storage.offline.finding import Finding, FindingState
from ariane_storage.queues.consume_queue import ConsumeQueue
from ariane_storage.queues.consume_queue_entry import ENTRY_BYTES, HOLE_SIZE, Entries

_ENTRIES_AT_ONCE: Final = 65_536
_MISSING: Final = "queue offsets missing"
_TIME_MS_MIN: Final = 1_000_000_000_000
"""The year 2001: no message is due earlier."""


@dataclass(slots=True)
class ExpectedQueue:
    """The entries of one queue that follow from the log, stretch by stretch.

    Attributes:
        queue_offsets: Queue offsets of records that have an entry.
        entries: The entry of each.
        tag_hashes: Of the timer topic, the hash of each record's tag.
    """

    queue_offsets: list[Int64s] = field(default_factory=list)
    entries: list[Entries] = field(default_factory=list)
    tag_hashes: list[Int64s] = field(default_factory=list)

    @property
    def span(self) -> tuple[int, int]:
        """The first queue offset, and the end."""
        if not self.queue_offsets:
            return 0, 0
        return int(self.queue_offsets[0][0]), int(self.queue_offsets[-1][-1]) + 1


def check_queues(
    store: ClosedStore,
    expected: Mapping[tuple[str, int], ExpectedQueue],
    lost: Sequence[tuple[int, int]],
) -> Iterator[Finding]:
    """Compare all queues with the log.

    Args:
        store: The store.
        expected: The entries that follow from the log, by queue.
        lost: Damaged ranges of the log, as begin and end.
    """
    for (topic, queue_id), wanted in sorted(expected.items(), key=_name):
        if wanted.queue_offsets:
            comparison = _Comparison(store, topic, queue_id, lost)
            yield from comparison.compare(
                np.concatenate(wanted.queue_offsets),
                np.concatenate(wanted.entries),
                np.concatenate(wanted.tag_hashes) if wanted.tag_hashes else None,
            )
    for queue in store.queues:
        wanted = expected.get((queue.topic, queue.queue_id), _NOTHING)
        if not wanted.queue_offsets and not _will_go(store, queue):
            yield from _without_records(store, queue, lost)


def queues_before(store: ClosedStore, gone: Damage) -> Iterator[Finding]:
    """Messages that were lost with segments at the begin of the log, as queues still show them."""
    for queue in store.queues:
        begin = queue.first_at_or_above(gone.begin)
        end = queue.first_at_or_above(gone.end)
        if begin < end:
            comparison = _Comparison(store, queue.topic, queue.queue_id, ())
            yield comparison.lost_messages(begin, end)


_NOTHING: Final = ExpectedQueue()


def _will_go(store: ClosedStore, queue: ConsumeQueue) -> bool:
    """Whether a crash has left a deleted topic's queue: the next start removes it."""
    return store.crashed and queue.last_record_end <= store.deleted_topics.end_of(queue.topic)


def _name(queue: tuple[tuple[str, int], ExpectedQueue]) -> tuple[str, int]:
    return queue[0]


def _without_records(
    store: ClosedStore, queue: ConsumeQueue, lost: Sequence[tuple[int, int]]
) -> Iterator[Finding]:
    """Check a queue without records in the log: it may only point to deleted ones."""
    begin = queue.first_at_or_above(store.log.min_offset)
    if begin < queue.end_offset:
        deleted = queue.last_record_end <= store.deleted_topics.end_of(queue.topic)
        reason = "queue of a deleted topic" if deleted else "leads to no record"
        comparison = _Comparison(store, queue.topic, queue.queue_id, () if deleted else lost)
        yield from comparison.beyond_the_log(queue, begin, queue.end_offset, reason)


@dataclass(frozen=True, slots=True)
class _Comparison:
    """The comparison of one queue with the log."""

    store: ClosedStore
    topic: str
    queue_id: int
    lost: Sequence[tuple[int, int]]

    def compare(
        self, queue_offsets: Int64s, entries: Entries, tag_hashes: Int64s | None
    ) -> Iterator[Finding]:
        steps = np.diff(queue_offsets)
        for place in np.flatnonzero(steps != 1).tolist():
            jump = int(queue_offsets[place]), int(queue_offsets[place + 1])
            if jump[1] <= jump[0]:
                yield self._of_offsets("queue offset used again", *jump, FindingState.BY_HAND)
            else:
                yield self.lost_messages(jump[0] + 1, jump[1])
        if bool((steps < 1).any()):
            return  # The record of an entry cannot be identified.
        queue = self.store.queues.find(self.topic, self.queue_id)
        if queue is not None and _will_go(self.store, queue):
            queue = None  # The topic was created anew.
        first, end = int(queue_offsets[0]), int(queue_offsets[-1]) + 1
        written = queue.end_offset if queue is not None else first
        if queue is not None and first < queue.min_offset:
            yield self._of_entries("entries missing", first, min(end, queue.min_offset))
        # After a crash queues are behind the log, and the next start mends it.
        if written < end and not self.store.crashed:
            yield self._of_entries("entries missing", max(first, written), end)
        if queue is None:
            return
        if written > end:
            yield from self.beyond_the_log(queue, end, written, "entries beyond the log")
        kept = (queue_offsets >= queue.min_offset) & (queue_offsets < written)
        kept_hashes = None if tag_hashes is None else tag_hashes[kept]
        yield from self._compare_entries(queue, queue_offsets[kept], entries[kept], kept_hashes)

    def beyond_the_log(
        self, queue: ConsumeQueue, begin: int, end: int, reason: str
    ) -> Iterator[Finding]:
        """Entries without a record: of lost messages, or of none that ever existed."""
        for first in range(begin, end, _ENTRIES_AT_ONCE):
            found = queue.entries(first, min(_ENTRIES_AT_ONCE, end - first))
            is_hole = found["size"] == HOLE_SIZE
            into_damage = is_hole & bool(self.lost)
            for lost_begin, lost_end in self.lost:
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
    ) -> Iterator[Finding]:
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
                end = int(places[-1]) + 1
                yield self._of_entries("cannot be read", begin, end)
                continue
            hashes = None if tag_hashes is None else tag_hashes[part]
            for reason, wrong in _differences(self.topic, found, wanted, hashes):
                for run in _runs(places[wrong]):
                    yield self._of_entries(reason, *run)

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
