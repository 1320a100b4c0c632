"""Keeping an open store: flushing it, writing what is derived, deleting what is old.

Everything here may run beside the appending thread, on one other thread at a time or on several.
"""

from __future__ import annotations

import threading

from ariane_storage.checkpoint import Checkpoint, CheckpointFile
from ariane_storage.config import FlushMode
from ariane_storage.disk import is_exhausted
from ariane_storage.errors import StoreFull
from ariane_storage.flush import FlushSchedule
from ariane_storage.parts import StoreParts
from ariane_storage.queue_table import QueueSums
from ariane_storage.retention import RetentionReport, delete_old_segments


class Keeper:
    """Sees to durability and space. Any thread."""

    def __init__(self, parts: StoreParts, checkpoint_file: CheckpointFile) -> None:
        self._parts = parts
        self._checkpoint_file = checkpoint_file
        self._schedule = FlushSchedule(parts.config)
        # Consume queues are written, removed and counted by one thread at a time.
        self._derived_lock = threading.RLock()

    def flush(self) -> int:
        """Make the commit log durable; see ``Store.flush``."""
        return self._parts.guard.run(self._parts.log.flush)

    def flush_derived(self) -> None:
        """Write consume queues, index and checkpoint; see ``Store.flush_derived``."""
        parts = self._parts
        # Read before the flush: every record below the durable end is not newer than this.
        timestamp = parts.store_timestamp_ms
        end = self.flush()
        with self._derived_lock:
            try:
                # Not under the lock of flushes: nobody's acknowledgement waits for derived files.
                parts.guard.check()
                parts.guard.watch(lambda: self._write_derived(end, timestamp))
            except _Exhausted as error:
                reason = f"no space left for consume queues and index ({error})"
                raise StoreFull(parts.files.root, reason) from error

    def _write_derived(self, end: int, timestamp: int) -> None:
        parts = self._parts
        try:
            sums = parts.queues.write_out(end)
            items = parts.index.flush(end)
            parts.quarantine.save()
            self._checkpoint(end, timestamp, sums, items)
        except OSError as error:
            if is_exhausted(error):
                # Nothing is lost: what was not written stays in memory, and the log has it all.
                raise _Exhausted(error.strerror) from error
            raise

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

    def flush_due(self) -> None:
        """Do what the clocks say; see ``Store.flush_due``."""
        parts, schedule = self._parts, self._schedule
        now_ms = parts.clock.now_ms()
        if schedule.derived_due(now_ms):
            self.flush_derived()
            schedule.derived_took_ms = parts.clock.now_ms() - now_ms
            schedule.derived_flushed_ms = schedule.log_flushed_ms = now_ms
        elif schedule.log_due(now_ms, parts.log.write_offset - parts.log.flushed_offset):
            self.flush()
            schedule.log_flushed_ms = now_ms

    def apply_retention(self, now_ms: int, keep_from: int | None = None) -> RetentionReport:
        """Delete old segments; see ``Store.apply_retention``."""
        parts = self._parts
        self.flush()
        safe_end = parts.log.flushed_offset
        if keep_from is not None:
            safe_end = min(safe_end, keep_from)
        with self._derived_lock:
            report = delete_old_segments(
                parts.log,
                parts.disk,
                parts.clock,
                parts.config,
                now_ms=now_ms,
                safe_end=safe_end,
                before_delete=lambda begin: parts.idle_queues.note(parts.queues, begin),
            )
            refusing = report.disk_ratio >= parts.config.disk_refuse_ratio
            parts.full_reason = (
                f"the disk is {report.disk_ratio:.0%} full, writes stop at "
                f"{parts.config.disk_refuse_ratio:.0%}"
                if refusing
                else ""
            )
            if report.deleted:
                self.follow_log()
                self.flush_derived()
        return report

    def follow_log(self) -> None:
        """Let consume queues, index and all that is noted begin where the log begins."""
        parts = self._parts
        begin = parts.log.min_offset
        for queue in parts.queues:
            queue.raise_min(max(queue.min_offset, queue.first_at_or_above(begin)))
        parts.index.remove_below(begin)
        parts.quarantine.keep_above(begin)
        parts.deleted_topics.keep_between(begin, parts.log.write_offset)

    def delete_queues(self, topic: str) -> int:
        """Delete the queues of a topic; see ``Store.delete_queues``."""
        parts = self._parts
        with self._derived_lock:
            if not parts.queues.of_topic(topic):
                return 0
            # Every record of the topic lies below what is durable now, and every later one above.
            end = self.flush()
            try:
                parts.deleted_topics.note(topic, end)
            except OSError as error:
                if not is_exhausted(error):
                    raise
                reason = f"no space left to note that {topic} is deleted ({error.strerror})"
                raise StoreFull(parts.files.root, reason) from error
            count = parts.queues.remove_topic(topic)
            parts.idle_queues.note(parts.queues, parts.log.min_offset)
            self.flush_derived()
        return count

    def file_keys(self) -> None:
        """File keys that wait in the index; see ``Store.file_keys``."""
        parts = self._parts
        parts.guard.check()
        # A full index file is flushed on the way: a failure of that is one like any other.
        parts.guard.watch(parts.index.settle)

    def prepare_next_segment(self) -> None:
        """Make ready what appends will need; see ``Store.prepare_next_segment``."""
        parts = self._parts
        parts.guard.check()
        parts.guard.watch(parts.log.prepare_next)
        if parts.config.flush_mode is FlushMode.ASYNC:
            # Ready pages are dirty pages: a flush that somebody waits for would write them too.
            parts.log.prefault(parts.config.prefault_bytes)


class _Exhausted(Exception):
    """Space or descriptors have run out, which is no failure of the disk."""
