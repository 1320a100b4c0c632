"""Building consume queues and index from records of the commit log.

Appends do this from the columns of a block. This code does it from the records alone, when a store
is opened after a crash, or when derived files are missing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import zip_longest

import numpy as np

from ariane_record.checksums.java_hash import key_hashes_behind, topic_word
from ariane_record.layout import RECORD_BYTES_MIN
from ariane_storage.index.index import PENDING_KEYS_MAX, Index
from ariane_storage.log.damage import Damage, DamageReason
from ariane_storage.log.deleted_topics import DeletedTopics
from ariane_storage.log.records.fields import Int64s
from ariane_storage.log.scan import Stretch
from ariane_storage.queues.consume_queue import ConsumeQueue
from ariane_storage.queues.queue_table import QueueTable, can_name_queue
from ariane_storage.queues.record_rows import Rows


@dataclass(slots=True)
class Dispatcher:
    """Adds records of the log to consume queues and index."""

    queues: QueueTable
    """All consume queues."""
    index: Index
    """The index."""
    delay_levels_ms: tuple[int, ...]
    """Delay of each level, level 1 first."""
    queues_from: int
    """Records below this commit-log offset are in the consume queues already."""
    index_from: int
    """Records below it are in the index already."""
    deleted_topics: DeletedTopics
    """The end of deleted records by topic; these records get no entry."""
    pending_keys_max: int = PENDING_KEYS_MAX
    """How many keys may wait to be filed."""
    records: int = field(default=0, init=False)
    """Number of records seen."""
    misfits: list[Damage] = field(default_factory=list, init=False)
    """Whole records without a possible place in a queue, which other programs can have written:
    they stay in the log and in the index, and get no entry."""

    def dispatch(self, stretch: Stretch) -> None:
        """Add all records of a stretch.

        Raises:
            StoreFull: No space for another index file.
        """
        places = stretch.places
        self.records += len(places.starts)
        if stretch.end <= min(self.queues_from, self.index_from):
            return
        rows = Rows.of(stretch)
        groups = rows.groups()
        if self.queues_from < stretch.end:
            for (topic, queue_id), members in groups.items():
                begin = max(self.queues_from, self.deleted_topics.end_of(topic))
                chosen = _from(rows, members, begin)
                chosen = chosen[rows.has_entry[chosen]]
                if can_name_queue(topic, queue_id):
                    self._to_queue(topic, queue_id, rows, chosen)
                else:
                    self._leave_out(rows, chosen, DamageReason.QUEUE)
        if self.index_from < stretch.end:
            self._to_index(rows, groups)
        if self.index.pending_keys > self.pending_keys_max:
            self.index.settle()

    def _to_queue(self, topic: str, queue_id: int, rows: Rows, chosen: Int64s) -> None:
        if not len(chosen):
            return
        queue = self.queues.find_or_make(topic, queue_id)
        queue_offsets = rows.queue_offsets[chosen]
        breaks = np.flatnonzero(queue_offsets[1:] - queue_offsets[:-1] != 1) + 1
        runs = np.split(chosen, breaks) if len(breaks) else [chosen]
        for run, following in zip_longest(runs, runs[1:]):
            if _is_misfit(queue, rows, run, following):
                self._leave_out(rows, run, DamageReason.QUEUE_OFFSET)
                continue
            self._make_room(queue, int(rows.queue_offsets[run[0]]))
            entries = rows.entries(run, self.delay_levels_ms)
            last = run[-1]
            self.queues.append(
                queue, entries, int(rows.commit_log_offsets[last] + rows.sizes[last])
            )

    def _make_room(self, queue: ConsumeQueue, queue_offset: int) -> None:
        """Make a queue offset the next one of a queue."""
        if queue.end_offset == 0:
            queue.start_at(queue_offset)
        elif queue_offset > queue.end_offset:
            # Messages in between are damaged or gone.
            with self.queues.lock:
                queue.skip_to(queue_offset)
        elif queue_offset < queue.end_offset:
            # The topic was deleted and created again: the latest record counts.
            if queue_offset > queue.min_offset:
                queue.cut(queue_offset)
            else:
                queue.remove()
                queue.start_at(queue_offset)

    def _leave_out(self, rows: Rows, chosen: Int64s, reason: DamageReason) -> None:
        begins = rows.commit_log_offsets[chosen]
        ends = begins + rows.sizes[chosen]
        ranges = zip(begins.tolist(), ends.tolist(), strict=True)
        self.misfits += [Damage(begin, end, reason) for begin, end in ranges]

    def _to_index(self, rows: Rows, groups: dict[tuple[str, int], Int64s]) -> None:
        """File the keys of a stretch, in the order of the log."""
        wanted = rows.is_indexed & (rows.commit_log_offsets >= self.index_from)
        keys = rows.keys(wanted)
        if not len(keys.owners):
            return
        prefixes = np.empty(len(wanted), np.uint32)
        for (topic, _), members in groups.items():
            prefixes[members] = topic_word(topic)
        hashes = key_hashes_behind(prefixes[keys.owners], keys.words, keys.lengths)
        self.index.add(
            hashes, rows.commit_log_offsets[keys.owners], rows.store_timestamps[keys.owners]
        )


def _is_misfit(queue: ConsumeQueue, rows: Rows, run: Int64s, following: Int64s | None) -> bool:
    """Whether a run of records cannot have the queue offsets that it claims.

    RocketMQ's own checksum covers only the body, so a flipped bit in a queue offset goes unnoticed.
    It must neither cut the queue nor fill it with endless holes.
    """
    expected, first = queue.end_offset, int(rows.queue_offsets[run[0]])
    if expected in {0, first}:
        return False
    next_first = -1 if following is None else int(rows.queue_offsets[following[0]])
    if len(run) == 1 and next_first == expected + 1:
        return True  # The queue continues as if this record had the missing number.
    if first > expected:
        passed = int(rows.commit_log_offsets[run[0]]) - queue.last_record_end
        return first - expected > passed // RECORD_BYTES_MIN
    # A topic that was deleted and created again begins at 0.
    return len(run) == 1 and following is None and first != 0


def _from(rows: Rows, members: Int64s, commit_log_begin: int) -> Int64s:
    """The rows at or above an offset."""
    return members[rows.commit_log_offsets[members] >= commit_log_begin]
