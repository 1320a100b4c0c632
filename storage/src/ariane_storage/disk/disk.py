"""The store's seam to the disk: all that it uses of a file system.

Every caller relies on two rules, which make power loss bearable:

* data is durable once ``flush`` or ``sync`` returns, with names if the folder was given;
* files whose writes must not fail for lack of space are allocated before.

No file is mapped into memory: an unreadable page, or a file that was shortened, is an error of a
call, but of a mapping a signal that ends the process.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from ariane_record.layout import ByteBuffer

_EXHAUSTED: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
)


def is_exhausted(error: OSError) -> bool:
    """Whether space, descriptors or memory ran out: no data is lost, and it may pass."""
    return error.errno in _EXHAUSTED


_UNREADABLE: Final = frozenset(
    {
        errno.EIO,
        errno.ENODATA,  # How some drivers report a medium error.
        errno.EREMOTEIO,
        errno.EBADMSG,  # A checksum error of the file system.
        errno.EUCLEAN,
        errno.EILSEQ,
    }
)


def is_unreadable(error: OSError) -> bool:
    """Whether the disk has lost the data that was read; other places may be readable."""
    return error.errno in _UNREADABLE


@dataclass(frozen=True, slots=True)
class DiskUsage:
    """How full a file system is."""

    total_bytes: int
    """Its size."""
    used_bytes: int
    """Bytes in use."""

    @property
    def ratio(self) -> float:
        """Share in use, 0 to 1."""
        return self.used_bytes / self.total_bytes


class OpenFile(Protocol):
    """An open file, read and written at positions, without a buffer of its own.

    It closes itself when no reference is left, so that a caller may drop it while another thread
    reads.
    """

    def size(self) -> int:
        """Length in bytes, now."""
        ...

    def read_at(self, position: int, size: int) -> bytes:
        """Read bytes at a position; fewer than asked at the end of the file.

        Raises:
            OSError: The disk cannot read one of them (see ``is_unreadable``).
            BytesCold: This thread takes only what is in memory (see ``cold.IN_MEMORY``).
        """
        ...

    def gather(self, positions: Sequence[int], sizes: Sequence[int]) -> bytes | bytearray:
        """Read bytes at many positions, back to back, with one system call for each.

        Returns:
            Fewer bytes than asked if some could not be read; it is unknown which ones.

        Raises:
            OSError: The disk cannot read one of them.
            BytesCold: This thread takes only what is in memory.
        """
        ...

    def write_at(self, position: int, content: ByteBuffer) -> None:
        """Write all bytes at a position; readers see them at once.

        Raises:
            OSError: The disk failed: some of the bytes may have been written.
        """
        ...

    def flush(self) -> None:
        """Make all data written before the call durable. Any thread; releases the GIL.

        Raises:
            OSError: The disk failed: the durable state is unknown from now on.
        """
        ...

    def written_ranges(self, begin: int) -> Iterator[tuple[int, int]]:
        """Ranges from a position on that may have bytes other than zero, in order."""
        ...

    def close(self) -> None:
        """Close the file, which must not be used afterwards."""
        ...


class FileLock(Protocol):
    """A lock that one process holds on a file or a folder."""

    def release(self) -> None:
        """Give the lock back."""
        ...


class Disk(Protocol):
    """A file system.

    It follows no symbolic link: each method raises ``OSError`` (ELOOP) with the path of a link that
    stands for a file or folder, or in a folder that it lists.
    """

    def real_path(self, path: Path) -> Path:
        """Resolve the links in a path; the only method that follows links."""
        ...

    def names(self, folder: Path) -> list[str]:
        """Names in a folder, sorted; none if there is no such folder."""
        ...

    def is_folder(self, path: Path) -> bool:
        """Whether a folder is there."""
        ...

    def size_of(self, path: Path) -> int | None:
        """Length of a file in bytes, or None if there is none.

        Raises:
            IsADirectoryError: A folder is there.
        """
        ...

    def modified_ms(self, path: Path) -> int | None:
        """When a file was last written, by its file system; None if unknown."""
        ...

    def make_folders(self, path: Path, *, durable: bool = True) -> None:
        """Make a folder and its parents; no error if it exists.

        Args:
            path: The folder.
            durable: False leaves it to the caller to sync the parent folders.
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
        """Make or extend a file of zeros without allocating space; nothing is synced."""
        ...

    def allocate(self, path: Path, size_bytes: int) -> None:
        """Make or extend a file of zeros with its space allocated; durable, name included.

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
        """Give a file a second name; replaces any file of that name."""
        ...

    def rename(self, path: Path, other: Path) -> None:
        """Rename a file; replaces any file of that name. Durable after a sync."""
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
        """The id of this process, for the file that names the running process."""
        ...
