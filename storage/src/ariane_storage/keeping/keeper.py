"""Upkeep of an open store: flushes, derived files, retention, deleted topics.

Every method may run beside the appending thread, on one other thread or on several, unless it says
otherwise.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Final, TypeVar

from ariane_storage.disk.disk import is_exhausted
from ariane_storage.errors import StoreFull
from ariane_storage.keeping.retention import (
    DeletedRange,
    RetentionPlan,
    RetentionReport,
    choose_copied,
    choose_segments,
)
from ariane_storage.keeping.topic_deletion import TopicDeletion
from ariane_storage.log.checkpoint import Checkpoint, CheckpointFile
from ariane_storage.log.flush import FlushSchedule
from ariane_storage.log.segment import Segment
from ariane_storage.parts import StoreParts
from ariane_storage.queues.consume_queue import ConsumeQueue
from ariane_storage.queues.queue_table import QueueSums
from ariane_storage.reading.entry_check import astray_between
from ariane_storage.recovery.queue_repair import QueueRepair, find_entries, put_entries
from ariane_storage.recovery.recovery import ProgressCallback

_QUEUES_AT_ONCE: Final = 64
"""Queues whose files the deletion of a topic waits for at a time."""
ALIVE_MS: Final = 10 * 60 * 1000
"""Also an idle store writes its checkpoint so often: the time of that file says when the store was
last alive, and the next start doubts its clock after too long a time. Well below half of the
shortest retention."""
_T = TypeVar("_T")


class Keeper:
    """Cares for durability and disk space. Any thread."""

    def __init__(self, parts: StoreParts, checkpoint_file: CheckpointFile) -> None:
        self._parts = parts
        self._checkpoint_file = checkpoint_file
        self._schedule = FlushSchedule(parts.config)
        # Consume queues and index are durable up to here.
        self._dispatched_end = 0
        self._marked_end = -1
        # When the checkpoint was last written whether or not anything had changed.
        self._alive_ms: int | None = None
        # One thread at a time writes, removes or counts consume queues.
        self._derived_lock = threading.RLock()

    def flush(self) -> int:
        """Make the commit log durable; see ``Store.flush``."""
        return self._parts.guard.run(self._flush_log)

    def _flush_log(self) -> int:
        end = self._parts.log.flush()
        if end != self._marked_end:
            try:
                self._checkpoint_file.mark(end)
            except OSError as error:
                # The log is durable all the same; the next flush or the checkpoint will note it.
                if not is_exhausted(error):
                    raise
                return end
            self._marked_end = end
        return end

    def close(self) -> None:
        """Close the checkpoint's file."""
        self._checkpoint_file.close()

    def flush_derived(self) -> None:
        """Write consume queues, index and checkpoint; see ``Store.flush_derived``."""
        parts = self._parts
        # Read before the flush: no record below the durable end is newer than this.
        timestamp = parts.store_timestamp_ms
        end = self.flush()
        with self._derived_lock:
            # A full disk loses nothing: unwritten entries stay in memory, and the log has all
            # of them.
            self._watched(
                "no space left for consume queues and index",
                lambda: self._write_derived(end, timestamp),
            )

    def _watched(self, full_reason: str, step: Callable[[], _T]) -> _T:
        """Run a step that uses the disk; if it fails, the store is poisoned.

        Runs without the lock of flushes: no acknowledgement waits for it.

        Raises:
            StoreFull: Space or descriptors have run out.
            StorePoisoned: The disk failed, now or before.
        """
        parts = self._parts

        def unless_exhausted() -> _T:
            try:
                return step()
            except OSError as error:
                if is_exhausted(error):
                    raise _Exhausted(error.strerror) from error
                raise

        parts.guard.check()
        try:
            return parts.guard.watch(unless_exhausted)
        except _Exhausted as error:
            raise StoreFull(parts.files.root, f"{full_reason} ({error})") from error

    def _write_derived(self, end: int, timestamp: int) -> None:
        parts = self._parts
        sums = parts.queues.write_out(end)
        items = parts.index.flush(end)
        parts.quarantine.save()
        self._checkpoint(end, timestamp, sums, items)

    def _checkpoint(self, end: int, timestamp: int, sums: QueueSums, items: int) -> None:
        now_ms = self._parts.clock.now_ms()
        is_old = self._alive_ms is None or not 0 <= now_ms - self._alive_ms < ALIVE_MS
        self._checkpoint_file.save(
            Checkpoint(
                log_begin=self._parts.log.min_offset,
                dispatched_offset=end,
                flushed_offset=end,
                confirmed_offset=min(end, self._parts.confirmed_offset),
                store_timestamp_ms=timestamp,
                queue_count=sums.queue_count,
                entry_sum=sums.entry_sum,
                index_item_count=items,
            ),
            again=is_old,
        )
        if is_old:
            self._alive_ms = now_ms
        self._dispatched_end = end

    def rewind(self, end: int, cut_derived: Callable[[], None]) -> None:
        """Cut the log, and before it what refers to its end, or says that the end is durable.

        Args:
            end: The new end; everything before it is flushed.
            cut_derived: Cuts consume queues, index and notes.

        Raises:
            StorePoisoned: The disk failed.
            StoreFull: No space for derived files; the log is not cut.
        """
        parts = self._parts

        def cut_references() -> None:
            cut_derived()
            self._checkpoint_file.mark(end)
            self._marked_end = end
            sums = parts.queues.write_out(end)
            items = parts.index.flush(end)
            parts.quarantine.save()
            self._checkpoint(end, parts.store_timestamp_ms, sums, items)

        def cut() -> None:
            self._watched("no space left to cut consume queues", cut_references)
            parts.log.cut(end)

        with self._derived_lock:
            # As one step: a flush in between would mark the old end as durable again.
            parts.guard.run(cut)

    @property
    def is_flush_due(self) -> bool:
        """Whether ``flush_due`` has anything to do. Any thread."""
        log, now_ms = self._parts.log, self._parts.clock.now_ms()
        waiting_bytes = log.write_offset - log.flushed_offset
        schedule = self._schedule
        return schedule.derived_due(now_ms) or schedule.log_due(now_ms, waiting_bytes)

    def flush_due(self) -> None:
        """Flush files that are due by the configured intervals. Any thread; call it often.

        Raises:
            StorePoisoned: The disk failed.
            StoreFull: No space for derived files; nothing is lost.
        """
        parts, schedule = self._parts, self._schedule
        now_ms = parts.clock.now_ms()
        if schedule.derived_due(now_ms):
            self.flush_derived()
            schedule.derived_took_ms = parts.clock.now_ms() - now_ms
            schedule.derived_flushed_ms = schedule.log_flushed_ms = now_ms
        elif schedule.log_due(now_ms, parts.log.write_offset - parts.log.flushed_offset):
            self.flush()
            schedule.log_flushed_ms = now_ms

    def plan_retention(
        self,
        now_ms: int | None = None,
        *,
        keep_from: int | None = None,
        delete_to: int | None = None,
        by_hand: bool = False,
    ) -> RetentionPlan:
        """Flush, and choose the segments to delete and the new begins of queues. Any thread.

        Args:
            now_ms: The time; by default that of ``believed_time``, which doubts jumps of the clock.
            keep_from: Data from this commit-log offset on is not deleted, however old.
            delete_to: Where the log begins of which this one is a copy: all before is deleted,
                and neither age nor the disk deletes more. None: this log is no copy.
            by_hand: An operator asks: all segments that are old enough, at any hour.

        Raises:
            StorePoisoned: The disk failed.
            StoreFull: No space to note the ends of queues that will be empty.
        """
        parts = self._parts
        if now_ms is None:
            now_ms = parts.believed_time.now_ms()
        with contextlib.suppress(StoreFull):
            # Unsaved, a doubt ends with the process: no reason to leave a full disk full.
            self._watched("no space left to note a doubt of the clock", parts.believed_time.save)
        durable_end = self.flush()
        safe_end = durable_end if keep_from is None else min(durable_end, keep_from)
        plan = self._choose(now_ms, safe_end, delete_to, by_hand=by_hand)
        if plan.min_offset > self._dispatched_end:
            # Entries that exist only in memory cannot be rebuilt without their records.
            with contextlib.suppress(StoreFull):
                self.flush_derived()
            safe_end = min(safe_end, self._dispatched_end)
            plan = self._choose(now_ms, safe_end, delete_to, by_hand=by_hand)
        if not plan.segments:
            return plan
        with self._derived_lock:
            self._watched(
                "no space left to note where queues end",
                lambda: parts.idle_queues.note(parts.queues, plan.min_offset, durable_end),
            )
        begins = self._queue_begins(plan.min_offset)
        ranges = (
            DeletedRange(queue.topic, queue.queue_id, queue.min_offset, begin)
            for queue, begin in begins
        )
        return replace(plan, queue_begins=begins, ranges=tuple(ranges))

    def _choose(
        self, now_ms: int, safe_end: int, delete_to: int | None, *, by_hand: bool
    ) -> RetentionPlan:
        parts = self._parts
        if delete_to is not None:
            return choose_copied(parts.log, parts.config, delete_to=delete_to, safe_end=safe_end)
        return choose_segments(
            parts.log,
            parts.disk,
            parts.clock,
            parts.config,
            now_ms=now_ms,
            safe_end=safe_end,
            by_hand=by_hand,
        )

    def _queue_begins(self, commit_log_begin: int) -> tuple[tuple[ConsumeQueue, int], ...]:
        """New begins of the queues that now begin before a commit-log offset.

        Queues with wrong entries there stay as they are until they are repaired.
        """
        begins = (
            (queue, queue.first_at_or_above(commit_log_begin)) for queue in self._parts.queues
        )
        return tuple(
            (queue, begin)
            for queue, begin in begins
            if begin > queue.min_offset and self._is_sound(queue, begin)
        )

    def _is_sound(self, queue: ConsumeQueue, queue_offset: int) -> bool:
        """Whether the entries around a queue offset are right; asks for a repair if not."""
        parts = self._parts
        first = max(queue.min_offset, queue_offset - 1)
        for place in astray_between(parts, queue, first, min(queue_offset + 1, queue.end_offset)):
            parts.repairs.ask(queue, place)
            return False
        return True

    def let_go(self, plan: RetentionPlan) -> None:
        """Move the begin of log and queues past deleted data. The appending thread; does not wait.

        Later reads before the new begin get an error that names it.
        """
        parts = self._parts
        for queue, begin in plan.queue_begins:
            queue.min_offset = max(queue.min_offset, begin)
        for segment in plan.segments:
            if parts.log.min_offset == segment.start:
                parts.log.forget_oldest()
        parts.quarantine.keep_above(parts.log.min_offset)

    def delete_segment(self, segment: Segment) -> None:
        """Delete one segment that ``let_go`` has released. Any thread.

        For callers that pause between two: freeing many gigabytes at once keeps a disk from others.

        Raises:
            StorePoisoned: The disk failed.
        """
        log = self._parts.log
        if segment.end <= log.min_offset:
            self._watched("no space left to delete", lambda: log.delete(segment))

    def finish_retention(self, plan: RetentionPlan) -> RetentionReport:
        """Delete the data that ``let_go`` has released, and measure the disk's use. Any thread.

        A disk above the refusing ratio stops appends until a later call finds it below.

        Raises:
            StorePoisoned: The disk failed.
            StoreFull: No space for derived files; the rest is deleted at the next opening.
        """
        parts = self._parts
        gone = [segment for segment in plan.segments if segment.end <= parts.log.min_offset]
        if gone:
            self._watched("no space left to delete", lambda: self._delete(gone, plan))
        ratio = parts.disk.usage(parts.log.folder).ratio
        limit = parts.config.disk_refuse_ratio
        parts.full_reason = (
            f"the disk is {ratio:.0%} full, writes stop at {limit:.0%}" if ratio >= limit else ""
        )
        if gone:
            self.flush_derived()
        return RetentionReport(
            deleted=tuple(segment.start for segment in gone),
            reason=plan.reason if gone else None,
            disk_ratio=ratio,
            min_offset=parts.log.min_offset,
            ranges=plan.ranges if gone else (),
            stored_from_ms=plan.stored_from_ms,
            stored_until_ms=plan.stored_until_ms,
        )

    def _delete(self, segments: list[Segment], plan: RetentionPlan) -> None:
        parts = self._parts
        for segment in segments:
            parts.log.delete(segment)
        queues = [queue for queue, _ in plan.queue_begins]
        for first in range(0, len(queues), _QUEUES_AT_ONCE):
            with self._derived_lock:
                for queue in queues[first : first + _QUEUES_AT_ONCE]:
                    # Its topic may have been deleted meanwhile, and created again.
                    if parts.queues.find(queue.topic, queue.queue_id) is queue:
                        queue.remove_files_below_min()
        self._forget_below(parts.log.min_offset)

    def _forget_below(self, commit_log_begin: int) -> None:
        """Move the begin of the index and of the note of deleted topics to the begin of the log."""
        parts = self._parts
        parts.index.remove_below(commit_log_begin)
        with self._derived_lock:
            parts.deleted_topics.keep_between(commit_log_begin, parts.log.write_offset)

    def follow_log(self) -> None:
        """Move the begin of consume queues, index and notes to the begin of the log.

        For the opening of a store: the appending thread, without others.
        """
        parts = self._parts
        begin = parts.log.min_offset
        for queue, queue_offset in self._queue_begins(begin):
            queue.min_offset = queue_offset
            queue.remove_files_below_min()
        parts.quarantine.keep_above(begin)
        self._forget_below(begin)

    def delete_queues(self, topic: str) -> int:
        """Delete all queues of a topic; its records stay in the log until retention deletes them.

        The records are in no queue and under no key any more, not even after a rebuild. A topic
        that is created again under the same name starts empty. For the appending thread; a loop
        that must not wait for the disk calls the two steps, for several topics at once:
        ``let_go_of_topics`` and ``finish_deletion``.

        Returns:
            How many queues there were.

        Raises:
            StorePoisoned: The disk failed.
            StoreFull: No space to note it; nothing is deleted.
        """
        deletion = self.let_go_of_topics([topic])
        try:
            self.finish_deletion(deletion)
        except BaseException:
            self.take_back(deletion)
            raise
        return len(deletion.queues)

    def let_go_of_topics(self, topics: Collection[str]) -> TopicDeletion:
        """Hide the queues of topics. The appending thread; does not wait.

        Nothing is deleted yet. Records appended to these topics before the deletion is finished are
        lost.

        Raises:
            StoreClosed: The store was closed.
        """
        self._parts.check_open()
        parts = self._parts
        queues = parts.queues.let_go(topics)
        # All records of the topics are below this offset, all later ones above. If power loss takes
        # the end of the log, the noted offset is lowered with it.
        end = parts.log.write_offset
        return TopicDeletion(dict.fromkeys(topics, end), queues)

    def finish_deletion(self, deletion: TopicDeletion) -> None:
        """Delete durably the topics that ``let_go_of_topics`` has hidden. Any thread.

        Files of queues are removed by the next ``flush_derived``, or when the store is opened.

        Raises:
            StorePoisoned: The disk failed.
            StoreFull: No space to note it; nothing is deleted, and ``take_back`` can undo it.
            StoreClosed: The store was closed; nothing is deleted.
        """
        self._parts.check_open()
        parts = self._parts
        with self._derived_lock:
            self._watched(f"no space left to note that {deletion}", lambda: self._note(deletion))
            parts.queues.give_up(deletion.queues)

    def _note(self, deletion: TopicDeletion) -> None:
        # In this order: the second step makes the deletion final, and nothing may fail after it.
        self._parts.idle_queues.forget(deletion.ends)
        self._parts.deleted_topics.note(deletion.ends)

    def take_back(self, deletion: TopicDeletion) -> None:
        """Show the queues of a failed deletion again. The appending thread."""
        self._parts.queues.take_back(deletion.queues)

    @property
    def waiting_keys(self) -> int:
        """Number of keys that are not filed in the index yet; queries find them all the same."""
        return self._parts.index.pending_keys

    def file_keys(self) -> None:
        """File the waiting keys in the index. Any thread.

        Call it often beside appends: it spares them this work, and the wait for the disk when an
            index file is full. Without it an append that finds more waiting keys than
            ``StoreConfig.index_backlog_keys`` files some first, and so does every
            ``flush_derived``.

        Raises:
            StoreFull: No space for another index file; the keys keep waiting.
            StorePoisoned: The disk failed.
        """
        parts = self._parts
        parts.guard.check()
        # This may flush a full index file, whose failure counts like any other.
        parts.guard.watch(parts.index.settle)

    def repair_queues(self, progress: ProgressCallback | None = None) -> list[QueueRepair]:
        """Rebuild the entries that ``Store.repairs`` asks for; may read the whole log. Any thread.

        Raises:
            StoreFull: No space for the entries; reads request them again.
            StorePoisoned: The disk failed.
        """
        parts = self._parts
        asked = parts.repairs.take()
        try:
            found = find_entries(parts, asked.items(), progress)
            with self._derived_lock:
                return self._watched(
                    "no space left to repair consume queues", lambda: put_entries(parts, found)
                )
        finally:
            parts.repairs.done()

    def prepare_next_segment(self) -> None:
        """Allocate the next segment and make memory ready for the next writes. Any thread.

        Call it often beside appends: it spares them waits for the disk and page faults.

        Raises:
            StoreFull: No space for the next segment; appends continue in the present one.
            StorePoisoned: The disk failed.
        """
        parts = self._parts
        parts.guard.check()
        parts.guard.watch(parts.log.prepare_next)


class _Exhausted(Exception):
    """Space or descriptors have run out, which is no failure of the disk."""
