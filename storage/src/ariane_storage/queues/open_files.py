"""A few open files for very many: ten thousand queues do not have ten thousand descriptors."""

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
    """Keeps the files used last open. Any thread.

    Reads and writes go through here, so that no file is closed while somebody uses it.

    Bytes that the disk cannot read come as zeros, and are noted. If the files may be written,
    the file is replaced by a copy that has zeros there too, so that what belongs there can be
    written again.
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
        """Whether nothing but zeros lies in a file from a place on."""
        with self._lock:
            for start, end in self._file(path).written_ranges(begin):
                for place in range(start, end, _CHUNK_BYTES):
                    chunk = self._read_at(path, place, min(_CHUNK_BYTES, end - place))
                    if chunk.count(0) != len(chunk):
                        return False
        return True

    def written_end(self, path: Path) -> int:
        """Where the last range of a file ends that may hold anything but zeros."""
        with self._lock:
            return max((end for _, end in self._file(path).written_ranges(0)), default=0)

    def write_at(self, path: Path, position: int, content: bytes) -> None:
        """Write at a place of a file that is there."""
        with self._lock:
            try:
                self._file(path).write_at(position, content)
            except OSError as error:
                # A page that is written in part is read first.
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
        """Put a copy in the place of a file, with zeros where it cannot be read.

        Raises:
            OSError: There is no space for it, or the disk failed; the file is as it was.
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
        self._files.pop(path).close()

    def _file(self, path: Path) -> OpenFile:
        file = self._files.get(path)
        if file is None:
            file = self._files[path] = self._disk.open(path, writable=self._writable)
            if len(self._files) > self._open_max:
                self._files.popitem(last=False)[1].close()
        else:
            self._files.move_to_end(path)
        return file

    def forget(self, path: Path) -> None:
        """Close a file that is about to be removed or replaced."""
        with self._lock:
            file = self._files.pop(path, None)
            if file is not None:
                file.close()

    def close(self) -> None:
        """Close all."""
        with self._lock:
            for file in self._files.values():
                file.close()
            self._files.clear()
