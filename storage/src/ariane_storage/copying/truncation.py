"""Cuts the end of an open log, durably: records of a replica that its primary does not have.

First everything that refers to the end, or says that it is durable, is cut, then the end itself,
then the epochs that began there::

    1  flush the log          the checkpoint of step 3 may say that all before the cut is durable
    2  queues, index, notes   cut in memory and on the disk
    3  checkpoint and mark    nothing at or behind the cut is known to be durable any more
    4  segments               the last ones removed, the last that stays cut, durably
    5  epochs                 forgotten

Steps 2 to 4 are one step to flushes, which may come from another thread.

After an interruption before step 4 the end is still there as a whole, and is cut when the replica
next compares its log with the primary's. After one during step 4, the log ends somewhere behind the
cut.
"""

from __future__ import annotations

from typing import NamedTuple

from ariane_storage.errors import CommitLogOffsetOutOfRange
from ariane_storage.keeping.keeper import Keeper
from ariane_storage.log.epoch_history import EpochHistory
from ariane_storage.parts import StoreParts


class Truncation(NamedTuple):
    """The range that was cut."""

    begin: int
    """The new end of the log."""
    end: int
    """The end of the log before."""


def truncate(
    parts: StoreParts, keeper: Keeper, history: EpochHistory, commit_log_offset: int
) -> Truncation:
    """Cut a log; see ``LogCopy.truncate``."""
    parts.check_open()
    log, end = parts.log, parts.log.write_offset
    if not log.min_offset <= commit_log_offset <= end:
        raise CommitLogOffsetOutOfRange(commit_log_offset, log.min_offset, end)
    if commit_log_offset < end:
        keeper.flush()
        keeper.rewind(commit_log_offset, lambda: _cut_derived(parts, commit_log_offset))
    parts.guard.run(lambda: history.keep_below(commit_log_offset))
    parts.trusted_from = min(parts.trusted_from, commit_log_offset)
    return Truncation(commit_log_offset, end)


def _cut_derived(parts: StoreParts, commit_log_offset: int) -> None:
    begun = []
    for queue in parts.queues:
        if queue.last_record_end <= commit_log_offset:
            continue
        queue_end = queue.first_at_or_above(commit_log_offset)
        if queue_end == 0:
            begun.append(queue)
        else:
            queue.cut(queue_end)
    parts.queues.remove(begun)
    parts.index.keep_below(commit_log_offset)
    parts.quarantine.keep_below(commit_log_offset)
    parts.deleted_topics.keep_between(parts.log.min_offset, commit_log_offset)
