"""The store's seam to the disk: everything that it asks of a file system, and nothing else.

Two rules make power loss bearable, and every caller relies on them:

* what ``flush`` or ``sync`` returned from is durable, names included if the folder was named;
* files whose writes must not fail for lack of space are allocated before.

Nothing is mapped: a page that cannot be read, or a file that was shortened, is an error of a call,
and of a mapping a signal that ends the process.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from ariane_record.layout import ByteBuffer

_EXHAUSTED: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
)


def is_exhausted(error: OSError) -> bool:
    """Whether space, descriptors or memory have run out: nothing is lost, and it may pass."""
    return error.errno in _EXHAUSTED


_UNREADABLE: Final = frozenset(
    {
        errno.EIO,
        errno.ENODATA,  # A medium error, as some drivers say it.
        errno.EREMOTEIO,
        errno.EBADMSG,  # A checksum of the file system.
        errno.EUCLEAN,
        errno.EILSEQ,
    }
)


def is_unreadable(error: OSError) -> bool:
    """Whether the disk has lost what was asked for: other places of the file may be sound."""
    return error.errno in _UNREADABLE


@dataclass(frozen=True, slots=True)
class DiskUsage:
    """How full a file system is.

    Attributes:
        total_bytes: Its size.
        used_bytes: What is taken.
    """

    total_bytes: int
    used_bytes: int

    @property
    def ratio(self) -> float:
        """Share that is taken, 0 to 1."""
        return self.used_bytes / self.total_bytes


class OpenFile(Protocol):
    """A file for reads and writes at a place, without memory of its own.

    It closes by itself when nobody uses it any more, so that whoever forgets it need not know
    whether another thread is reading.
    """

    def size(self) -> int:
        """Length in bytes, now."""
        ...

    def read_at(self, position: int, size: int) -> bytes:
        """Bytes from a place; fewer than asked at the end of the file.

        Raises:
            OSError: The disk cannot read one of them (see ``is_unreadable``).
        """
        ...

    def gather(self, positions: Iterable[int], sizes: Iterable[int]) -> bytes:
        """Bytes from many places, back to back: one call of the system for each.

        Returns:
            Fewer bytes than asked where not all of them could be had; nobody knows which then.

        Raises:
            OSError: The disk cannot read one of them.
        """
        ...

    def write_at(self, position: int, content: ByteBuffer) -> None:
        """Write all bytes at a place; whoever reads sees them at once.

        Raises:
            OSError: The disk failed: some of them may have been written.
        """
        ...

    def flush(self) -> None:
        """Make durable what was written before the call. Any thread; releases the GIL.

        Raises:
            OSError: The disk failed: what is durable is unknown from now on.
        """
        ...

    def written_ranges(self, begin: int) -> Iterator[tuple[int, int]]:
        """Ranges from a place on that may hold anything but zeros, in order."""
        ...

    def close(self) -> None:
        """Let go of the file: nobody uses it any more."""
        ...


class FileLock(Protocol):
    """A lock that one process holds on a file or a folder."""

    def release(self) -> None:
        """Give the lock back."""
        ...


class Disk(Protocol):
    """A file system.

    It follows no symbolic link: each method raises ``OSError`` (ELOOP) with the path of one that
    lies where a file or a folder should, or in a folder whose names it tells.
    """

    def real_path(self, path: Path) -> Path:
        """A path of the same place without links; the one method that follows them."""
        ...

    def names(self, folder: Path) -> list[str]:
        """Names in a folder, sorted; none if there is no such folder."""
        ...

    def is_folder(self, path: Path) -> bool:
        """Whether a folder is there."""
        ...

    def size_of(self, path: Path) -> int | None:
        """Length of a file in bytes, or None if there is none."""
        ...

    def modified_ms(self, path: Path) -> int | None:
        """When a file was written to last, as its file system says; None if that is not known."""
        ...

    def make_folders(self, path: Path, *, durable: bool = True) -> None:
        """Make a folder and those above it; no error if it is there.

        Args:
            path: The folder.
            durable: False leaves it to the caller to sync the folders that it lies in.
        """
        ...

    def read(self, path: Path) -> bytes:
        """The whole content of a small file.

        Raises:
            FileNotFoundError: There is none.
        """
        ...

    def write(self, path: Path, content: bytes) -> None:
        """Write a small file as a whole and make its content durable (not its name)."""
        ...

    def create_sparse(self, path: Path, size_bytes: int) -> None:
        """Make a file of zeros, or extend one, without taking space; nothing is synced."""
        ...

    def allocate(self, path: Path, size_bytes: int) -> None:
        """Make a file of zeros, or extend one, with all its space taken; durable, name included.

        Raises:
            OSError: No space (ENOSPC); a file that did not exist before is removed again.
        """
        ...

    def cut(self, path: Path, keep_bytes: int) -> None:
        """Make everything behind the first bytes zeros, durably; the length stays."""
        ...

    def open(self, path: Path, *, writable: bool) -> OpenFile:
        """Open a file that is there.

        Raises:
            FileNotFoundError: There is none.
        """
        ...

    def link(self, path: Path, other: Path) -> None:
        """Give a file a second name; whatever had that name loses it."""
        ...

    def rename(self, path: Path, other: Path) -> None:
        """Give a file another name; whatever had that name loses it. Durable after a sync."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a file if it is there. Durable after a sync of the folder."""
        ...

    def remove_folder(self, path: Path) -> None:
        """Remove a folder and all in it, if it is there."""
        ...

    def sync(self, *, files: Iterable[Path] = (), folders: Iterable[Path] = ()) -> None:
        """Make contents of files and names in folders durable.

        Raises:
            OSError: The disk failed.
        """
        ...

    def lock(self, path: Path, *, exclusive: bool) -> FileLock | None:
        """Lock a file (its first byte) or a folder that is there; None if it is locked already."""
        ...

    def usage(self, path: Path) -> DiskUsage:
        """How full the file system of a path is."""
        ...

    def process_id(self) -> int:
        """The number of this process, for the file that says who is running."""
        ...
