"""The files of one consume queue, and the shared part of all queues of a store.

::

    consumequeue/<topic>/<queue id>/00000000000000000000    300,000 entries of 20 bytes
    consumequeue/<topic>/<queue id>/00000000000006000000    the next file

Files are sparse and of full length from the first entry on. Zeros are no entry: behind the last
written entry there are only zeros.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_storage.disk.disk import Disk
from ariane_storage.log.segment import segment_name, segment_starts
from ariane_storage.queues.consume_queue_entry import ENTRY, ENTRY_BYTES, Entries, holes, joined
from ariane_storage.queues.open_files import OpenFiles

_BLOCK_ENTRIES: Final = 512
_unpack_entry = Struct(">qiq").unpack
_NO_ENTRY: Final = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class QueueFiles:
    """The shared part of all consume queues of a store."""

    disk: Disk
    """The disk of the queues."""
    open_files: OpenFiles
    """Their descriptors."""
    file_entries: int
    """Entries of one file."""
    lock: threading.Lock
    """Held while a tail is exchanged."""

    @property
    def file_bytes(self) -> int:
        """Length of one file."""
        return self.file_entries * ENTRY_BYTES


@dataclass(frozen=True, slots=True)
class Unsynced:
    """Written files and folders that are not durable yet."""

    files: set[Path] = field(default_factory=set)
    """Files whose content must be synced."""
    folders: set[Path] = field(default_factory=set)
    """Folders in which names were created."""

    def still_there(self, disk: Disk) -> Unsynced:
        """The same without files deleted meanwhile, which need no sync."""
        return Unsynced(
            {path for path in self.files if disk.size_of(path) is not None},
            {path for path in self.folders if disk.is_folder(path)},
        )


class EntryFiles:
    """The files of one consume queue."""

    __slots__ = ("_recent", "_shared", "_written", "folder")

    def __init__(self, shared: QueueFiles, folder: Path) -> None:
        self._shared = shared
        self._recent: tuple[int, Path] = (-1, folder)
        # Known to exist: ten thousand queues must not query ten thousand files every second.
        self._written: Path | None = None
        self.folder = folder
        """The folder of the files."""

    def _path(self, first_entry: int) -> Path:
        recent = self._recent
        if recent[0] != first_entry:
            name = segment_name(first_entry * ENTRY_BYTES)
            recent = self._recent = first_entry, self.folder / name
        return recent[1]

    def starts(self) -> list[int]:
        """First queue offset of each file, in order."""
        return [start // ENTRY_BYTES for start in segment_starts(self._shared.disk, self.folder)]

    # Reading.

    def read(self, queue_offset: int, count: int) -> Entries:
        """Read entries from a queue offset on; zeros (no entries) for missing files."""
        parts = []
        file_entries = self._shared.file_entries
        while count > 0:
            place = queue_offset % file_entries
            taken = min(count, file_entries - place)
            try:
                content = self._shared.open_files.read_at(
                    self._path(queue_offset - place), place * ENTRY_BYTES, taken * ENTRY_BYTES
                )
                part = np.frombuffer(content, ENTRY, len(content) // ENTRY_BYTES)
            except FileNotFoundError:
                part = np.empty(0, ENTRY)
            if len(part) < taken:
                part = joined((part, np.zeros(taken - len(part), ENTRY)))
            parts.append(part)
            queue_offset += taken
            count -= taken
        return parts[0] if len(parts) == 1 else joined(parts)

    def read_one(self, queue_offset: int) -> tuple[int, int, int]:
        """The entry of a queue offset as commit-log offset, size and tags code."""
        place = queue_offset % self._shared.file_entries
        try:
            content = self._shared.open_files.read_at(
                self._path(queue_offset - place), place * ENTRY_BYTES, ENTRY_BYTES
            )
        except FileNotFoundError:
            return _NO_ENTRY
        entry: tuple[int, int, int] = (
            _unpack_entry(content) if len(content) == ENTRY_BYTES else _NO_ENTRY
        )
        return entry

    def durable_end(self, starts: list[int], commit_log_end: int) -> int:
        """Queue offset behind the last real entry whose record starts below an offset.

        One read of the last written block of the last file almost always finds it.
        """
        shared = self._shared
        for start in reversed(starts):
            written = shared.open_files.written_end(self._path(start)) // ENTRY_BYTES
            end = start + min(written, shared.file_entries)
            if not self._is_durable(start, commit_log_end):
                continue
            begin = max(start, end - _BLOCK_ENTRIES)
            durable = _are_durable(self.read(begin, end - begin), commit_log_end)
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
        return bool(_are_durable(self.read(queue_offset, 1), commit_log_end)[0])

    # Writing.

    def write(self, queue_offset: int, content: bytes, unsynced: Unsynced) -> None:
        """Write entries from a queue offset on, making files as they are needed.

        Args:
            queue_offset: Of the first of them.
            content: The entries, encoded.
            unsynced: Collects the files to sync, even if the write fails halfway.
        """
        file_entries = self._shared.file_entries
        while content:
            place = queue_offset % file_entries
            path = self._path(queue_offset - place)
            if path != self._written and self._shared.disk.size_of(path) is None:
                self._make(path, place, unsynced)
            taken = min(len(content), (file_entries - place) * ENTRY_BYTES)
            unsynced.files.add(path)
            try:
                self._shared.open_files.write_at(path, place * ENTRY_BYTES, content[:taken])
            except FileNotFoundError:
                # Another process has removed the file: its zeros are repaired by reads.
                self._make(path, 0, unsynced)
                continue
            self._written = path
            content = content[taken:]
            queue_offset += taken // ENTRY_BYTES

    def _make(self, path: Path, place: int, unsynced: Unsynced) -> None:
        """Create a file whose first entry is at a position of it."""
        shared = self._shared
        if not shared.disk.is_folder(self.folder):
            # Ten thousand queues are made durable by one sync, not by one each.
            unsynced.folders.update(self.folder.parents[:2])
            shared.disk.make_folders(self.folder, durable=False)
        unsynced.folders.add(self.folder)
        shared.disk.create_sparse(path, shared.file_bytes)
        if place:
            # A queue that starts within a file: entries that never existed are holes.
            shared.open_files.write_at(path, 0, holes(place).tobytes())

    def remove_from(self, queue_offset: int, starts: list[int]) -> None:
        """Remove entries from a queue offset on: whole files, and zeros in place of others."""
        self._written = None
        disk, file_entries = self._shared.disk, self._shared.file_entries
        for start in reversed(starts):
            path = self._path(start)
            keep = queue_offset - start
            if keep >= file_entries:
                break
            self._shared.open_files.forget(path)
            if keep <= 0:
                disk.remove(path)
                continue
            if disk.size_of(path) != self._shared.file_bytes:
                disk.create_sparse(path, self._shared.file_bytes)
            if not self._shared.open_files.is_zero(path, keep * ENTRY_BYTES):
                disk.cut(path, keep * ENTRY_BYTES)

    def remove_below(self, queue_offset: int) -> None:
        """Remove files below a queue offset, except the last."""
        self._written = None
        for start in self.starts()[:-1]:
            if start + self._shared.file_entries > queue_offset:
                break
            path = self._path(start)
            self._shared.open_files.forget(path)
            self._shared.disk.remove(path)

    def remove_all(self) -> None:
        """Delete all files and their folder."""
        self._written = None
        for start in self.starts():
            self._shared.open_files.forget(self._path(start))
        self._shared.disk.remove_folder(self.folder)


def _are_durable(entries: Entries, commit_log_end: int) -> NDArray[np.bool_]:
    """Which entries have a record that starts below the durable end."""
    starts = entries["commit_log_offset"].astype(np.int64)
    durable: NDArray[np.bool_] = (entries["size"] > 0) & (starts >= 0) & (starts < commit_log_end)
    return durable
