"""A consume queue: where the messages of one message queue lie in the commit log, in order.

::

    consumequeue/<topic>/<queue id>/00000000000000000000    300,000 entries of 20 bytes
    consumequeue/<topic>/<queue id>/00000000000006000000    the next file

    min_offset        written                 end_offset
    |                 |                       |
    v                 v                       v
    +-----------------+-----------------------+
    | in the files    | in memory: the tail   |
    +-----------------+-----------------------+

New entries live in memory and are written out on their own clock, and only those whose records are
durable: a queue never names bytes that power loss could take away. The tail is lost with the
process; recovery builds it again from the commit log.

One thread appends and reads; another may write out. Entries that are there never change.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_storage.consume_queue_entry import ENTRY, ENTRY_BYTES, HOLE_SIZE, Entries, holes
from ariane_storage.disk import Disk
from ariane_storage.open_files import OpenFiles
from ariane_storage.segment import segment_name, segment_starts

_TAIL_CAPACITY_MIN: Final = 8
_NEIGHBOURS: Final = 16
_BLOCK_ENTRIES: Final = 512


@dataclass(frozen=True, slots=True)
class QueueFiles:
    """What all consume queues of a store share.

    Attributes:
        disk: Where they lie.
        open_files: Their descriptors.
        file_entries: Entries of one file.
        lock: Held while a tail changes hands.
    """

    disk: Disk
    open_files: OpenFiles
    file_entries: int
    lock: threading.Lock

    @property
    def file_bytes(self) -> int:
        """Length of one file."""
        return self.file_entries * ENTRY_BYTES


@dataclass(frozen=True, slots=True)
class Unsynced:
    """What was written and is not durable yet.

    Attributes:
        files: Whose content is to be synced.
        folders: In which names were made.
    """

    files: set[Path] = field(default_factory=set)
    folders: set[Path] = field(default_factory=set)

    def still_there(self, disk: Disk) -> Unsynced:
        """Without what was deleted meanwhile, which needs no sync."""
        return Unsynced(
            {path for path in self.files if disk.size_of(path) is not None},
            {path for path in self.folders if disk.is_folder(path)},
        )


class _Tail:
    """Entries in memory: queue offsets ``[start, start + count)``."""

    __slots__ = ("count", "entries", "start")

    def __init__(self, start: int, entries: Entries, count: int) -> None:
        self.start = start
        self.entries = entries
        self.count = count


class ConsumeQueue:
    """The entries of one message queue.

    Attributes:
        topic: Its topic.
        queue_id: Its number within the topic.
        folder: Where its files lie.
        min_offset: The oldest queue offset that is kept.
        is_on_disk: Whether it has files.
        last_record_end: Commit-log offset behind the newest record in it, 0 if it has none.
    """

    __slots__ = (
        "_files",
        "_tail",
        "folder",
        "is_on_disk",
        "last_record_end",
        "min_offset",
        "queue_id",
        "topic",
    )

    def __init__(self, files: QueueFiles, folder: Path, topic: str, queue_id: int) -> None:
        self._files = files
        self._tail = _Tail(0, np.empty(0, ENTRY), 0)
        self.topic = topic
        self.queue_id = queue_id
        self.folder = folder
        self.min_offset = 0
        self.is_on_disk = False
        self.last_record_end = 0

    @property
    def end_offset(self) -> int:
        """The next queue offset to be written."""
        tail = self._tail
        return tail.start + tail.count

    @property
    def written_offset(self) -> int:
        """Queue offsets below are in the files."""
        return self._tail.start

    # Appending: one thread, with the lock held.

    def reserve(self, count: int) -> Entries:
        """Room for entries at the end; they count once they are filled and ``extend`` is called."""
        tail = self._tail
        needed = tail.count + count
        if needed > len(tail.entries):
            grown = np.empty(max(needed, 2 * len(tail.entries), _TAIL_CAPACITY_MIN), ENTRY)
            grown[: tail.count] = tail.entries[: tail.count]
            tail.entries = grown
        return tail.entries[tail.count : needed]

    def extend(self, count: int, last_record_end: int) -> None:
        """Count the entries that were filled after ``reserve``."""
        # In this order: whoever writes out beside must not take new entries for durable ones.
        self.last_record_end = last_record_end
        self._tail.count += count

    def start_at(self, queue_offset: int) -> None:
        """Let an empty queue begin above 0."""
        self._tail = _Tail(queue_offset, np.empty(0, ENTRY), 0)
        self.min_offset = queue_offset

    def skip_to(self, queue_offset: int) -> None:
        """Fill with holes up to a queue offset: the messages before it are damaged or gone."""
        count = queue_offset - self.end_offset
        if count > 0:
            self.reserve(count)[:] = holes(count)
            self._tail.count += count

    # Reading: the appending thread.

    def entries(self, queue_offset: int, count: int) -> Entries:
        """Up to ``count`` entries from a queue offset on, not below ``min_offset``."""
        tail = self._tail
        count = max(0, min(count, tail.start + tail.count - queue_offset))
        if queue_offset >= tail.start:
            first = queue_offset - tail.start
            return tail.entries[first : first + count]
        from_files = min(count, tail.start - queue_offset)
        entries = self._read(queue_offset, from_files)
        if len(entries) == from_files and count > from_files:
            return np.concatenate((entries, tail.entries[: count - from_files]))
        return entries

    def _read(self, queue_offset: int, count: int) -> Entries:
        """Entries from the files; zeros, which are no entries, where a file has vanished."""
        parts = []
        file_entries = self._files.file_entries
        while count > 0:
            first, place = queue_offset - queue_offset % file_entries, queue_offset % file_entries
            taken = min(count, file_entries - place)
            try:
                content = self._files.open_files.read_at(
                    self._path(first), place * ENTRY_BYTES, taken * ENTRY_BYTES
                )
                part = np.frombuffer(content, ENTRY, len(content) // ENTRY_BYTES)
            except FileNotFoundError:
                part = np.empty(0, ENTRY)
            if len(part) < taken:
                part = np.concatenate((part, np.zeros(taken - len(part), ENTRY)))
            parts.append(part)
            queue_offset += taken
            count -= taken
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def end_below(self, commit_log_end: int) -> int:
        """The end of those messages that lie below a commit-log offset as a whole."""
        end = self.end_offset
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
            # Holes say nothing of where they lie: step back over them, and look again if what is
            # before them lies above after all.
            place = end - 1
            while place >= below and self._record_end(place) == 0:
                place -= 1
            if place < below or self._record_end(place) <= commit_log_end:
                break
            end = place
        return end

    def _record_end(self, queue_offset: int) -> int:
        """Where the record of an entry ends in the commit log; 0 for a hole or no entry."""
        entry = self.entries(queue_offset, 1)[0]
        size = int(entry["size"])
        return 0 if size == HOLE_SIZE else int(entry["commit_log_offset"]) + size

    def first_at_or_above(self, commit_log_offset: int) -> int:
        """The first queue offset whose record starts at or above a commit-log offset.

        Holes before it are below: nothing that is kept belongs to them.
        """
        low, high = self.min_offset, self.end_offset
        if low < high and not self._lies_below(low, commit_log_offset):
            return low
        while low < high:
            middle = (low + high) // 2
            probe = middle
            while probe < high and self._record_end(probe) == 0:
                probe += 1
            if probe == high:
                high = middle
                continue
            if self._lies_below(probe, commit_log_offset):
                low = probe + 1
            else:
                high = middle
        # A damaged entry may have led the search astray: what lies just before counts as well.
        for near in range(low - 1, max(self.min_offset, low - _NEIGHBOURS) - 1, -1):
            if not self._lies_below(near, commit_log_offset):
                low = near
        while low < self.end_offset and self._record_end(low) == 0:
            low += 1
        return low

    def put(self, queue_offset: int, entry: Entries) -> None:
        """Replace an entry that was found to be wrong."""
        with self._files.lock:
            tail = self._tail
            if queue_offset >= tail.start:
                # Readers may hold the old array: it is replaced, not changed.
                entries = tail.entries.copy()
                entries[queue_offset - tail.start] = entry[0]
                self._tail = _Tail(tail.start, entries, tail.count)
            else:
                self._write(queue_offset, entry.tobytes(), Unsynced())

    def _lies_below(self, queue_offset: int, commit_log_offset: int) -> bool:
        """Whether the record of an entry starts below an offset; so do holes."""
        if self._record_end(queue_offset) == 0:
            return True
        start = int(self.entries(queue_offset, 1)["commit_log_offset"][0])
        return 0 <= start < commit_log_offset

    # Files.

    def _path(self, first_entry: int) -> Path:
        return self.folder / segment_name(first_entry * ENTRY_BYTES)

    def file_starts(self) -> list[int]:
        """First queue offset of each file, in order."""
        return [start // ENTRY_BYTES for start in segment_starts(self._files.disk, self.folder)]

    def write_out(self, commit_log_end: int, unsynced: Unsynced) -> None:
        """Write entries whose records lie below a commit-log offset to the files. Any thread.

        Args:
            commit_log_end: Everything below is durable.
            unsynced: Told what is to be synced, also by a write that fails halfway.
        """
        tail = self._tail
        if tail.count == 0:
            return
        count = self.end_below(commit_log_end) - tail.start
        if count <= 0:
            return
        self._write(tail.start, tail.entries[:count].tobytes(), unsynced)
        self.is_on_disk = True
        with self._files.lock:
            current = self._tail
            rest = current.entries[count : current.count].copy()
            self._tail = _Tail(tail.start + count, rest, len(rest))

    def _write(self, queue_offset: int, content: bytes, unsynced: Unsynced) -> None:
        shared = self._files
        while content:
            place = queue_offset % shared.file_entries
            path = self._path(queue_offset - place)
            if shared.disk.size_of(path) is None:
                if not shared.disk.is_folder(self.folder):
                    # Ten thousand queues are made durable by one sync, not by one each.
                    unsynced.folders.update(self.folder.parents[:2])
                    shared.disk.make_folders(self.folder, durable=False)
                unsynced.folders.add(self.folder)
                shared.disk.create_sparse(path, shared.file_bytes)
                if place:
                    # A queue that starts within a file: holes stand for what was never there.
                    shared.open_files.write_at(path, 0, holes(place).tobytes())
            taken = min(len(content), (shared.file_entries - place) * ENTRY_BYTES)
            unsynced.files.add(path)
            shared.open_files.write_at(path, place * ENTRY_BYTES, content[:taken])
            content = content[taken:]
            queue_offset += taken // ENTRY_BYTES

    def load(self, commit_log_end: int, *, keep_rest: bool = False) -> None:
        """Take over the files up to the first entry that is none or lies at or above an offset.

        What comes behind is removed from the files: it was written before a crash, and nobody
        knows whether as a whole.

        Args:
            commit_log_end: Entries below are known to be durable.
            keep_rest: Leave the files as they are, for whoever only reads.
        """
        starts = self.file_starts()
        if not starts:
            return
        first = starts[0]
        low = self._durable_end(starts, commit_log_end)
        if not keep_rest:
            self._remove_from(low, starts)
        self.is_on_disk = low > first
        self.min_offset = first
        self._tail = _Tail(low, np.empty(0, ENTRY), 0)
        # A damaged size must not hide an entry that is known to be durable.
        self.last_record_end = min(self._last_record_end(), commit_log_end)

    def _durable_end(self, starts: list[int], commit_log_end: int) -> int:
        """Behind the last entry that is one and whose record starts below an offset.

        Almost always one read of the last written block of the last file says it.
        """
        shared = self._files
        for start in reversed(starts):
            written = shared.open_files.written_end(self._path(start)) // ENTRY_BYTES
            end = start + min(written, shared.file_entries)
            if not self._is_durable(start, commit_log_end):
                continue
            begin = max(start, end - _BLOCK_ENTRIES)
            durable = _are_durable(self._read(begin, end - begin), commit_log_end)
            if bool(durable.all()):
                return end
            first_not = int(np.argmin(durable))
            return (
                begin + first_not if first_not else self._search_end(start, begin, commit_log_end)
            )
        return starts[0]

    def _search_end(self, low: int, high: int, commit_log_end: int) -> int:
        while low < high:
            middle = (low + high) // 2
            if self._is_durable(middle, commit_log_end):
                low = middle + 1
            else:
                high = middle
        return low

    def _is_durable(self, queue_offset: int, commit_log_end: int) -> bool:
        return bool(_are_durable(self._read(queue_offset, 1), commit_log_end)[0])

    def _last_record_end(self) -> int:
        for queue_offset in range(self.end_offset - 1, self.min_offset - 1, -1):
            record_end = self._record_end(queue_offset)
            if record_end:
                return record_end
        return 0

    def _remove_from(self, queue_offset: int, starts: list[int]) -> None:
        disk, file_entries = self._files.disk, self._files.file_entries
        for start in reversed(starts):
            path = self._path(start)
            keep = queue_offset - start
            if keep >= file_entries:
                break
            self._files.open_files.forget(path)
            if keep <= 0:
                disk.remove(path)
                continue
            if disk.size_of(path) != self._files.file_bytes:
                disk.create_sparse(path, self._files.file_bytes)
            if not self._files.open_files.is_zero(path, keep * ENTRY_BYTES):
                disk.cut(path, keep * ENTRY_BYTES)

    def cut(self, queue_offset: int) -> None:
        """Forget the entries from a queue offset on: their records are gone from the log."""
        with self._files.lock:
            tail = self._tail
            if queue_offset < tail.start:
                self._remove_from(queue_offset, self.file_starts())
                tail = _Tail(queue_offset, np.empty(0, ENTRY), 0)
            else:
                kept = tail.entries[: queue_offset - tail.start].copy()
                tail = _Tail(tail.start, kept, len(kept))
            self._tail = tail
            self.min_offset = min(self.min_offset, queue_offset)
            self.last_record_end = self._last_record_end()

    def raise_min(self, queue_offset: int) -> list[Path]:
        """Let the queue begin at a queue offset, and remove files that lie below it.

        The last file stays in any case: it says which queue offset comes next.

        Returns:
            Folders that changed.
        """
        if queue_offset == self.min_offset:
            return []
        self.min_offset = queue_offset
        removed = False
        for start in self.file_starts()[:-1]:
            if start + self._files.file_entries > min(queue_offset, self.written_offset):
                break
            path = self._path(start)
            self._files.open_files.forget(path)
            self._files.disk.remove(path)
            removed = True
        return [self.folder] if removed else []

    def remove(self) -> None:
        """Delete the files of the queue."""
        self.is_on_disk = False
        for start in self.file_starts():
            self._files.open_files.forget(self._path(start))
        self._files.disk.remove_folder(self.folder)


def _are_durable(entries: Entries, commit_log_end: int) -> NDArray[np.bool_]:
    """Which are entries whose record starts below an offset that is known to be durable."""
    starts = entries["commit_log_offset"].astype(np.int64)
    durable: NDArray[np.bool_] = (entries["size"] > 0) & (starts >= 0) & (starts < commit_log_end)
    return durable
