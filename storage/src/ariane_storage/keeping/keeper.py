"""Keeping an open store: flushing it, writing what is derived, deleting what is old.

Everything here may run beside the appending thread, on one other thread at a time or on several.
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
"""The deletion of a topic waits for the files of so many queues at most."""
_T = TypeVar("_T")


class Keeper:
    """Sees to durability and space. Any thread."""

    def __init__(self, parts: StoreParts, checkpoint_file: CheckpointFile) -> None:
        self._parts = parts
        self._checkpoint_file = checkpoint_file
        self._schedule = FlushSchedule(parts.config)
        # Consume queues and index are on the disk up to here.
        self._dispatched_end = 0
        self._marked_end = -1
        # Consume queues are written, removed and counted by one thread at a time.
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
                # The log is durable all the same; the next flush says it, or the checkpoint does.
                if not is_exhausted(error):
                    raise
                return end
            self._marked_end = end
        return end

    def close(self) -> None:
        """Let go of the checkpoint's file."""
        self._checkpoint_file.close()

    def flush_derived(self) -> None:
        """Write consume queues, index and checkpoint; see ``Store.flush_derived``."""
        parts = self._parts
        # Read before the flush: every record below the durable end is not newer than this.
        timestamp = parts.store_timestamp_ms
        end = self.flush()
        with self._derived_lock:
            # Nothing is lost without space: what was not written stays in memory, and the log has
            # it all.
            self._watched(
                "no space left for consume queues and index",
                lambda: self._write_derived(end, timestamp),
            )

    def _watched(self, full_reason: str, step: Callable[[], _T]) -> _T:
        """Run a step that meets the disk: when that fails the store is poisoned.

        Not under the lock of flushes: nobody's acknowledgement waits for it.

        Raises:
            StoreFull: For a reason, when space or descriptors have run out.
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
        self._checkpoint_file.save(
            Checkpoint(
                log_begin=self._parts.log.min_offset,
                dispatched_offset=end,
                flushed_offset=end,
                confirmed_offset=min(end, self._parts.confirmed_offset),
                store_timestamp_ms=timestamp,
                queue_count=sums.queue_count,
                entry_count=sums.entry_count,
                index_item_count=items,
            )
        )
        self._dispatched_end = end

    def rewind(self, end: int, cut_derived: Callable[[], None]) -> None:
        """Let all that is derived, and what is known to be durable, end where the log will be cut.

        Args:
            end: Where; all before it is flushed.
            cut_derived: Cuts consume queues, index and notes.

        Raises:
            StorePoisoned: The disk failed.
        """
        parts = self._parts

        def cut() -> None:
            cut_derived()
            self._checkpoint_file.mark(end)
            self._marked_end = end
            sums = parts.queues.write_out(end)
            items = parts.index.flush(end)
            parts.quarantine.save()
            self._checkpoint(end, parts.store_timestamp_ms, sums, items)

        with self._derived_lock:
            self._watched("no space left to cut consume queues", cut)

    def flush_due(self) -> None:
        """Flush what the intervals of the configuration say is due. Any thread; call it often.

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

    def apply_retention(
        self, now_ms: int | None = None, *, keep_from: int | None = None
    ) -> RetentionReport:
        """Flush, delete old segments and what leads to them, and see how full the disk is.

        A disk above the refusing ratio stops appends until a later call finds it below.

        Views that readers hold stay valid. The appending thread; a loop that must not wait for the
        disk takes the three steps of it one by one: ``plan_retention``, ``let_go`` and
        ``finish_retention``.

        Args:
            now_ms: The time; that of the clock unless given, where no jump of it is doubted.
            keep_from: Nothing at or behind this commit-log offset is deleted, however old.

        Raises:
            StorePoisoned: The disk failed.
            StoreFull: No space for the notes that come first; nothing is deleted.
        """
        plan = self.plan_retention(now_ms, keep_from=keep_from)
        self.let_go(plan)
        return self.finish_retention(plan)

    def plan_retention(
        self, now_ms: int | None = None, *, keep_from: int | None = None
    ) -> RetentionPlan:
        """Flush, and choose the segments that go and where queues begin then. Any thread.

        Args:
            now_ms: The time; that of the clock unless given, where no jump of it is doubted.
            keep_from: Nothing at or behind this commit-log offset is deleted, however old.

        Raises:
            StorePoisoned: The disk failed.
            StoreFull: No space to note where queues end that will have no messages.
        """
        parts = self._parts
        if now_ms is None:
            now_ms = parts.believed_time.now_ms()
        parts.guard.watch(parts.believed_time.save)
        durable_end = self.flush()
        safe_end = durable_end if keep_from is None else min(durable_end, keep_from)
        plan = self._choose(now_ms, safe_end)
        if plan.min_offset > self._dispatched_end:
            # Entries that are in memory alone cannot be built again without their records.
            with contextlib.suppress(StoreFull):
                self.flush_derived()
            plan = self._choose(now_ms, min(safe_end, self._dispatched_end))
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

    def _choose(self, now_ms: int, safe_end: int) -> RetentionPlan:
        parts = self._parts
        return choose_segments(
            parts.log, parts.disk, parts.clock, parts.config, now_ms=now_ms, safe_end=safe_end
        )

    def _queue_begins(self, commit_log_begin: int) -> tuple[tuple[ConsumeQueue, int], ...]:
        """Where queues begin once the log does at an offset: those that begin before it.

        Those whose entries there lead astray go on as they are until they are repaired.
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
        """Whether the entries beside a queue offset lead to their records; else it is repaired."""
        parts = self._parts
        first = max(queue.min_offset, queue_offset - 1)
        for place in astray_between(parts, queue, first, min(queue_offset + 1, queue.end_offset)):
            parts.repairs.ask(queue, place)
            return False
        return True

    def let_go(self, plan: RetentionPlan) -> None:
        """Let log and queues begin behind what goes. The appending thread; nothing is waited for.

        Reads of what lies before get an error that names where the queue begins now.
        """
        parts = self._parts
        for queue, begin in plan.queue_begins:
            queue.min_offset = max(queue.min_offset, begin)
        for segment in plan.segments:
            if parts.log.min_offset == segment.start:
                parts.log.forget_oldest()
        parts.quarantine.keep_above(parts.log.min_offset)

    def finish_retention(self, plan: RetentionPlan) -> RetentionReport:
        """Delete what was let go of and what leads to it, see how full the disk is. Any thread.

        Raises:
            StorePoisoned: The disk failed.
            StoreFull: No space for derived files; the rest is deleted when the store is opened.
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
                    # Its topic may have been deleted meanwhile, and made again.
                    if parts.queues.find(queue.topic, queue.queue_id) is queue:
                        queue.remove_files_below_min()
        self._forget_below(parts.log.min_offset)

    def _forget_below(self, commit_log_begin: int) -> None:
        """Let the index and the note of deleted topics begin where the log begins."""
        parts = self._parts
        parts.index.remove_below(commit_log_begin)
        with self._derived_lock:
            parts.deleted_topics.keep_between(commit_log_begin, parts.log.write_offset)

    def follow_log(self) -> None:
        """Let consume queues, index and all that is noted begin where the log begins.

        For a store that is opened: the appending thread, and nobody beside.
        """
        parts = self._parts
        begin = parts.log.min_offset
        for queue, queue_offset in self._queue_begins(begin):
            queue.min_offset = queue_offset
            queue.remove_files_below_min()
        parts.quarantine.keep_above(begin)
        self._forget_below(begin)

    def delete_queues(self, topic: str) -> int:
        """Delete all queues of a topic; its records stay in the log until they are too old.

        They are in no queue and under no key any more, also after a rebuild. A topic that is made
        again under the same name begins at nothing. The appending thread; a loop that must not wait
        for the disk takes the two steps of it one by one, for several topics at once:
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
        """Let nobody find the queues of topics any more. The appending thread; does not wait.

        Nothing is deleted yet. Whoever appends to one of these topics before that is finished loses
        what he appends.

        Raises:
            StoreClosed: The store was closed.
        """
        self._parts.check_open()
        parts = self._parts
        queues = parts.queues.let_go(topics)
        # Every record of the topics lies below, and every later one above. Should power loss take
        # the end of the log back, what is written down goes back with it.
        end = parts.log.write_offset
        return TopicDeletion({queue.topic: end for queue in queues}, queues)

    def finish_deletion(self, deletion: TopicDeletion) -> None:
        """Delete durably what was let go of. Any thread.

        Files of the queues go with the next ``flush_derived``, or when the store is opened.

        Raises:
            StorePoisoned: The disk failed.
            StoreFull: No space to note it; nothing is deleted, and all can be taken back.
            StoreClosed: The store was closed; nothing is deleted.
        """
        self._parts.check_open()
        parts = self._parts
        if not deletion.queues:
            return
        with self._derived_lock:
            self._watched(f"no space left to note that {deletion}", lambda: self._note(deletion))
            parts.queues.give_up(deletion.queues)

    def _note(self, deletion: TopicDeletion) -> None:
        # In this order: the second says that they are deleted, and nothing may fail behind it.
        self._parts.idle_queues.forget(deletion.ends)
        self._parts.deleted_topics.note(deletion.ends)

    def take_back(self, deletion: TopicDeletion) -> None:
        """Let queues be found again whose deletion has failed. The appending thread."""
        self._parts.queues.take_back(deletion.queues)

    @property
    def waiting_keys(self) -> int:
        """Keys of records that are not filed in the index yet; queries find them all the same."""
        return self._parts.index.pending_keys

    def file_keys(self) -> None:
        """File the keys that wait in the index. Any thread.

        Call it often beside appends: it keeps this off them, and the time that the disk takes when
        an index file is full. Without it an append that finds more keys waiting than
        ``StoreConfig.index_backlog_keys`` files some first, and so does every ``flush_derived``.

        Raises:
            StoreFull: No space for another index file; the keys go on waiting.
            StorePoisoned: The disk failed.
        """
        parts = self._parts
        parts.guard.check()
        # A full index file is flushed on the way: a failure of that is one like any other.
        parts.guard.watch(parts.index.settle)

    def repair_queues(self, progress: ProgressCallback | None) -> list[QueueRepair]:
        """Make entries again that lead astray; see ``QueueRepairs.run``."""
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
        """Allocate the next segment and make the coming bytes of memory ready. Any thread.

        Call it often beside appends: it keeps the time of the disk and of page faults off them.

        Raises:
            StoreFull: No space for the next segment; appends go on while this one lasts.
            StorePoisoned: The disk failed.
        """
        parts = self._parts
        parts.guard.check()
        parts.guard.watch(parts.log.prepare_next)


class _Exhausted(Exception):
    """Space or descriptors have run out, which is no failure of the disk."""
