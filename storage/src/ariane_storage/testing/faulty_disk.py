"""A disk in memory that fails the way disks do, deterministically.

Every file has two images: the page cache, and the medium. Flushing copies from one to the other. A
power loss keeps the medium, and a random part of the unflushed changes:

* any subset of the 512-byte sectors that differ, one of them torn in the middle;
* the changes of names in each folder up to some point: later renames and files are lost;
* of a file whose length was not flushed, the old or the new length.

Further faults: an error at the k-th flush, after which the kernel treats the pages as clean and
never writes them; an error halfway through the k-th write to the log; no space beyond a limit; a
power loss at the k-th step; an error at each of some steps; flipped bits; unreadable pages.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from ariane_storage.disk.disk import DiskUsage, FileLock, OpenFile
from ariane_storage.testing.faulty_file import FaultyFile, HeldLock
from ariane_storage.testing.file_images import PAGE_BYTES, FolderImage, Inode, written_bytes

_UNLIMITED_BYTES: Final = 1 << 50


class PowerLost(BaseException):
    """A power loss. Not an ``Exception``: users of the disk are gone and handle no error."""


class FaultyDisk:
    """A disk that can lose power, fail to flush, and fill up."""

    def __init__(
        self,
        *,
        power_fails_at: int | None = None,
        flush_fails_at: int | None = None,
        write_fails_at: int | None = None,
        space_bytes: int | None = None,
    ) -> None:
        self.steps = 0
        """The number of changing steps so far."""
        self.flushes = 0
        """Flushes and syncs so far."""
        self.writes = 0
        """Writes so far to files of more than a page whose space was taken before."""
        self.power_fails_at = power_fails_at
        """The step at which the power fails, or None."""
        self.failing = range(0)
        """The steps that fail: half of a write is done, and other steps have no effect."""
        self.error = errno.EIO
        """Their error; a step that frees space never fails with ENOSPC."""
        self.flush_fails_at = flush_fails_at
        """The flush, counted from 1, that fails with EIO, or None."""
        self.write_fails_at = write_fails_at
        """The write, counted from 1, that fails with EIO halfway, or None."""
        self.space_bytes = space_bytes
        """Bytes that all files together may take, or None."""
        self.used_ratio: float | None = None
        """The result of ``usage``, or None for the real use."""
        self.await_medium: Callable[[], None] = _at_once
        """Called by each read that must wait for the medium (see ``cool``)."""
        self._folders: dict[Path, FolderImage] = {Path("/"): FolderImage()}
        self._locks: dict[Path, list[HeldLock]] = {}
        self._is_off = False

    # Faults that a test requests.

    def lose_power(self, seed: int) -> FaultyDisk:
        """Lose the power and restart: the disk as the next process finds it."""
        self._is_off = True
        dice = random.Random(seed)  # noqa: S311 - the choices of a test, which can repeat them.
        after = FaultyDisk()
        images: dict[int, Inode] = {}
        for path, folder in sorted(self._folders.items()):
            names = dict(folder.durable)
            for change in folder.pending[: dice.randint(0, len(folder.pending))]:
                change.apply_to(names)
            revived = {}
            for name, inode in sorted(names.items()):
                if id(inode) not in images:
                    images[id(inode)] = inode.copy_for_restart(inode.after_power_loss(dice))
                revived[name] = images[id(inode)]
            after._folders[path] = FolderImage(dict(revived), dict(revived))
        return after

    def kill(self) -> FaultyDisk:
        """End the process, not the machine: the disk with all written data, flushed or not."""
        self._is_off = True
        after = FaultyDisk()
        after._folders = self._folders
        for inode in {id(inode): inode for inode in self._inodes()}.values():
            # Another object, so that the killed process cannot write to it any more.
            inode.cached = bytearray(inode.cached)
        return after

    def copy(self) -> FaultyDisk:
        """Another disk with the same content, without faults."""
        after = FaultyDisk()
        copies = {id(inode): inode.copy() for inode in self._all_inodes()}
        for path, folder in self._folders.items():
            after._folders[path] = folder.copy(copies)
        return after

    def flip_bit(self, path: Path, position: int, bit: int) -> None:
        """Change one bit of a file, in the cache and on the medium."""
        inode = self._inode(path)
        inode.cached[position] ^= 1 << bit
        inode.clean = inode.durable = bytes(inode.cached)

    def shorten(self, path: Path, length: int) -> None:
        """Cut bytes off the end of a file."""
        inode = self._inode(path)
        inode.cached = inode.cached[:length]
        inode.clean = inode.durable = bytes(inode.cached)
        inode.space = min(inode.space, length)

    def make_unreadable(self, path: Path, begin: int, end: int) -> None:
        """Make the pages of a file with a byte of a range unreadable, until they are written."""
        pages = range(begin // PAGE_BYTES, (end + PAGE_BYTES - 1) // PAGE_BYTES)
        self._inode(path).unreadable.update(pages)

    def cool(self, path: Path) -> None:
        """Have the system forget a file: each page is read from the medium once more."""
        inode = self._inode(path)
        inode.cold.update(range(len(inode.cached) // PAGE_BYTES + 1))

    def lose_pages(self, path: Path, count: int, seed: int) -> list[int]:
        """Make some random pages of a file unreadable; return their begins."""
        dice = random.Random(seed)  # noqa: S311 - the choices of a test, which can repeat them.
        pages = (len(self._inode(path).cached) + PAGE_BYTES - 1) // PAGE_BYTES
        begins = [page * PAGE_BYTES for page in dice.sample(range(pages), min(count, pages))]
        for begin in begins:
            self.make_unreadable(path, begin, begin + 1)
        return sorted(begins)

    def paths(self) -> list[Path]:
        """All files, sorted."""
        return sorted(
            path / name for path, folder in self._folders.items() for name in folder.cached
        )

    # Its state.

    def step(self, *, gives_space: bool = False) -> None:
        """Count a changing step; it may fail, and so may the power."""
        if self._is_off:
            raise PowerLost
        self.steps += 1
        if self.steps == self.power_fails_at:
            self._is_off = True
            raise PowerLost
        if self.steps in self.failing and not (gives_space and self.error == errno.ENOSPC):
            raise OSError(self.error, os.strerror(self.error))

    def write_fails(self) -> bool:
        """Count a write to space that is allocated already; returns whether this one fails."""
        self.writes += 1
        return self.writes == self.write_fails_at

    def _flush_fails(self) -> bool:
        self.flushes += 1
        return self.flushes == self.flush_fails_at

    def _all_inodes(self) -> Iterator[Inode]:
        for folder in self._folders.values():
            yield from folder.inodes()

    def _inodes(self) -> Iterator[Inode]:
        for folder in self._folders.values():
            yield from folder.cached.values()

    def _inode(self, path: Path) -> Inode:
        folder = self._folders.get(path.parent)
        inode = folder.cached.get(path.name) if folder is not None else None
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return inode

    def _inode_to_write(self, path: Path) -> Inode:
        try:
            return self._inode(path)
        except FileNotFoundError:
            folder = self._folders.get(path.parent)
            if folder is None:
                raise
            inode = Inode()
            folder.change((path.name, inode))
            return inode

    def taken_bytes(self) -> int:
        """The space of all files."""
        unique = {id(inode): inode for inode in self._inodes()}
        return sum(max(inode.space, written_bytes(inode)) for inode in unique.values())

    def _take(self, inode: Inode, size: int) -> None:
        """Allocate space for the first bytes of a file."""
        if size > inode.space:
            before, inode.space = inode.space, size
            if self.space_bytes is not None and self.taken_bytes() > self.space_bytes:
                inode.space = before
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    # Disk.

    def real_path(self, path: Path) -> Path:
        """The path: there are no links."""
        return path

    def names(self, folder: Path) -> list[str]:
        """Names in a folder, sorted; none if there is no such folder."""
        if self._is_off:
            raise PowerLost
        found = self._folders.get(folder)
        if found is None:
            return []
        below = {path.name for path in self._folders if path.parent == folder and path != folder}
        return sorted({*found.cached, *below})

    def is_folder(self, path: Path) -> bool:
        """Whether a folder exists."""
        return path in self._folders

    def size_of(self, path: Path) -> int | None:
        """Length of a file in bytes, or None if there is none."""
        try:
            return len(self._inode(path).cached)
        except FileNotFoundError:
            return None

    def modified_ms(self, path: Path) -> int | None:  # noqa: ARG002 - the disk's, not ours
        """None: this disk has no clock."""
        return None

    def make_folders(self, path: Path, *, durable: bool = True) -> None:
        """Make a folder and its parents, always durably."""
        if path in self._folders:
            return
        self.make_folders(path.parent, durable=durable)
        self.step()
        self._folders[path] = FolderImage()

    def read(self, path: Path) -> bytes:
        """The whole content of a small file."""
        if self._is_off:
            raise PowerLost
        inode = self._inode(path)
        inode.check_readable(0, len(inode.cached))
        return bytes(inode.cached)

    def write(self, path: Path, content: bytes) -> None:
        """Write a small file as a whole and make its content durable (not its name)."""
        self.step()
        inode = self._inode_to_write(path)
        self._take(inode, len(content))
        inode.cached = bytearray(content)
        inode.unreadable.clear()
        inode.space = len(content)
        self.flush(inode)

    def flush(self, inode: Inode) -> None:
        """Make a file durable, or fail to."""
        try:
            self.step()
        except OSError:
            inode.flush(fails=True)
            raise
        fails = self._flush_fails()
        inode.flush(fails=fails)
        if fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def create_sparse(self, path: Path, size_bytes: int) -> None:
        """Make a file of zeros, or extend one, without allocating space."""
        self.step()
        inode = self._inode_to_write(path)
        inode.cached = inode.cached.ljust(size_bytes, b"\0")

    def allocate(self, path: Path, size_bytes: int) -> None:
        """Make a file of zeros, or extend one, with all its space allocated."""
        self.step()
        existed = self.size_of(path) is not None
        inode = self._inode_to_write(path)
        try:
            self._take(inode, size_bytes)
        except OSError:
            if not existed:
                self.remove(path)
            raise
        inode.cached = inode.cached.ljust(size_bytes, b"\0")
        self.flush(inode)
        self.sync(folders=[path.parent])

    def cut(self, path: Path, keep_bytes: int) -> None:
        """Set everything after the first bytes to zeros, durably; the length stays."""
        self.step()
        inode = self._inode(path)
        inode.overwrite(keep_bytes, len(inode.cached))
        inode.cached = inode.cached[:keep_bytes].ljust(len(inode.cached), b"\0")
        self.flush(inode)

    def open(self, path: Path, *, writable: bool) -> OpenFile:  # noqa: ARG002 - as on a real disk.
        """Open an existing file."""
        if self._is_off:
            raise PowerLost
        return FaultyFile(self, self._inode(path))

    def link(self, path: Path, other: Path) -> None:
        """Give a file a second name; another file with that name loses it."""
        self.step()
        self._folders[other.parent].change((other.name, self._inode(path)))

    def rename(self, path: Path, other: Path) -> None:
        """Rename a file in its folder; another file with that name loses it."""
        self.step()
        inode = self._inode(path)
        if path.parent != other.parent:
            raise AssertionError("the store renames within a folder only")
        self._folders[path.parent].change((path.name, None), (other.name, inode))

    def remove(self, path: Path) -> None:
        """Remove a file if it exists."""
        self.step(gives_space=True)
        if self.size_of(path) is not None:
            self._folders[path.parent].change((path.name, None))

    def remove_folder(self, path: Path) -> None:
        """Remove a folder and its contents, if it exists; files first, as file systems do."""
        for below in sorted(self._folders, reverse=True):
            if below == path or path in below.parents:
                self.step(gives_space=True)
                folder = self._folders.pop(below)
                folder.cached.clear()

    def sync(self, *, files: Iterable[Path] = (), folders: Iterable[Path] = ()) -> None:
        """Make contents of files and names in folders durable."""
        for path in files:
            self.flush(self._inode(path))
        for path in folders:
            self.step()
            if self._flush_fails():
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            if path not in self._folders:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            self._folders[path].sync()

    def lock(self, path: Path, *, exclusive: bool) -> FileLock | None:
        """Lock an existing file or folder; None if another holder prevents it."""
        if path not in self._folders:
            self._inode(path)
        held = self._locks.setdefault(path, [])
        if held and (exclusive or held[0].exclusive):
            return None
        lock = HeldLock(held, exclusive=exclusive)
        held.append(lock)
        return lock

    def usage(self, path: Path) -> DiskUsage:  # noqa: ARG002 - one file system for all paths.
        """How full the disk is."""
        if self.used_ratio is not None:
            # So large that no segment makes a difference.
            return DiskUsage(10**15, round(self.used_ratio * 10**15))
        return DiskUsage(self.space_bytes or _UNLIMITED_BYTES, self.taken_bytes())

    def process_id(self) -> int:
        """The number of a process that never ran."""
        return 4242


def _at_once() -> None:
    """Wait for a medium that takes no time."""
