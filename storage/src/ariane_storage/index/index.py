"""The index of a store: all its index files, oldest first; the last one is being filled.

New keys wait in memory until they are filed: by another thread, which calls ``settle``, or by the
appender once too many wait. Queries find waiting keys, too. Waiting keys are lost with the process,
like all derived data, and recovery restores them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_record.checksums.java_hash import key_hash
from ariane_storage.disk.clock import Clock
from ariane_storage.disk.cold import BytesCold
from ariane_storage.disk.disk import Disk, is_exhausted
from ariane_storage.disk.unreadable_places import UnreadablePlaces
from ariane_storage.errors import BytesUnreadable, StoreFormatError, StoreFull
from ariane_storage.index.index_file import IndexFile, index_file_bytes
from ariane_storage.index.waiting_keys import Keys, WaitingKeys
from ariane_storage.log.records.fields import Int64s

ITEMS_UNKNOWN: Final = 1 << 62
"""The number of items of an index that is partly unreadable; no index has so many."""
_STAMP_DIGITS: Final = 17
PENDING_KEYS_MAX: Final = 1 << 13
"""Keys that may wait if no other thread files them."""
_FILED_AT_ONCE: Final = 1 << 14
"""Keys filed in one step: enough for numpy, few enough for an appender to do in between."""


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
        unreadable: UnreadablePlaces | None = None,
    ) -> None:
        self._disk = disk
        self._folder = folder
        self._clock = clock
        self._slots = slots
        self._items = items
        self._writable = writable
        self._unreadable = unreadable or UnreadablePlaces()
        # Whether some of it could not be read: then the next start rebuilds it.
        self._is_lost = False
        self._files: list[IndexFile] = []
        self._waiting = WaitingKeys()
        # Held while keys are filed, and a file flushed or allocated; queries never wait for it.
        self._filing = threading.Lock()

    def load(self) -> None:
        """Open the existing files.

        Raises:
            StoreFormatError: A file has another length than configured.
            BytesUnreadable: The disk cannot read a header, or data that is needed to add items.
        """
        for name in self._disk.names(self._folder):
            if len(name) == _STAMP_DIGITS and name.isascii() and name.isdigit():
                self._files.append(self._open(self._folder / name))
        if self._writable and self._files:
            self._files[-1].hold_slots()

    def _open(self, path: Path) -> IndexFile:
        return IndexFile(
            self._disk, path, slots=self._slots, items=self._items, writable=self._writable
        )

    @property
    def files(self) -> tuple[IndexFile, ...]:
        """All files, oldest first."""
        return tuple(self._files)

    @property
    def unreadable(self) -> UnreadablePlaces:
        """The unreadable places of the index."""
        return self._unreadable

    @property
    def item_count(self) -> int:
        """Number of items in all files, without waiting keys."""
        return sum(file.item_count for file in self._files)

    @property
    def pending_keys(self) -> int:
        """Number of waiting keys."""
        return self._waiting.count

    def add(
        self, key_hashes: NDArray[np.int32], commit_log_offsets: Int64s, timestamps: Int64s
    ) -> None:
        """Add keys of records that were just appended; never fails.

        Args:
            key_hashes: One for each key.
            commit_log_offsets: Of the record of each key, ascending.
            timestamps: Store timestamp of each, in milliseconds.
        """
        # A copy of the hashes: they may be a view of a whole request, which must not be kept alive.
        hashes = np.array(key_hashes, np.int32)
        self._waiting.add(Keys(hashes, commit_log_offsets, timestamps))

    def add_of(
        self,
        key_hashes: NDArray[np.int32],
        key_counts: NDArray[np.uint8],
        commit_log_offsets: Sequence[int] | Int64s,
        timestamp: int,
    ) -> None:
        """Add keys of records that were appended together; never fails.

        Args:
            key_hashes: One for each key.
            key_counts: How many of them each record has.
            commit_log_offsets: Of each record, ascending; a list of few is not made an array.
            timestamp: Their store timestamp, in milliseconds.
        """
        if not len(key_hashes):
            return
        if isinstance(commit_log_offsets, list):
            if len(commit_log_offsets) == 1:
                offsets = commit_log_offsets * len(key_hashes)
                self._waiting.add_few(key_hashes.tolist(), offsets, timestamp)
                return
            counts = key_counts.tolist()
            offsets = [
                offset
                for offset, count in zip(commit_log_offsets, counts, strict=True)
                for _ in range(count)
            ]
            self._waiting.add_few(key_hashes.tolist(), offsets, timestamp)
            return
        offsets_of_keys = np.repeat(commit_log_offsets, key_counts)
        self.add(key_hashes, offsets_of_keys, np.full(len(key_hashes), timestamp, np.int64))

    def settle(self) -> None:
        """File all waiting keys.

        Raises:
            StoreFull: No space for another index file; the keys keep waiting.
            OSError: The disk failed.
        """
        # Not more than wait now: otherwise concurrent appends could keep this loop running for
        # ever.
        left = self._waiting.count
        while left > 0:
            filed = self.file_some()
            left = left - filed if filed else 0

    def file_some(self) -> int:
        """File some of the waiting keys, as many as suit one step of numpy.

        Returns:
            The number of keys filed; 0 if none waited.

        Raises:
            StoreFull: No space for another index file; the keys keep waiting.
            OSError: The disk failed.
        """
        with self._filing:
            keys = self._waiting.oldest(_FILED_AT_ONCE)
            if keys is None:
                return 0
            begin = 0
            while begin < len(keys):
                file = self._file_with_room()
                part = keys.part(begin, begin + file.room)
                file.insert(part.hashes.astype(np.int64), part.commit_log_offsets, part.timestamps)
                self._waiting.drop(len(part))
                begin += len(part)
            return len(keys)

    def _file_with_room(self) -> IndexFile:
        previous = self._files[-1] if self._files else None
        if previous is not None and previous.room > 0:
            return previous
        name = self._clock.file_stamp(self._clock.now_ms())
        if previous is not None:
            # Names must ascend, even if the clock went back.
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
        # Replaced, not changed: a query may be iterating over it.
        self._files = [*self._files, file]
        return file

    def find(
        self, topic: str, key: str, *, begin_ms: int, end_ms: int
    ) -> Iterator[int | BytesCold | None]:
        """Commit-log offsets of records that may have a key, newest first.

        Hashes collide and times have seconds only: callers must check the records. Yields once for
        each item that is examined: None for one of another key or time, and what must be fetched
        before the next one is read.

        Args:
            topic: Topic of the records.
            key: A key or a unique id.
            begin_ms: Earliest store timestamp.
            end_ms: Latest store timestamp.
        """
        wanted = key_hash(topic, key)
        # In this order a key that is filed meanwhile is found twice, rather than not at all.
        waiting = self._waiting.find(wanted, begin_ms=begin_ms, end_ms=end_ms)
        files = self._files
        yield from waiting
        beside = set(waiting)
        for file in reversed(files):
            if file.item_count and file.begin_timestamp - 1000 <= end_ms:
                if file.end_timestamp + 1000 < begin_ms:
                    return
                for item in self._found_in(file, wanted):
                    if isinstance(item, BytesCold):
                        yield item
                        continue
                    found = None
                    if item is not None and begin_ms - 1000 <= item[1] <= end_ms:
                        found = item[0] if item[0] not in beside else None
                    yield found

    def _found_in(
        self, file: IndexFile, wanted: int
    ) -> Iterator[tuple[int, int] | BytesCold | None]:
        """Items of a hash in a file, as far as the disk can read them."""
        try:
            yield from file.find(wanted)
        except BytesUnreadable as error:
            self._note(error)

    def _note(self, error: BytesUnreadable) -> None:
        self._is_lost = True
        self._unreadable.note(error)

    def flush(self, commit_log_end: int) -> int:
        """File the waiting keys and make the newest file durable.

        Appends continue meanwhile, so there may be items beyond the durable end of the log.

        Args:
            commit_log_end: The durable end of the log.

        Returns:
            Number of items of records below that end: the items that survive a crash.
                ``ITEMS_UNKNOWN`` if some could not be read: then the next start rebuilds the index.

        Raises:
            OSError: The disk failed.
            StoreFull: No space for another index file.
        """
        self.settle()
        files = self._files
        # Outside of the filing lock: appends that must file keys do not wait for the disk.
        if files:
            files[-1].flush()
        try:
            count = sum(file.count_below(commit_log_end) for file in files)
        except BytesUnreadable as error:
            self._note(error)
        return ITEMS_UNKNOWN if self._is_lost else count

    def keep_below(self, commit_log_end: int) -> None:
        """Forget items of records at or above an offset, after a crash or a cut of the log.

        Raises:
            BytesUnreadable: The disk cannot read them.
        """
        with self._filing:
            self._waiting.keep_below(commit_log_end)
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
        with self._filing:
            while len(self._files) > 1 and self._files[0].end_offset < commit_log_begin:
                self._remove(self._files[0])
                self._files = self._files[1:]

    def remove_all(self) -> None:
        """Delete every index file, to build them again."""
        self.close()
        self._is_lost = False
        for name in self._disk.names(self._folder):
            self._disk.remove(self._folder / name)

    def _remove(self, file: IndexFile) -> None:
        file.close()
        self._disk.remove(file.path)

    def close(self) -> None:
        """Release all memory and files."""
        with self._filing:
            for file in self._files:
                file.close()
            self._files = []
            self._waiting.clear()


def load_or_discard(index: Index, commit_log_end: int | None) -> bool:
    """Load an index; if it has damaged files, delete it. Returns whether it was sound.

    Args:
        index: The index.
        commit_log_end: After a crash: items of records at or above it are forgotten.
    """
    try:
        index.load()
        if commit_log_end is not None:
            index.keep_below(commit_log_end)
    except (StoreFormatError, ValueError, BytesUnreadable) as error:
        if isinstance(error, BytesUnreadable):
            index.unreadable.note(error)
        index.remove_all()
        return False
    return True
