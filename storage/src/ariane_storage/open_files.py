"""A few open files for very many: ten thousand queues do not have ten thousand descriptors."""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path
from typing import Final

from ariane_storage.disk import Disk, OpenFile

_CHUNK_BYTES: Final = 1 << 16


class OpenFiles:
    """Keeps the files used last open. Any thread.

    Reads and writes go through here, so that no file is closed while somebody uses it.
    """

    def __init__(self, disk: Disk, *, open_max: int, writable: bool) -> None:
        self._disk = disk
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
            return self._file(path).read_at(position, size)

    def is_zero(self, path: Path, begin: int) -> bool:
        """Whether nothing but zeros lies in a file from a place on."""
        with self._lock:
            file = self._file(path)
            for start, end in file.written_ranges(begin):
                for place in range(start, end, _CHUNK_BYTES):
                    chunk = file.read_at(place, min(_CHUNK_BYTES, end - place))
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
            self._file(path).write_at(position, content)

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
