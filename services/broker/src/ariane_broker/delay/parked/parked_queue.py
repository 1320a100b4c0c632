"""Queues of parked records: those of the delay levels, and the one of the timer."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_broker.delay.parked.queue_progress import QueueProgress
from ariane_broker.queue_key import QueueKey
from ariane_storage.log.records.fields import Int64s
from ariane_storage.queues.consume_queue_entry import HOLE_SIZE, Entries
from ariane_storage.store import Store
from ariane_storage.writing.append import Appended

SCAN_COUNT: Final = 1 << 16
"""Entries that are read in one go: about a millisecond."""


NO_ENTRY: Final = -1
"""The size in what is no entry: zeros of a damaged file."""


class ParkedRows:
    """Some parked records, by column."""

    __slots__ = ("commit_log_offsets", "due_ms", "queue_offsets", "sizes")

    def __init__(
        self, queue_offsets: Int64s, commit_log_offsets: Int64s, sizes: Int64s, due_ms: Int64s
    ) -> None:
        self.queue_offsets = queue_offsets
        """Queue offset of each."""
        self.commit_log_offsets = commit_log_offsets
        """Commit-log offset of each."""
        self.sizes = sizes
        """Bytes of each; 0 for a record that is gone. Something that is no entry has another number
        here, and points to a wrong place."""
        self.due_ms = due_ms
        """When it is due, milliseconds since the epoch."""

    @classmethod
    def of(cls, entries: Entries, queue_offset: int) -> ParkedRows:
        """The records of consecutive entries from a queue offset on."""
        sizes = entries["size"].astype(np.int64)
        sizes[sizes == 0] = NO_ENTRY
        sizes[sizes == HOLE_SIZE] = 0
        return cls(
            np.arange(queue_offset, queue_offset + len(entries)),
            entries["commit_log_offset"].astype(np.int64),
            sizes,
            entries["tags_code"].astype(np.int64),
        )

    @classmethod
    def appended(cls, appended: Appended, due_ms: Int64s) -> ParkedRows:
        """The records of a block that was just appended."""
        first, starts = int(appended.first_queue_offset), appended.commit_log_offsets
        # Not the sizes in the block, which has no room for IPv6 hosts.
        sizes = np.diff(starts, append=int(appended.next_commit_log_offset))
        return cls(np.arange(first, first + appended.count), starts, sizes, due_ms)

    def __len__(self) -> int:
        return len(self.queue_offsets)

    @property
    def ends(self) -> Int64s:
        """Where each record ends in the commit log: the delivered message names this place."""
        return self.commit_log_offsets + self.sizes

    def within(self, size_bytes_max: int) -> ParkedRows:
        """The first records that together fit into a size; at least one, if there is any."""
        fitting = int(np.searchsorted(np.cumsum(self.sizes), size_bytes_max, side="right"))
        return self.take(slice(max(1, fitting)))

    def take(self, chosen: slice | Int64s | NDArray[np.bool_]) -> ParkedRows:
        """Select some, by numbers, mask or slice."""
        return ParkedRows(
            self.queue_offsets[chosen],
            self.commit_log_offsets[chosen],
            self.sizes[chosen],
            self.due_ms[chosen],
        )


def rows_from(store: Store, queue: QueueKey, queue_offset: int, count: int) -> ParkedRows:
    """Records of a queue from a queue offset on, or from the oldest kept one."""
    begin = max(queue_offset, store.queue_bounds(*queue)[0])
    return ParkedRows.of(store.queue_entries(*queue, begin, max_count=count), begin)


def mark_origins(store: Store, queue: QueueKey, progress: QueueProgress, origins: Int64s) -> None:
    """Mark the records of a queue that the log shows as taken out.

    Args:
        store: The store.
        queue: The queue.
        progress: The queue's progress.
        origins: Ends of the records that were taken out, ascending.
    """
    progress.raise_begin(store.queue_bounds(*queue)[0])
    queue_offset = progress.begin
    while len(origins):
        rows = rows_from(store, queue, queue_offset, SCAN_COUNT)
        if not len(rows):
            return
        places = np.searchsorted(origins, rows.ends)
        places[places == len(origins)] = 0
        progress.mark(rows.queue_offsets[origins[places] == rows.ends])
        queue_offset = int(rows.queue_offsets[-1]) + 1


def needed_from(store: Store, queue: QueueKey, begin: int) -> int | None:
    """Commit-log offset of the oldest waiting record of a queue; None if none waits."""
    rows = rows_from(store, queue, begin, 1)
    return int(rows.commit_log_offsets[0]) if len(rows) and rows.sizes[0] else None
