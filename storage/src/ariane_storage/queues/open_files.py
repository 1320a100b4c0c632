"""A small cache of open files: ten thousand queues do not hold ten thousand descriptors."""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path
from typing import Final

from ariane_storage.disk.disk import Disk, OpenFile, is_unreadable
from ariane_storage.disk.unreadable_places import UnreadablePlaces
from ariane_storage.errors import BytesUnreadable
from ariane_storage.log.file_window import read_window

_CHUNK_BYTES: Final = 1 << 16


class OpenFiles:
    """Keeps recently used files open. Any thread.

    A file that leaves the cache closes when no other thread fetches from it any more.

    Bytes that the disk cannot read come as zeros, and are noted. If the files are writable, the
    file is replaced by a copy with zeros there, so that the right bytes can be written again.
    """

    def __init__(
        self, disk: Disk, unreadable: UnreadablePlaces, *, open_max: int, writable: bool
    ) -> None:
        self._disk = disk
        self._unreadable = unreadable
        self._open_max = open_max
        self._writable = writable
        self._files: OrderedDict[Path, OpenFile] = OrderedDict()
        self._lock = threading.Lock()

    def read_at(self, path: Path, position: int, size: int) -> bytes:
        """Bytes from a place of a file.

        Raises:
            FileNotFoundError: There is no such file.
        """
        with self._lock:
            return self._read_at(path, position, size)

    def is_zero(self, path: Path, begin: int) -> bool:
        """Whether a file has only zeros from a position on."""
        with self._lock:
            for start, end in self._file(path).written_ranges(begin):
                for place in range(start, end, _CHUNK_BYTES):
                    chunk = self._read_at(path, place, min(_CHUNK_BYTES, end - place))
                    if chunk.count(0) != len(chunk):
                        return False
        return True

    def written_end(self, path: Path) -> int:
        """The end of the last range of a file that may have bytes other than zero."""
        with self._lock:
            return max((end for _, end in self._file(path).written_ranges(0)), default=0)

    def write_at(self, path: Path, position: int, content: bytes) -> None:
        """Write at a position of an existing file."""
        with self._lock:
            try:
                self._file(path).write_at(position, content)
            except OSError as error:
                # The system first reads a page that is written in part.
                if not is_unreadable(error):
                    raise
                self._renew(path)
                self._file(path).write_at(position, content)

    def _read_at(self, path: Path, position: int, size: int) -> bytes:
        file = self._file(path)
        try:
            return file.read_at(position, size)
        except OSError as error:
            if not is_unreadable(error):
                raise
            reason = error.strerror or str(error)
        window = read_window(file, position, size)
        length = file.size()
        for begin, _ in window.unreadable:
            if begin < length:
                self._unreadable.note(BytesUnreadable(path, begin, reason))
        if self._writable:
            self._renew(path)
        return bytes(window.content[: max(0, length - position)])

    def _renew(self, path: Path) -> None:
        """Replace a file by a copy with zeros in place of unreadable bytes.

        Raises:
            OSError: There is no space for the copy, or the disk failed; the file is unchanged.
        """
        file, disk = self._file(path), self._disk
        fresh = path.with_name(f"{path.name}.renewed")
        disk.remove(fresh)
        disk.create_sparse(fresh, file.size())
        target = disk.open(fresh, writable=True)
        try:
            for start, end in file.written_ranges(0):
                for place in range(start, end, _CHUNK_BYTES):
                    content = read_window(file, place, min(_CHUNK_BYTES, end - place)).content
                    target.write_at(place, bytes(content))
            target.flush()
        finally:
            target.close()
        disk.rename(fresh, path)
        disk.sync(folders=[path.parent])
        self._files.pop(path)

    def _file(self, path: Path) -> OpenFile:
        file = self._files.get(path)
        if file is None:
            file = self._files[path] = self._disk.open(path, writable=self._writable)
            if len(self._files) > self._open_max:
                self._files.popitem(last=False)
        else:
            self._files.move_to_end(path)
        return file

    def forget(self, path: Path) -> None:
        """Close a file that is about to be removed or replaced."""
        with self._lock:
            self._files.pop(path, None)

    def close(self) -> None:
        """Close all."""
        with self._lock:
            self._files.clear()
