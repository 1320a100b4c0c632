"""The index of a store: all its index files, from the oldest to the one that is filled now.

Keys wait in memory until there are enough of them to be worth a step of numpy, or until somebody
asks. What waits is lost with the process, like everything derived, and recovery brings it back.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_record.java_hash import key_hash
from ariane_storage.clock import Clock
from ariane_storage.disk import Disk, is_exhausted
from ariane_storage.errors import StoreFormatError, StoreFull
from ariane_storage.fields import Int64s
from ariane_storage.index_file import IndexFile, index_file_bytes

_STAMP_DIGITS: Final = 17
_Keys = tuple[NDArray[np.int32], Int64s, Int64s]
PENDING_KEYS_MAX: Final = 1 << 13
"""Keys that may wait; an appender that finds more of them files them first."""


class Index:
    """Finds records by topic and key. Any thread."""

    def __init__(
        self,
        disk: Disk,
        folder: Path,
        clock: Clock,
        *,
        slots: int,
        items: int,
        writable: bool = True,
    ) -> None:
        self._disk = disk
        self._folder = folder
        self._clock = clock
        self._slots = slots
        self._items = items
        self._writable = writable
        self._files: list[IndexFile] = []
        self._pending: list[_Keys] = []
        self._pending_lock = threading.Lock()
        self.pending_keys = 0
        self._lock = threading.Lock()

    def load(self) -> None:
        """Map the files that are there.

        Raises:
            StoreFormatError: A file has another length than configured.
        """
        for name in self._disk.names(self._folder):
            if len(name) == _STAMP_DIGITS and name.isascii() and name.isdigit():
                self._files.append(self._open(self._folder / name))

    def _open(self, path: Path) -> IndexFile:
        return IndexFile(
            self._disk, path, slots=self._slots, items=self._items, writable=self._writable
        )

    @property
    def item_count(self) -> int:
        """Items in all files; keys that wait are not among them."""
        return sum(file.item_count for file in self._files)

    def add(
        self, key_hashes: NDArray[np.int32], commit_log_offsets: Int64s, timestamps: Int64s
    ) -> None:
        """Take keys of records that were just appended; never fails.

        Args:
            key_hashes: One for each key.
            commit_log_offsets: Of the record of each key, ascending.
            timestamps: Store timestamp of each, in milliseconds.
        """
        with self._pending_lock:
            self._pending.append((key_hashes, commit_log_offsets, timestamps))
            self.pending_keys += len(key_hashes)

    def settle(self) -> None:
        """File all keys that wait.

        Raises:
            StoreFull: No space for another index file; the keys go on waiting.
        """
        with self._lock:
            self._settle()

    def _settle(self) -> None:
        waiting = self._take_pending()
        if not waiting:
            return
        hashes, offsets, timestamps = (
            np.concatenate(columns).astype(np.int64) for columns in zip(*waiting, strict=True)
        )
        begin = 0
        try:
            while begin < len(hashes):
                file = self._file_with_room()
                end = min(begin + file.room, len(hashes))
                file.insert(hashes[begin:end], offsets[begin:end], timestamps[begin:end])
                begin = end
        finally:
            if begin < len(hashes):
                rest = slice(begin, None)
                self._put_back(hashes[rest].astype(np.int32), offsets[rest], timestamps[rest])

    def _take_pending(self) -> list[_Keys]:
        # Appends must not wait while keys are filed: they only ever wait for this.
        with self._pending_lock:
            waiting, self._pending, self.pending_keys = self._pending, [], 0
        return waiting

    def _put_back(self, *keys: *_Keys) -> None:
        with self._pending_lock:
            self._pending.insert(0, keys)
            self.pending_keys += len(keys[0])

    def _file_with_room(self) -> IndexFile:
        previous = self._files[-1] if self._files else None
        if previous is not None and previous.room > 0:
            return previous
        name = self._clock.file_stamp(self._clock.now_ms())
        if previous is not None:
            # Names say the order, also when the clock went back.
            name = max(name, f"{int(previous.path.name) + 1:0{_STAMP_DIGITS}d}")
            previous.flush()
        path = self._folder / name
        try:
            self._disk.make_folders(self._folder)
            self._disk.allocate(path, index_file_bytes(self._slots, self._items))
            file = self._open(path)
        except OSError as error:
            if not is_exhausted(error):
                raise
            reason = f"no space left for another index file ({error.strerror})"
            raise StoreFull(self._folder.parent, reason) from error
        if previous is not None:
            file.preset(previous)
        self._files.append(file)
        return file

    def find(self, topic: str, key: str, *, begin_ms: int, end_ms: int) -> Iterator[int]:
        """Commit-log offsets of records that may have a key, newest first.

        Hashes collide and times are kept to the second: the records have the last word.

        Args:
            topic: Topic of the records.
            key: A key or a unique id.
            begin_ms: Earliest store timestamp.
            end_ms: Latest store timestamp.

        Raises:
            StoreFull: Keys that wait could not be filed.
        """
        self.settle()
        wanted = key_hash(topic, key)
        for file in reversed(tuple(self._files)):
            if file.item_count and file.begin_timestamp - 1000 <= end_ms:
                if file.end_timestamp + 1000 < begin_ms:
                    return
                for commit_log_offset, timestamp in file.find(wanted):
                    if begin_ms - 1000 <= timestamp <= end_ms:
                        yield commit_log_offset

    def offsets(self) -> Iterator[Int64s]:
        """Commit-log offsets of all items, file by file."""
        for file in tuple(self._files):
            yield file.offsets()

    def flush(self, commit_log_end: int) -> int:
        """File what waits and make the newest file durable.

        Appends go on meanwhile, so that there may be items beyond the durable end of the log.

        Args:
            commit_log_end: The durable end of the log.

        Returns:
            Items of records below that end: what is left of the index after a crash.

        Raises:
            OSError: The disk failed.
            StoreFull: No space for another index file.
        """
        with self._lock:
            self._settle()
            files = tuple(self._files)
        # Not under the lock: neither queries nor appends that file their keys wait for the disk.
        if files:
            files[-1].flush()
        return sum(file.count_below(commit_log_end) for file in files)

    def keep_below(self, commit_log_end: int) -> None:
        """Forget items of records at or above an offset, after a crash or a cut of the log."""
        with self._lock:
            self._take_pending()
            while self._files:
                newest = self._files[-1]
                newest.keep_below(commit_log_end)
                if newest.item_count:
                    newest.flush()
                    break
                self._remove(self._files.pop())
            self._disk.sync(folders=[self._folder] if self._disk.is_folder(self._folder) else [])

    def remove_below(self, commit_log_begin: int) -> None:
        """Delete files all of whose records are gone from the log; never the newest."""
        with self._lock:
            while len(self._files) > 1 and self._files[0].end_offset < commit_log_begin:
                self._remove(self._files[0])
                self._files = self._files[1:]

    def remove_all(self) -> None:
        """Delete every index file, to build them again."""
        self.close()
        for name in self._disk.names(self._folder):
            self._disk.remove(self._folder / name)

    def _remove(self, file: IndexFile) -> None:
        file.close()
        self._disk.remove(file.path)

    def close(self) -> None:
        """Let go of all memory."""
        with self._lock:
            for file in self._files:
                file.close()
            self._files = []
            self._take_pending()


def load_or_discard(index: Index) -> bool:
    """Load an index; one with damaged files is deleted. Returns whether it was sound."""
    try:
        index.load()
    except (StoreFormatError, ValueError):
        index.remove_all()
        return False
    return True
