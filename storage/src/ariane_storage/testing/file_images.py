"""The two images of files and of the names in folders: the page cache, and the medium."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

SECTOR_BYTES: Final = 512
PAGE_BYTES: Final = 4096
_TEAR_BYTES: Final = 8


class Inode:
    """One file."""

    __slots__ = ("cached", "clean", "cold", "durable", "space", "unreadable")

    def __init__(self) -> None:
        self.cached = bytearray()
        """The content for programs."""
        self.clean = b""
        """The kernel's assumption about the medium; wrong after a failed flush."""
        self.durable = b""
        """The content of the medium."""
        self.space = 0
        """Bytes that were allocated for it in advance."""
        self.unreadable: set[int] = set()
        """Numbers of pages that the medium has lost, until they are written as a whole."""
        self.cold: set[int] = set()
        """Numbers of pages that are not in memory."""

    def is_cold(self, begin: int, end: int) -> bool:
        """Whether a page of a range is not in memory."""
        return bool(self.cold) and not self.cold.isdisjoint(_pages(begin, end))

    def warm(self, begin: int, end: int) -> None:
        """Have the pages of a range in memory."""
        self.cold.difference_update(_pages(begin, end))

    def check_readable(self, begin: int, end: int) -> None:
        """Fail as the system does if a page of a range is lost."""
        if self.unreadable and not self.unreadable.isdisjoint(_pages(begin, end)):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def overwrite(self, begin: int, end: int) -> None:
        """Restore lost pages that are written as a whole; others are read first, and fail.

        Changes lost by a failed flush are written with the next one if overwritten before.
        """
        if self.clean != self.durable:
            self._make_dirty(begin, end)
        if not self.unreadable:
            return
        whole = range((begin + PAGE_BYTES - 1) // PAGE_BYTES, end // PAGE_BYTES)
        if end == len(self.cached):
            whole = range(whole.start, (end + PAGE_BYTES - 1) // PAGE_BYTES)
        self.unreadable.difference_update(whole)
        self.check_readable(begin, end)

    def _make_dirty(self, begin: int, end: int) -> None:
        """Mark a range as different from the medium again."""
        begin -= begin % SECTOR_BYTES
        end = min(len(self.clean), end + -end % SECTOR_BYTES)
        if begin < end:
            on_medium = self.durable[begin:end].ljust(end - begin, b"\0")
            self.clean = self.clean[:begin] + on_medium + self.clean[end:]

    def copy(self) -> Inode:
        """The same file, on another disk."""
        inode = Inode()
        inode.cached = bytearray(self.cached)
        inode.clean, inode.durable, inode.space = self.clean, self.durable, self.space
        inode.unreadable = set(self.unreadable)
        return inode

    def copy_for_restart(self, content: bytes) -> Inode:
        """The file after a restart, with only the content of the medium."""
        inode = Inode()
        inode.cached = bytearray(content)
        inode.clean = inode.durable = content
        inode.space = min(self.space, len(content))
        inode.unreadable = set(self.unreadable)
        return inode

    def flush(self, *, fails: bool = False) -> None:
        """Write dirty sectors to the medium; a failure loses them and marks them clean."""
        cached = bytes(self.cached)
        if not fails:
            if self.clean == self.durable:
                self.durable = cached
            else:
                merged = bytearray(self.durable[: len(cached)].ljust(len(cached), b"\0"))
                for begin, end in _differing_sectors(cached, self.clean):
                    merged[begin:end] = cached[begin:end]
                self.durable = bytes(merged)
        self.clean = cached

    def after_power_loss(self, dice: random.Random) -> bytes:
        """The bytes that may be on the medium when the power fails now."""
        cached = bytes(self.cached)
        length = len(self.durable)
        if length != len(cached) and dice.random() < 0.5:
            length = len(cached)
        image = bytearray(self.durable[:length].ljust(length, b"\0"))
        dirty = [
            (begin, min(end, length))
            for begin, end in _differing_sectors(cached, self.clean)
            if begin < length
        ]
        torn = dice.randrange(len(dirty)) if dirty and dice.random() < 0.5 else -1
        for place, (begin, end) in enumerate(dirty):
            if place == torn:
                pieces = dice.randrange(SECTOR_BYTES // _TEAR_BYTES)
                written_end = min(end, begin + _TEAR_BYTES * pieces)
            else:
                written_end = end if dice.random() < 0.5 else begin
            image[begin:written_end] = cached[begin:written_end]
        return bytes(image)


def _pages(begin: int, end: int) -> range:
    return range(begin // PAGE_BYTES, (end + PAGE_BYTES - 1) // PAGE_BYTES)


def written_bytes(inode: Inode) -> int:
    """Bytes of the sectors of a file that hold anything but zeros."""
    return sum(end - begin for begin, end in _differing_sectors(bytes(inode.cached), b""))


def _differing_sectors(content: bytes, other: bytes) -> list[tuple[int, int]]:
    """Sectors of ``content`` that are not the same in ``other``; beyond its end are zeros."""
    if len(other) < len(content):
        other = other.ljust(len(content), b"\0")
    return [
        (begin, min(begin + SECTOR_BYTES, len(content)))
        for begin in range(0, len(content), SECTOR_BYTES)
        if content[begin : begin + SECTOR_BYTES] != other[begin : begin + SECTOR_BYTES]
    ]


@dataclass(frozen=True, slots=True)
class NameChange:
    """One change of the names in a folder, all or nothing: inodes by name, None for removed."""

    names: tuple[tuple[str, Inode | None], ...]

    def copy(self, copies: dict[int, Inode]) -> NameChange:
        """The same change in a copy of the disk, whose inodes are given by the old ones' ids."""
        return NameChange(
            tuple(
                (name, None if inode is None else copies[id(inode)]) for name, inode in self.names
            )
        )

    def apply_to(self, names: dict[str, Inode]) -> None:
        """Make the change."""
        for name, inode in self.names:
            if inode is None:
                names.pop(name, None)
            else:
                names[name] = inode


@dataclass(slots=True)
class FolderImage:
    """Names in one folder: now, on the medium, and the changes between."""

    cached: dict[str, Inode] = field(default_factory=dict)
    durable: dict[str, Inode] = field(default_factory=dict)
    pending: list[NameChange] = field(default_factory=list)

    def change(self, *names: tuple[str, Inode | None]) -> None:
        """Change names at once, durable with the next sync at the latest."""
        change = NameChange(names)
        change.apply_to(self.cached)
        self.pending.append(change)

    def copy(self, copies: dict[int, Inode]) -> FolderImage:
        """The same folder in a copy of the disk."""
        return FolderImage(
            {name: copies[id(inode)] for name, inode in self.cached.items()},
            {name: copies[id(inode)] for name, inode in self.durable.items()},
            [change.copy(copies) for change in self.pending],
        )

    def inodes(self) -> Iterator[Inode]:
        """Every file that has or had a name here."""
        yield from self.cached.values()
        yield from self.durable.values()
        for change in self.pending:
            yield from (inode for _, inode in change.names if inode is not None)

    def sync(self) -> None:
        """Make all names durable."""
        self.durable = dict(self.cached)
        self.pending.clear()
