"""Reading the readable parts of a file.

Files of a store are read by calls and never mapped into memory: an unreadable page of a mapped
file, or a mapped file that was shortened, is a signal that ends the process (SIGBUS); of a call it
is an error, or fewer bytes than asked.

A window shows a range of a file, with zeros for bytes that could not be read::

    position                  unreadable: [(8192, 12288)]
    |                         |         |
    v                         v         v
    +--------------------------+---------+-----------------+
    | content, as it is read   | zeros   | content         |
    +--------------------------+---------+-----------------+
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_storage.disk.disk import OpenFile, is_unreadable
from ariane_storage.log.records.fields import Int64s

PAGE_BYTES: Final = 4096
"""The smallest part that Linux reads of a file: a page is readable or not as a whole."""


@dataclass(frozen=True, slots=True)
class FileWindow:
    """A range of a file."""

    position: int
    """Byte of the file at which it begins."""
    content: memoryview
    """Its bytes; zeros for unreadable ones."""
    unreadable: tuple[tuple[int, int], ...] = ()
    """Ranges of the file that could not be read, in order, none touching another."""

    @property
    def end(self) -> int:
        """Byte of the file behind the window."""
        return self.position + len(self.content)

    @property
    def unreadable_end(self) -> int:
        """Behind the last byte that could not be read, 0 if all could."""
        return self.unreadable[-1][1] if self.unreadable else 0

    def readable(self) -> Iterator[tuple[int, int]]:
        """Ranges of the file that could be read, in order."""
        begin = self.position
        for low, high in (*self.unreadable, (self.end, self.end)):
            if begin < low:
                yield begin, low
            begin = high

    def unreadable_in(self, begin: int, end: int) -> tuple[int, int] | None:
        """The first unreadable range that has a byte of a range of the file, or None."""
        for lost in self.unreadable:
            if lost[0] < end and begin < lost[1]:
                return lost
        return None

    def lacks(self, begins: Int64s, ends: Int64s) -> NDArray[np.bool_]:
        """Which of many ranges of the file have a byte that could not be read."""
        lacking = np.zeros(len(begins), np.bool_)
        for begin, end in self.unreadable:
            lacking |= (begins < end) & (ends > begin)
        return lacking


def read_window(file: OpenFile, position: int, size: int) -> FileWindow:
    """Read a range of a file as far as it is readable; bytes behind its end are not.

    Raises:
        OSError: The disk failed in another way than being unable to read.
    """
    try:
        content = file.read_at(position, size)
    except OSError as error:
        if not is_unreadable(error):
            raise
        return _page_by_page(file, position, size)
    lost = ((position + len(content), position + size),) if len(content) < size else ()
    return FileWindow(position, memoryview(content.ljust(size, b"\0")), lost)


def _page_by_page(file: OpenFile, position: int, size: int) -> FileWindow:
    content = bytearray(size)
    unreadable: list[tuple[int, int]] = []
    end = position + size
    begin = position
    while begin < end:
        behind = min(end, begin - begin % PAGE_BYTES + PAGE_BYTES)
        try:
            page = file.read_at(begin, behind - begin)
        except OSError as error:
            if not is_unreadable(error):
                raise
            page = b""
        content[begin - position : begin - position + len(page)] = page
        if begin + len(page) < behind:
            _add(unreadable, begin + len(page), behind)
        begin = behind
    return FileWindow(position, memoryview(content).toreadonly(), tuple(unreadable))


def _add(ranges: list[tuple[int, int]], begin: int, end: int) -> None:
    if ranges and ranges[-1][1] == begin:
        begin = ranges.pop()[0]
    ranges.append((begin, end))
