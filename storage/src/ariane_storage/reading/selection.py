"""Chooses the entries of a consume queue that a read takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ariane_storage.log.records.fields import Int64s
from ariane_storage.queues.consume_queue_entry import HOLE_SIZE, Entries
from ariane_storage.reading.filter import Filter


@dataclass(frozen=True, slots=True)
class Selection:
    """The entries that a read takes."""

    queue_offsets: Int64s
    """Queue offset of each."""
    commit_log_offsets: Int64s
    """Commit-log offset of each record."""
    sizes: Int64s
    """Size of each record."""
    next_queue_offset: int
    """Queue offset behind the last examined entry."""

    def taken(self, which: NDArray[np.bool_] | Int64s) -> Selection:
        """Keep some of the entries, by mask or index."""
        return Selection(
            self.queue_offsets[which],
            self.commit_log_offsets[which],
            self.sizes[which],
            self.next_queue_offset,
        )

    def part(self, begin: int, end: int) -> Selection:
        """Some neighbouring entries, without a copy."""
        return Selection(
            self.queue_offsets[begin:end],
            self.commit_log_offsets[begin:end],
            self.sizes[begin:end],
            self.next_queue_offset,
        )


def select(
    entries: Entries,
    queue_offset: int,
    *,
    max_count: int,
    max_bytes: int,
    wanted: Filter | None,
) -> Selection:
    """Choose from consecutive entries.

    Args:
        entries: The queue's entries from ``queue_offset`` on; at least one.
        queue_offset: Queue offset of the first entry.
        max_count: Messages at most.
        max_bytes: Bytes at most, but always one message.
        wanted: The filter; None for all messages.
    """
    sizes = entries["size"].astype(np.int64)
    if wanted is None and int(sizes.min()) > 0 and int(sizes.max()) < HOLE_SIZE:
        return _select_first(entries, sizes[:max_count], queue_offset, max_bytes)
    passing = (sizes > 0) & (sizes != HOLE_SIZE)
    if wanted is not None:
        passing &= wanted.entries_mask(entries)
    places = np.flatnonzero(passing)
    taken = places[:max_count]
    total = np.cumsum(sizes[taken])
    fitting = max(1, int(np.searchsorted(total, max_bytes, side="right")))
    taken = taken[:fitting]
    # All entries before the first wanted one that was left out are done.
    left = len(taken) < len(places)
    looked_at = int(places[len(taken)]) if left else len(entries)
    return Selection(
        queue_offsets=taken + queue_offset,
        commit_log_offsets=entries["commit_log_offset"][taken].astype(np.int64),
        sizes=sizes[taken],
        next_queue_offset=queue_offset + looked_at,
    )


def suspects(entries: Entries) -> list[int]:
    """Which of consecutive entries show best if some are foreign: the first and the last.

    And where a record does not begin behind the one before it, both of those.
    """
    sizes, places = entries["size"].astype(np.int64), entries["commit_log_offset"].astype(np.int64)
    real = np.flatnonzero(sizes != HOLE_SIZE)
    if not len(real):
        return []
    if len(real) < len(sizes):
        sizes, places = sizes[real], places[real]
    falls = np.flatnonzero(places[1:] < places[:-1] + sizes[:-1])[:1].tolist()
    found = {0, len(real) - 1, *falls, *(fall + 1 for fall in falls)}
    return real[sorted(found)].tolist()  # type: ignore[no-any-return]


def _select_first(entries: Entries, sizes: Int64s, queue_offset: int, max_bytes: int) -> Selection:
    """Choose from consecutive entries that are all wanted: the first, as many as fit."""
    count = max(1, int(np.searchsorted(np.cumsum(sizes), max_bytes, side="right")))
    return Selection(
        queue_offsets=np.arange(queue_offset, queue_offset + count),
        commit_log_offsets=entries["commit_log_offset"][:count].astype(np.int64),
        sizes=sizes[:count],
        next_queue_offset=queue_offset + count,
    )
