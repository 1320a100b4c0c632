"""Logs the deletions of retention, above all early ones for lack of space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ariane_servicekit import get_logger
from ariane_storage.keeping.retention import DeletedRange, RetentionReason, RetentionReport

QUEUES_LOGGED_MAX: Final = 100
"""Queues that one log line names, those with most deleted messages first."""

TOPICS_KEPT_MAX: Final = 20

_log = get_logger(__name__)


class EarlyDeletions:
    """Counts and logs what was deleted early since the start."""

    def __init__(self) -> None:
        self.message_count = 0
        """Deleted messages, including those of system topics."""
        self.segment_count = 0
        """Deleted segments."""
        self.last_at_ms = 0
        """Time of the last early deletion; 0 before the first."""
        self.last_topics: Sequence[str] = ()
        """Topics that lost messages in it, those with most first; not all of them."""
        self.last_stored_until_ms: int | None = None
        """The latest possible store time of the messages deleted then; None if unknown."""

    def note(self, report: RetentionReport, now_ms: int) -> None:
        """Log and count what a turn of retention has deleted."""
        if not report.deleted:
            return
        ranges = sorted(report.ranges, key=_count, reverse=True)
        message_count = sum(map(_count, ranges))
        facts = {
            "reason": str(report.reason),
            "message_count": message_count,
            "queues": {
                f"{each.topic}/{each.queue_id}": f"{each.begin} to {each.end - 1}"
                for each in ranges[:QUEUES_LOGGED_MAX]
            },
            "queue_count": len(ranges),
            "segments": list(report.deleted),
            "stored_from_ms": report.stored_from_ms,
            "stored_until_ms": report.stored_until_ms,
            "disk_used_ratio": round(report.disk_ratio, 3),
        }
        if report.reason is not RetentionReason.DISK_FORCE:
            _log.info("old_messages_deleted", **facts)
            return
        self.message_count += message_count
        self.segment_count += len(report.deleted)
        self.last_at_ms = now_ms
        self.last_topics = list(dict.fromkeys(each.topic for each in ranges))[:TOPICS_KEPT_MAX]
        self.last_stored_until_ms = report.stored_until_ms
        _log.warning("messages_deleted_early", **facts)


def _count(deleted: DeletedRange) -> int:
    return deleted.end - deleted.begin
