"""Files missing at the begin of the log or of a queue that retention has not deleted.

Retention removes files there, too, but only those whose records are gone, and all of those. So if a
queue or the log begins above 0, or a queue with records that are gone, this code decides whether
that is legitimate.
"""

from __future__ import annotations

from ariane_storage.log.checkpoint import Checkpoint
from ariane_storage.log.commit_log import CommitLog
from ariane_storage.log.damage import Damage, DamageReason
from ariane_storage.log.deleted_topics import DeletedTopics
from ariane_storage.log.scan import Stretch, scan
from ariane_storage.queues.consume_queue_entry import HOLE_SIZE
from ariane_storage.queues.queue_table import QueueTable
from ariane_storage.queues.record_rows import Rows


def lost_begin(log: CommitLog, checkpoint: Checkpoint | None, *, crashed: bool) -> Damage | None:
    """Segments missing at the begin of the log; None if there are none.

    After a stop the checkpoint has the begin of the log. After a crash retention may have been
    ahead of it, so the answer is unknown.

    Args:
        log: The existing segments.
        checkpoint: The newest valid checkpoint, or None.
        crashed: Whether the previous run ended without a stop.
    """
    if checkpoint is None or crashed or not log.segments:
        return None
    if checkpoint.log_begin >= log.min_offset:
        return None
    return Damage(checkpoint.log_begin, log.min_offset, DamageReason.SEGMENT_MISSING)


def lack_first_files(log: CommitLog, queues: QueueTable, deleted_topics: DeletedTopics) -> bool:
    """Whether the log has records of a queue from before its first file.

    Only queues that do not begin at 0 are checked, and only if their first entry points into the
    kept log: mostly it points below that, or its file begins with holes. For the checked ones the
    log is read from its begin to that entry's record.

    Args:
        log: The commit log.
        queues: All queues, just loaded from their files.
        deleted_topics: Records of theirs are in no queue.
    """
    begin = log.min_offset
    first = _first_entries(queues, begin)
    end = max((place for _, place in first.values()), default=begin)
    for event in scan(log.walk(begin), begin) if first else ():
        if not isinstance(event, Stretch):
            continue
        if _has_records_before(event, first, deleted_topics):
            return True
        if event.end >= end:
            break
    return False


def has_outlived_files(
    log: CommitLog, queues: QueueTable, checkpoint: Checkpoint | None, file_entries: int
) -> bool:
    """Whether a queue begins with a file that retention has removed.

    It is an earlier topic's: its entries look as if all their messages were deleted, whatever stood
    there before.

    Args:
        log: The commit log.
        queues: All queues, just loaded from their files.
        checkpoint: Retention writes one when it has removed files.
        file_entries: Entries of one file.
    """
    if checkpoint is None or checkpoint.log_begin != log.min_offset:
        return False  # Retention was interrupted.
    for queue in queues:
        following = queue.min_offset - queue.min_offset % file_entries + file_entries
        if following < queue.end_offset:
            place, size, _ = queue.entry_at(following - 1)
            if 0 < size < HOLE_SIZE and place + size <= log.min_offset:
                return True
    return False


_FirstEntries = dict[tuple[str, int], tuple[int, int]]
"""By queue: its first queue offset, and the commit-log offset of that record."""


def _first_entries(queues: QueueTable, commit_log_begin: int) -> _FirstEntries:
    """First entries of queues that do not begin at 0, if they point behind the log's first byte."""
    first: _FirstEntries = {}
    for queue in queues:
        if 0 < queue.min_offset < queue.end_offset:
            place, size, _ = queue.entry_at(queue.min_offset)
            if place > commit_log_begin and 0 < size < HOLE_SIZE:
                first[queue.topic, queue.queue_id] = queue.min_offset, place
    return first


def _has_records_before(
    stretch: Stretch, first: _FirstEntries, deleted_topics: DeletedTopics
) -> bool:
    rows = Rows.of(stretch)
    for name, members in rows.groups().items():
        if name in first:
            before = rows.queue_offsets[members] < first[name][0]
            before &= rows.commit_log_offsets[members] >= deleted_topics.end_of(name[0])
            if bool((before & rows.has_entry[members]).any()):
                return True
    return False
