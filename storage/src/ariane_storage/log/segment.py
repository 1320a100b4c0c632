"""One segment of the commit log: a file of fixed length, written in order and read by calls.

::

    commitlog/00000000000000000000      segment_bytes long, starts at commit-log offset 0
    commitlog/00000000001073741824      the next one; the name is the offset of its first byte

    +----------+----------+-- ... --+----------+------------------+---------------+
    | record   | record   |         | record   | i32 room left    | rest as it is |
    |          |          |         |          | i32 MAGIC_BLANK  | (zeros)       |
    +----------+----------+-- ... --+----------+------------------+---------------+

A record never spans two segments: where the next one does not fit, eight bytes of blank filler give
the size of the rest, and the record starts the next segment.

Reading by calls costs a copy that a mapping would not. But most records are copied into an answer
anyway, and an unreadable page is an error and never a signal.
"""

from __future__ import annotations

import threading
from pathlib import Path
from struct import Struct
from typing import Final

from ariane_record.layout import BLANK_SIZE_MIN_BYTES, MAGIC_BLANK, ByteBuffer
from ariane_storage.disk.disk import Disk, OpenFile, is_unreadable
from ariane_storage.errors import BytesUnreadable, StoreFormatError
from ariane_storage.log.file_window import FileWindow, read_window

NAME_DIGITS: Final = 20
_BLANK: Final = Struct(">iI")
_OPENING: Final = threading.Lock()
"""Two threads that use a segment for the first time open it only once."""


def segment_name(start: int) -> str:
    """File name of a segment, or of another file in a sequence: its first byte in 20 digits."""
    return f"{start:0{NAME_DIGITS}d}"


def segment_starts(disk: Disk, folder: Path) -> list[int]:
    """First bytes of all files of a sequence, in order; other names are ignored."""
    return [
        int(name)
        for name in disk.names(folder)
        if len(name) == NAME_DIGITS and name.isascii() and name.isdigit()
    ]


class Segment:
    """A file of the commit log, opened on first use. Any thread reads."""

    __slots__ = (
        "_disk", "_file", "_length", "_writable", "end", "is_deleted", "path", "size", "start"
    )  # fmt: skip

    def __init__(self, disk: Disk, path: Path, *, start: int, size: int, writable: bool) -> None:
        self._disk = disk
        self._writable = writable
        self._file: OpenFile | None = None
        self._length = size
        self.is_deleted = False
        """Whether its file was deleted."""
        self.path = path
        """Its file."""
        self.start = start
        """Commit-log offset of its first byte."""
        self.size = size
        """Its size in bytes."""
        self.end = start + size
        """Commit-log offset behind its last byte."""

    @property
    def is_open(self) -> bool:
        """Whether it holds a descriptor."""
        return self._file is not None

    def file(self) -> OpenFile:
        """Its file, open."""
        file = self._file
        if file is None:
            with _OPENING:
                file = self._file = self._file or self._opened()
        return file

    def _opened(self) -> OpenFile:
        file = self._disk.open(self.path, writable=self._writable)
        length = file.size()
        if self._writable and length != self.size:
            file.close()
            raise StoreFormatError(self.path, f"{length} bytes long, {self.size} are configured")
        self._length = min(length, self.size)
        return file

    @property
    def length(self) -> int:
        """Bytes of its file; fewer than ``size`` only in a damaged store opened for reading."""
        if self._file is None:
            self.file()
        return self._length

    def read(self, position: int, size: int) -> bytes:
        """Read bytes from a position, all within the segment.

        Raises:
            BytesUnreadable: The disk cannot read one of them, or the file was shortened.
            OSError: The disk failed in another way.
        """
        try:
            content = (self._file or self.file()).read_at(position, size)
        except OSError as error:
            if not is_unreadable(error):
                raise
            raise BytesUnreadable(self.path, position, error.strerror or str(error)) from error
        if len(content) < size:
            raise BytesUnreadable(self.path, position + len(content), "the file ends there")
        return content

    def window(self, position: int, size: int) -> FileWindow:
        """Up to ``size`` bytes from a position of the segment, and which could not be read."""
        return read_window(self.file(), position, max(0, min(size, self.length - position)))

    def gather(self, positions: list[int], sizes: list[int]) -> bytes | bytearray | None:
        """Ranges of the segment, back to back; None if one of them cannot be read."""
        try:
            content = self.file().gather(positions, sizes)
        except OSError as error:
            if not is_unreadable(error):
                raise
            return None
        return content if len(content) == sum(sizes) else None

    def fill_rest(self, position: int) -> None:
        """Write the blank filler at a position of the segment."""
        room = self.size - position
        if room < BLANK_SIZE_MIN_BYTES:
            raise AssertionError("every record leaves room for the filler")
        self.write(position, _BLANK.pack(room, MAGIC_BLANK))

    def write(self, position: int, content: ByteBuffer) -> None:
        """Write at a position; the segment has room for all bytes.

        Raises:
            OSError: The disk failed: some of it may have been written.
        """
        (self._file or self.file()).write_at(position, content)

    def flush(self) -> None:
        """Make all data written before the call durable, if it is open.

        Raises:
            OSError: The disk failed.
        """
        file = self._file
        if file is not None:
            file.flush()

    def close(self) -> None:
        """Release the file, which closes when no other thread reads it any more."""
        self._file = None
