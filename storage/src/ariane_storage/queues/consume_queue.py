"""A consume queue: the place in the log of each message of a message queue.

::

    min_offset        written                 end_offset
    |                 |                       |
    v                 v                       v
    +-----------------+-----------------------+
    | in the files    | in memory: the tail   |
    +-----------------+-----------------------+

New entries are in memory and written out at intervals, and only if their records are durable: a
queue's files never point to bytes that power loss could take. The tail is lost with the process;
recovery rebuilds it from the commit log.

One thread appends and reads; another may write out. Existing entries never change.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from struct import Struct
from typing import Final

import numpy as np

from ariane_storage.log.records.fields import Int64s
from ariane_storage.queues.consume_queue_entry import (
    ENTRY,
    ENTRY_BYTES,
    HOLE_SIZE,
    Entries,
    holes,
    joined,
)
from ariane_storage.queues.entry_files import EntryFiles, QueueFiles, Unsynced

_NEIGHBOURS: Final = 16
_BLOCK_ENTRIES: Final = 4096
_unpack_entry = Struct(">qiq").unpack_from


class _Tail:
    """Entries in memory, encoded: queue offsets ``[start, end)``."""

    __slots__ = ("encoded", "start")

    def __init__(self, start: int, encoded: bytearray) -> None:
        self.start = start
        self.encoded = encoded

    @property
    def end(self) -> int:
        return self.start + len(self.encoded) // ENTRY_BYTES


class ConsumeQueue:
    """The entries of one message queue."""

    __slots__ = (
        "_files",
        "_lock",
        "_tail",
        "is_on_disk",
        "last_record_end",
        "min_offset",
        "queue_id",
        "shown_from",
        "topic",
        "written_record_end",
    )

    def __init__(self, files: QueueFiles, folder: Path, topic: str, queue_id: int) -> None:
        self._files = EntryFiles(files, folder)
        self._lock = files.lock
        self._tail = _Tail(0, bytearray())
        self.topic = topic
        """Its topic."""
        self.queue_id = queue_id
        """Its number within the topic."""
        self.min_offset = 0
        """The oldest queue offset that is kept."""
        self.shown_from = 0
        """Messages before this queue offset are kept and shown to no reader: their topic wants so.
        Forgotten when the store is closed."""
        self.is_on_disk = False
        """Whether it has files."""
        self.last_record_end = 0
        """Commit-log offset behind its newest record, 0 if it has none."""
        self.written_record_end = 0
        """The same of the newest record with an entry in the files."""

    @property
    def begin_offset(self) -> int:
        """The oldest queue offset for readers."""
        return max(self.min_offset, self.shown_from)

    @property
    def end_offset(self) -> int:
        """The next queue offset."""
        return self._tail.end

    @property
    def written_offset(self) -> int:
        """Queue offset below which all entries are in the files."""
        return self._tail.start

    # Appending: one thread, with the lock held.

    def add(self, encoded: bytes, last_record_end: int) -> None:
        """Append encoded entries."""
        # In this order: a concurrent write must not take new entries for durable ones.
        self.last_record_end = last_record_end
        self._tail.encoded += encoded

    def start_at(self, queue_offset: int) -> None:
        """Make an empty queue begin above 0."""
        self._tail = _Tail(queue_offset, bytearray())
        self.min_offset = queue_offset
        self.written_record_end = 0

    def skip_to(self, queue_offset: int) -> None:
        """Fill with holes up to a queue offset: the messages before it are damaged or gone."""
        count = queue_offset - self.end_offset
        if count > 0:
            self._tail.encoded += holes(count).tobytes()

    # Reading: the appending thread.

    def entries(self, queue_offset: int, count: int) -> Entries:
        """Up to ``count`` entries from a queue offset on, not below ``min_offset``."""
        tail = self._tail
        count = max(0, min(count, tail.end - queue_offset))
        if queue_offset >= tail.start:
            first = (queue_offset - tail.start) * ENTRY_BYTES
            return np.frombuffer(tail.encoded[first : first + count * ENTRY_BYTES], ENTRY)
        from_files = min(count, tail.start - queue_offset)
        entries = self._files.read(queue_offset, from_files)
        if len(entries) == from_files and count > from_files:
            rest = tail.encoded[: (count - from_files) * ENTRY_BYTES]
            return joined((entries, np.frombuffer(rest, ENTRY)))
        return entries

    def entry_at(self, queue_offset: int) -> tuple[int, int, int]:
        """One entry, not outside the queue: commit-log offset, size, tags code.

        Several times as fast as an array of one entry.
        """
        tail = self._tail
        if queue_offset < tail.start:
            return self._files.read_one(queue_offset)
        entry: tuple[int, int, int] = _unpack_entry(
            tail.encoded, (queue_offset - tail.start) * ENTRY_BYTES
        )
        return entry

    def end_below(self, commit_log_end: int) -> int:
        """The end of the messages that are entirely below a commit-log offset."""
        tail = self._tail
        end = tail.start + len(tail.encoded) // ENTRY_BYTES
        if self.last_record_end <= commit_log_end:
            return end
        below = self.min_offset
        while below < end:
            found = bisect_left(
                range(below, end),
                1,
                key=lambda queue_offset: int(self._record_end(queue_offset) > commit_log_end),
            )
            end = below + found
            # Holes have no place in the log: step back over them, and search again if the entry
            # before them is above after all.
            place = self.last_message(below, end)
            if place < below or self._record_end(place) <= commit_log_end:
                break
            end = place
        return end

    def _record_end(self, queue_offset: int) -> int:
        """The end of an entry's record in the log; 0 for a hole or no entry."""
        commit_log_offset, size, _ = self.entry_at(queue_offset)
        return commit_log_offset + size if 0 < size < HOLE_SIZE else 0

    def next_message(self, begin: int, end: int) -> int:
        """The first queue offset of a range with a real entry (no hole, no zeros); else its end."""
        for first in range(begin, end, _BLOCK_ENTRIES):
            found = self._messages(first, min(_BLOCK_ENTRIES, end - first))
            if len(found):
                return int(found[0])
        return max(begin, end)

    def last_message(self, begin: int, end: int) -> int:
        """The last queue offset of a range with a real entry; else the one before the range."""
        for behind in range(end, begin, -_BLOCK_ENTRIES):
            first = max(begin, behind - _BLOCK_ENTRIES)
            found = self._messages(first, behind - first)
            if len(found):
                return int(found[-1])
        return min(begin, end) - 1

    def _messages(self, queue_offset: int, count: int) -> Int64s:
        sizes = self.entries(queue_offset, count)["size"]
        found: Int64s = np.flatnonzero((sizes > 0) & (sizes != HOLE_SIZE)) + queue_offset
        return found

    def first_at_or_above(self, commit_log_offset: int) -> int:
        """The first queue offset whose record starts at or above a commit-log offset.

        Holes before it count as below: they have no records.
        """
        low, high = self.min_offset, self.end_offset
        if low < high and not self._lies_below(low, commit_log_offset):
            return low
        while low < high:
            middle = (low + high) // 2
            probe = self.next_message(middle, high)
            if probe == high:
                high = middle
                continue
            if self._lies_below(probe, commit_log_offset):
                low = probe + 1
            else:
                high = middle
        # A damaged entry may have misled the search: check the neighbours before, too.
        for near in range(low - 1, max(self.min_offset, low - _NEIGHBOURS) - 1, -1):
            if not self._lies_below(near, commit_log_offset):
                low = near
        return self.next_message(low, self.end_offset)

    def put(self, queue_offset: int, entries: Entries) -> None:
        """Replace wrong entries; no other thread may write out meanwhile.

        Raises:
            OSError: The disk failed.
        """
        with self._lock:
            tail = self._tail
            in_files = max(0, min(len(entries), tail.start - queue_offset))
            place = (queue_offset + in_files - tail.start) * ENTRY_BYTES
            encoded = entries[in_files:].tobytes()
            tail.encoded[place : place + len(encoded)] = encoded
        if in_files:
            self._files.write(queue_offset, entries[:in_files].tobytes(), Unsynced())
            self.written_record_end = self._last_record_end(self.written_offset)

    def _lies_below(self, queue_offset: int, commit_log_offset: int) -> bool:
        """Whether an entry's record starts below an offset; holes count as below."""
        if self._record_end(queue_offset) == 0:
            return True
        return 0 <= self.entry_at(queue_offset)[0] < commit_log_offset

    # Files.

    def write_out(self, commit_log_end: int, unsynced: Unsynced) -> None:
        """Write entries of records below a commit-log offset to the files. Any thread.

        Args:
            commit_log_end: Everything below is durable.
            unsynced: Collects the files to sync, even if the write fails halfway.
        """
        tail = self._tail
        if not tail.encoded:
            return
        end = self.end_below(commit_log_end)
        if end <= tail.start:
            return
        size = (end - tail.start) * ENTRY_BYTES
        self._files.write(tail.start, bytes(tail.encoded[:size]), unsynced)
        self.is_on_disk = True
        self.written_record_end = self._record_end(end - 1) or self._last_record_end(end)
        with self._lock:
            self._tail = _Tail(end, self._tail.encoded[size:])

    def load(self, commit_log_end: int, *, keep_rest: bool = False) -> None:
        """Load the files up to the first entry that is none or at or above an offset.

        Later entries are removed from the files: they were written before a crash, perhaps only in
            part.

        Args:
            commit_log_end: Entries below are known to be durable.
            keep_rest: Leave the files unchanged, for readers.
        """
        starts = self._files.starts()
        if not starts:
            return
        first = starts[0]
        low = self._files.durable_end(starts, commit_log_end)
        if not keep_rest:
            self._files.remove_from(low, starts)
        self.is_on_disk = low > first
        self.min_offset = first
        self._tail = _Tail(low, bytearray())
        # A damaged size must not hide an entry that is known to be durable.
        self.last_record_end = min(self._last_record_end(low), commit_log_end)
        self.written_record_end = self.last_record_end

    def _last_record_end(self, end: int) -> int:
        last = self.last_message(self.min_offset, end)
        return self._record_end(last) if last >= self.min_offset else 0

    def cut(self, queue_offset: int) -> None:
        """Drop the entries from a queue offset on: their records are gone from the log."""
        with self._lock:
            tail = self._tail
            if queue_offset < tail.start:
                self._files.remove_from(queue_offset, self._files.starts())
                self._tail = _Tail(queue_offset, bytearray())
            else:
                kept = tail.encoded[: (queue_offset - tail.start) * ENTRY_BYTES]
                self._tail = _Tail(tail.start, kept)
            self.min_offset = min(self.min_offset, queue_offset)
            self.shown_from = min(self.shown_from, queue_offset)
            self.last_record_end = self._last_record_end(self.end_offset)
            self.written_record_end = self._last_record_end(self.written_offset)

    def remove_files_below_min(self) -> None:
        """Remove files whose entries are all below the queue's begin.

        The last file always stays: it shows the next queue offset.
        """
        self._files.remove_below(min(self.min_offset, self.written_offset))

    def remove(self) -> None:
        """Delete the files of the queue."""
        self.is_on_disk = False
        self._files.remove_all()


def add_all(queues: Sequence[ConsumeQueue], entries: Sequence[bytes], ends: Sequence[int]) -> None:
    """``add`` for many queues: saves a step for each."""
    for queue, encoded, last_record_end in zip(queues, entries, ends, strict=True):
        queue.last_record_end = last_record_end
        queue._tail.encoded += encoded  # noqa: SLF001 - of the same module.


def next_offsets(queues: Sequence[ConsumeQueue], counts: Sequence[int]) -> list[int]:
    """The queue offsets of messages that come next.

    Args:
        queues: Queues side by side; the same may be there several times.
        counts: How many messages come in each place.

    Returns:
        The queue offset of the first message of each place.
    """
    firsts = []
    for queue in queues:
        # Read once: another thread may exchange it.
        tail = queue._tail  # noqa: SLF001 - of the same module.
        firsts.append(tail.start + len(tail.encoded) // ENTRY_BYTES)
    if len(queues) == 1 or len(set(queues)) == len(queues):
        return firsts
    following = dict(zip(queues, firsts, strict=True))
    for place, (queue, count) in enumerate(zip(queues, counts, strict=True)):
        firsts[place] = following[queue]
        following[queue] += count
    return firsts
