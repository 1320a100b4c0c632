"""Recovery of a store when it is opened.

1. The checkpoint tells up to where consume queues and index are durable; their files are loaded up
to there. Without a valid checkpoint, or if files are missing or another queue's, they are deleted
and rebuilt from the whole log; the ends of queues are written down first.
2. The log is scanned from there to its end. Valid records are dispatched. If a segment before was
written to after the checkpoint, by whatever program, the scan begins there, and finds the damage.
3. Damage in the middle, with valid records behind it, is quarantined. A torn tail is cut, durably:
behind the end there are only zeros, so that no old record ever comes back.
4. One case looks like damage and is a torn tail: after power loss, later pages of the unflushed end
may be on the disk while earlier ones are not. A damaged range that was not known to be flushed, and
that has the end of a disk sector never written, is such a hole: the log is cut before it, and the
number of whole records cut with it is reported. The checkpoint's mark shows what was flushed: after
the death of a process up to its last flush, after power loss up to some time before. The unflushed
beginning of a batch whose first record announces more is cut as well: the producer's repeat is then
stored as a whole, and not a second time in part.
5. If no valid record is left up to the end that was known to be flushed, that is damage and no torn
tail: the log continues behind it, so that no offset that consumers have seen is used again.
6. Everything found is made durable and a new checkpoint written. After a crash, what was not known
to be flushed is written once more before it is flushed: if the crash followed a failed flush, the
system takes these bytes for written, and a flush alone would leave them in memory. If this is
interrupted at any point, it happens again; repeating it changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from ariane_record.layout import BLANK_SIZE_MIN_BYTES
from ariane_storage.config import StoreConfig
from ariane_storage.index.index import Index, load_or_discard
from ariane_storage.log.checkpoint import Checkpoint
from ariane_storage.log.commit_log import CommitLog
from ariane_storage.log.damage import Damage, DamageReason
from ariane_storage.log.deleted_topics import DeletedTopics
from ariane_storage.log.quarantine import Quarantine
from ariane_storage.log.record_search import record_at
from ariane_storage.log.records.queue_identity import identity_of
from ariane_storage.log.scan import Ending, Stretch, scan
from ariane_storage.log.sequenced_batches import SequencedBatch, sequenced_batches
from ariane_storage.queues.dispatch import Dispatcher
from ariane_storage.queues.idle_queues import IdleQueues
from ariane_storage.queues.queue_table import QueueSums, QueueTable
from ariane_storage.reading.entry_check import is_foreign
from ariane_storage.recovery.missing_files import (
    has_outlived_files,
    lack_first_files,
    lost_begin,
)

SECTOR_BYTES: Final = 512
_UNWRITTEN_BYTES_MIN: Final = 8


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a long step."""

    step: str
    """The step, a short phrase."""
    done_bytes: int
    """Bytes of the commit log that are done."""
    total_bytes: int
    """Bytes of the commit log in all."""


ProgressCallback = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """The findings and actions of opening a store."""

    crashed: bool
    """Whether the previous run ended without a stop."""
    scanned_from: int
    """Commit-log offset from which the log was scanned."""
    end_offset: int
    """The end of the log."""
    records: int
    """Valid records that the scan saw."""
    cut_reason: DamageReason | None
    """Why the tail was cut, or None if it was clean."""
    damage: tuple[Damage, ...]
    """Damaged ranges that are quarantined, earlier finds included."""
    rebuilt: tuple[str, ...]
    """The data rebuilt from the whole log: "consume queues", "index"."""
    lost_begin: Damage | None = None
    """Segments missing at the begin of the log that retention has not deleted; or None."""
    set_aside: tuple[str, ...] = ()
    """New names of files in ``commitlog`` with a segment's name that were none."""
    cut_records: int = 0
    """Valid records that were cut with the tail."""
    confirmed_offset: int = 0
    """No record at or behind it is known to have been handed out."""
    foreign_features: tuple[str, ...] = ()
    """What features of RocketMQ mean that cannot all be read here."""


@dataclass(slots=True)
class Recovery:
    """One recovery of one store."""

    config: StoreConfig
    """Settings of the store."""
    log: CommitLog
    """Its commit log, just opened."""
    queues: QueueTable
    """Its consume queues, not yet loaded."""
    index: Index
    """Its index, not yet loaded."""
    idle_queues: IdleQueues
    """Ends of queues whose records are all deleted."""
    deleted_topics: DeletedTopics
    """Offsets below which records of topics are deleted."""
    quarantine: Quarantine
    """Damage known before."""
    checkpoint: Checkpoint | None
    """The newest valid checkpoint, or None."""
    changed_from: int | None
    """The first segment that was written to after the checkpoint; None if none was."""
    crashed: bool
    """Whether the previous run ended without a stop."""
    progress: ProgressCallback | None = None
    """Called now and then with the progress, or None."""
    rebuild: bool = False
    """Whether to rebuild consume queues and index in any case."""
    store_timestamp_ms: int = 0
    """Store timestamp of the newest record found, 0 if none was seen."""

    def run(self) -> RecoveryReport:
        """Recover.

        Raises:
            StoreFull: No space to rebuild the index.
            OSError: The disk failed.
        """
        missing_end = self._missing_end()
        gone = lost_begin(self.log, self.checkpoint, crashed=self.crashed)
        self._declare_gaps()
        rebuilt = self._load_derived()
        self._finish_deletions()
        begin = self._scan_begin(rebuilt)
        dispatcher = Dispatcher(
            self.queues,
            self.index,
            self.config.delay_levels_ms,
            queues_from=0 if "consume queues" in rebuilt else self._dispatched(),
            index_from=0 if "index" in rebuilt else self._dispatched(),
            deleted_topics=self.deleted_topics,
        )
        ending = self._scan(begin, dispatcher)
        for misfit in dispatcher.misfits:
            self.quarantine.add(misfit)
        if missing_end is not None:
            ending = self._go_on_behind(ending.commit_log_offset, missing_end)
        elif (
            self.checkpoint is not None
            and ending.commit_log_offset < self.checkpoint.flushed_offset
        ):
            ending = self._go_on_at(self.checkpoint.flushed_offset, ending)
        if "consume queues" in rebuilt:
            damaged = sum(damage.end - damage.begin for damage in self.quarantine.ranges)
            self.idle_queues.restore(self.queues, self.deleted_topics, damaged_bytes=damaged)
        cut_records = self._whole_records_behind(ending)
        self._settle_end(ending)
        return RecoveryReport(
            crashed=self.crashed,
            scanned_from=begin,
            end_offset=ending.commit_log_offset,
            records=dispatcher.records,
            cut_reason=ending.reason,
            damage=self.quarantine.ranges,
            rebuilt=tuple(rebuilt),
            lost_begin=gone,
            cut_records=cut_records,
        )

    def _missing_end(self) -> int | None:
        """The place to continue if segments at the end are missing that are known to be durable.

        Continuing at the present end would use offsets again that consumers have seen.
        """
        if self.checkpoint is None:
            return None
        segments = self.log.segments
        end = segments[-1].end if segments else self.checkpoint.log_begin
        lost = self.checkpoint.flushed_offset - end
        if lost <= 0:
            return None
        size = self.log.segment_bytes
        return end + (lost + size - 1) // size * size

    def _declare_gaps(self) -> None:
        """Quarantine segments that are missing in the middle, wherever the scan begins."""
        for segment, following in pairwise(self.log.segments):
            if segment.end < following.start:
                gap = Damage(segment.end, following.start, DamageReason.SEGMENT_MISSING)
                self.quarantine.add(gap)

    def _go_on_behind(self, begin: int, end: int) -> Ending:
        """Declare the end of the log as missing, and continue the log behind it."""
        self.log.resume_at(end)
        self.quarantine.add(Damage(begin, end, DamageReason.SEGMENT_MISSING))
        return Ending(end, None)

    def _go_on_at(self, flushed_offset: int, ending: Ending) -> Ending:
        """Declare the end of the log as damaged up to the flushed end; continue there."""
        reason = ending.reason or DamageReason.NOTHING
        self.quarantine.add(Damage(ending.commit_log_offset, flushed_offset, reason))
        self.log.cut(flushed_offset)
        return Ending(flushed_offset, None)

    def _dispatched(self) -> int:
        return self.checkpoint.dispatched_offset if self.checkpoint is not None else 0

    def _load_derived(self) -> list[str]:
        """Load consume queues and index; returns which must be rebuilt."""
        checkpoint = self.checkpoint
        if checkpoint is not None and checkpoint.dispatched_offset < self.log.min_offset:
            # An older one: retention deletes only dispatched records.
            checkpoint = None
        rebuilt = []
        if checkpoint is not None:
            self.queues.load(checkpoint.dispatched_offset)
            sums = QueueSums(checkpoint.queue_count, checkpoint.entry_sum)
        else:
            # Without one only those entries show the end of a queue whose records are gone.
            self.queues.load(self.log.min_offset, keep_rest=True)
        complete = checkpoint is not None and self.queues.sums() == sums
        lacking = complete and (
            self._has_foreign_files()
            or has_outlived_files(
                self.log, self.queues, checkpoint, self.config.consume_queue_file_entries
            )
            or lack_first_files(self.log, self.queues, self.deleted_topics)
        )
        if self.rebuild or not complete or lacking:
            self.idle_queues.remember(self.queues)
            self.queues.remove_all()
            rebuilt.append("consume queues")
        if checkpoint is not None:
            kept_end = checkpoint.dispatched_offset if self.crashed else None
            load_or_discard(self.index, kept_end)
        count = checkpoint.index_item_count if checkpoint is not None else -1
        if self.rebuild or self.index.item_count != count:
            self.index.remove_all()
            rebuilt.append("index")
        return rebuilt

    def _has_foreign_files(self) -> bool:
        """Whether the end of a queue cannot be known from its files."""
        return any(
            is_foreign(
                self.log, queue, identity_of(queue.topic, queue.queue_id, 0), self.quarantine
            )
            for queue in self.queues
        )

    def _finish_deletions(self) -> None:
        """Delete queues of deleted topics whose files a crash has left."""
        stale = [
            queue
            for queue in self.queues
            if 0 < self.deleted_topics.end_of(queue.topic) >= queue.last_record_end
        ]
        self.queues.remove(stale)

    def _scan_begin(self, rebuilt: list[str]) -> int:
        """The place where the scan starts: a known start of a record."""
        lowest = self.log.min_offset
        if rebuilt or self.checkpoint is None:
            return lowest
        begin = max(lowest, self.checkpoint.dispatched_offset)
        if self._missing_end() is not None:
            segments = self.log.segments
            begin = segments[-1].end if segments else self.checkpoint.log_begin
        if self.log.shortened:
            # Another process has shortened a file: durable records are missing.
            begin = min(begin, self.log.shortened[0].start)
        elif begin > lowest and not self._starts_here(begin):
            begin = max(lowest, begin - begin % self.log.segment_bytes)
        if self.changed_from is not None:
            begin = max(lowest, min(begin, self.changed_from))
        return begin

    def _starts_here(self, begin: int) -> bool:
        """Whether a record, filler or the end of the log is at an offset."""
        segment = self.log.segment_at(begin)
        if segment is None:
            segments = self.log.segments
            return not segments or begin == segments[-1].end
        position = begin - segment.start
        front = segment.window(position, BLANK_SIZE_MIN_BYTES)
        if front.unreadable:
            return False
        return not any(front.content) or record_at(segment, position) is not None

    def _ends_quietly(self, begin: int) -> bool:
        """Whether the log was closed here: then nothing behind it must be searched."""
        if self.crashed or self.checkpoint is None or self.log.shortened:
            return False
        if begin != self.checkpoint.dispatched_offset:
            return False
        segment = self.log.segment_at(begin)
        if segment is None:
            return True
        front = segment.window(begin - segment.start, BLANK_SIZE_MIN_BYTES)
        return not front.unreadable and not any(front.content)

    def _scan(self, begin: int, dispatcher: Dispatcher) -> Ending:
        """Dispatch all records from an offset on, and find the end of the log."""
        segments = self.log.segments
        if self._ends_quietly(begin):
            return Ending(begin, None)
        total = segments[-1].end - begin if segments else 0
        done_in_segment = -1
        last_batch: SequencedBatch | None = None
        for event in scan(self.log.walk(begin), begin):
            if isinstance(event, Ending):
                return self._without_torn_batch(event, last_batch)
            if isinstance(event, Damage):
                if self._was_never_flushed(event):
                    ending = Ending(event.begin, event.reason)
                    return self._without_torn_batch(ending, last_batch)
                self.quarantine.add(event)
                continue
            dispatcher.dispatch(event)
            batches = sequenced_batches(event)
            last_batch = batches[-1] if batches else last_batch
            self.store_timestamp_ms = int(event.places.store_timestamps()[-1])
            if event.segment.start != done_in_segment:
                if done_in_segment >= 0:
                    self._write_out(event)
                done_in_segment = event.segment.start
            if self.progress is not None:
                self.progress(Progress("scan the commit log", event.end - begin, total))
        raise AssertionError("every scan ends with an ending")

    def _without_torn_batch(self, ending: Ending, batch: SequencedBatch | None) -> Ending:
        """The end of the log, before a last batch that power loss has left in part."""
        if batch is None or batch.next_commit_log_offset <= ending.commit_log_offset:
            return ending
        begin = batch.commit_log_offset
        if self.checkpoint is None or begin < self.checkpoint.flushed_offset:
            return ending
        self.index.keep_below(begin)
        return Ending(begin, DamageReason.BATCH)

    def _write_out(self, stretch: Stretch) -> None:
        """Write entries of earlier segments to the files, to bound memory."""
        self.log.write_offset = stretch.segment.start
        self.log.flush()
        self.queues.write_out(stretch.segment.start)

    def _was_never_flushed(self, damage: Damage) -> bool:
        """Whether a damaged range is a hole that power loss left in the unflushed end."""
        if self.checkpoint is None or damage.begin < self.checkpoint.flushed_offset:
            return False
        segment = self.log.segment_at(damage.begin)
        if segment is None:
            return False
        begin = damage.begin - segment.start
        # The next record may itself begin with zeros that were never written.
        end = min(damage.end - segment.start + _UNWRITTEN_BYTES_MIN, segment.length)
        window = segment.window(begin, end - begin)
        first_boundary = begin - begin % SECTOR_BYTES + SECTOR_BYTES
        for boundary in range(first_boundary, end + 1, SECTOR_BYTES):
            first = max(begin, boundary - _UNWRITTEN_BYTES_MIN)
            is_zero = not any(window.content[first - begin : boundary - begin])
            # Unreadable bytes were written once: otherwise the disk would read them as zeros.
            if is_zero and window.unreadable_in(first, boundary) is None:
                return True
        return False

    def _whole_records_behind(self, ending: Ending) -> int:
        """Number of valid records behind the end of the log: they are cut, too."""
        if ending.reason is None:
            return 0
        begin = ending.commit_log_offset
        events = scan(self.log.walk(begin), begin)
        return sum(len(event.places.starts) for event in events if isinstance(event, Stretch))

    def _settle_end(self, ending: Ending) -> None:
        """End the log at the place that the scan found, and make everything found durable."""
        log = self.log
        segment = log.segment_at(ending.commit_log_offset)
        if segment is not None and (self.crashed or ending.reason is not None):
            log.cut(ending.commit_log_offset)
        log.write_offset = ending.commit_log_offset
        log.flushed_offset = min(log.flushed_offset, ending.commit_log_offset)
        if self.crashed and self.checkpoint is not None:
            log.write_again(self.checkpoint.flushed_offset, ending.commit_log_offset)
        log.flush()
        self.quarantine.keep_below(ending.commit_log_offset)
        self.quarantine.save()
        self.deleted_topics.keep_between(log.min_offset, ending.commit_log_offset)
        for queue in self.queues:
            if queue.last_record_end > ending.commit_log_offset:
                queue.cut(queue.first_at_or_above(ending.commit_log_offset))
