"""One segment of the commit log: a file of fixed length, written in order and read as memory.

::

    commitlog/00000000000000000000      segment_bytes long, starts at commit-log offset 0
    commitlog/00000000001073741824      the next one; the name is the offset of its first byte

    +----------+----------+-- ... --+----------+------------------+---------------+
    | record   | record   |         | record   | i32 room left    | rest as it is |
    |          |          |         |          | i32 MAGIC_BLANK  | (zeros)       |
    +----------+----------+-- ... --+----------+------------------+---------------+

A record never spans two segments: where the next one does not fit, eight bytes of blank filler say
how much room is left, and the record starts the next segment.
"""

from __future__ import annotations

import threading
from pathlib import Path
from struct import Struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_record.layout import BLANK_SIZE_MIN_BYTES, MAGIC_BLANK, ByteBuffer
from ariane_storage.disk import Disk, MappedFile
from ariane_storage.errors import StoreFormatError

NAME_DIGITS: Final = 20
_BLANK: Final = Struct(">iI")
_MAPPING: Final = threading.Lock()
"""Two threads that look at a segment for the first time map it once."""


def segment_name(start: int) -> str:
    """File name of a segment, or of any file of a sequence: its first byte, in 20 digits."""
    return f"{start:0{NAME_DIGITS}d}"


def segment_starts(disk: Disk, folder: Path) -> list[int]:
    """First bytes of all files of a sequence, in order; other names are passed over."""
    return [
        int(name)
        for name in disk.names(folder)
        if len(name) == NAME_DIGITS and name.isascii() and name.isdigit()
    ]


class Segment:
    """A file of the commit log, mapped when it is first looked at.

    Attributes:
        start: Commit-log offset of its first byte.
        size: Bytes that it holds.
        path: Its file.
    """

    __slots__ = ("_disk", "_file", "_writable", "path", "size", "start")

    def __init__(self, disk: Disk, path: Path, *, start: int, size: int, writable: bool) -> None:
        self._disk = disk
        self._writable = writable
        self._file: MappedFile | None = None
        self.path = path
        self.start = start
        self.size = size

    @property
    def end(self) -> int:
        """Commit-log offset behind its last byte."""
        return self.start + self.size

    @property
    def is_mapped(self) -> bool:
        """Whether it takes memory and descriptors."""
        return self._file is not None

    def file(self) -> MappedFile:
        """Its mapping."""
        file = self._file
        if file is None:
            with _MAPPING:
                file = self._file = self._file or self._mapped()
        return file

    def _mapped(self) -> MappedFile:
        mapped = self._disk.map(self.path, writable=self._writable)
        if self._writable and len(mapped.view) != self.size:
            mapped.close()
            raise StoreFormatError(
                self.path, f"{len(mapped.view)} bytes long, {self.size} are configured"
            )
        return mapped

    @property
    def view(self) -> memoryview:
        """Its bytes; fewer than ``size`` only in a damaged store that is opened for reading."""
        return self.file().view

    def array(self) -> NDArray[np.uint8]:
        """Its bytes as an array."""
        return np.frombuffer(self.view, np.uint8)

    def fill_rest(self, position: int) -> None:
        """Write the blank filler at a position of the segment."""
        room = self.size - position
        if room < BLANK_SIZE_MIN_BYTES:
            raise AssertionError("every record leaves room for the filler")
        self.write(position, _BLANK.pack(room, MAGIC_BLANK))

    def write(self, position: int, content: ByteBuffer) -> None:
        """Write at a position of the segment; there is room for all of it.

        Raises:
            OSError: The disk failed: some of it may have been written.
        """
        self.file().write_at(position, content)

    def unmap(self) -> None:
        """Let go of its memory; views that others hold stay valid."""
        if self._file is not None:
            self._file.close()
            self._file = None
