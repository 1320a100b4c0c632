"""The disk of the machine (Linux).

No symbolic link is followed here, so that no file outside a store is read or written in place of
one inside: every method raises ``OSError`` (ELOOP) with the path of the link. Only the path to a
store's folder may contain links, which ``real_path`` resolves before any file is opened.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
import stat
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import Final

from ariane_record.layout import ByteBuffer
from ariane_storage.disk.cold import IN_MEMORY, BytesCold
from ariane_storage.disk.disk import DiskUsage, FileLock, OpenFile
from ariane_storage.disk.os_memory import fetch, read_in_memory

# ``syncfs`` has no name in Python 3.11.
_LIBC: Final = ctypes.CDLL(None, use_errno=True)

_LINK: Final = (
    "is a symbolic link, and a store follows none: put what it leads to in its place, "
    "or mount it there"
)

# From this many files on, one sync of the file system is cheaper than one of each file.
_SYNC_ALL_FILES_MIN: Final = 64

# After so many fetches in a row that were in vain, readers of a file wait for the disk themselves.
_MISSED_MAX: Final = 3


class OsOpenFile:
    """An open descriptor."""

    def __init__(self, path: Path, *, writable: bool) -> None:
        self._descriptor = -1
        self._descriptor = _open_file(path, os.O_RDWR if writable else os.O_RDONLY)
        self._tells_cold = True
        self._missed = 0

    def size(self) -> int:
        """Length in bytes, now."""
        return os.fstat(self._descriptor).st_size

    def read_at(self, position: int, size: int) -> bytes:
        """Bytes from a place; fewer than asked at the end of the file."""
        if IN_MEMORY.only and self._tells_cold:
            return bytes(self._in_memory((position,), (size,)))
        content = os.pread(self._descriptor, size, position)
        while len(content) < size:
            # The end of the file, or the page before an unreadable one: read on to find out.
            rest = os.pread(self._descriptor, size - len(content), position + len(content))
            if not rest:
                break
            content += rest
        return content

    def gather(self, positions: Sequence[int], sizes: Sequence[int]) -> bytes | bytearray:
        """Bytes from many places, back to back."""
        if IN_MEMORY.only and self._tells_cold:
            return self._in_memory(positions, sizes)
        if len(positions) == 1:
            return self.read_at(positions[0], sizes[0])
        return b"".join(map(os.pread, repeat(self._descriptor), sizes, positions))

    def _in_memory(self, positions: Sequence[int], sizes: Sequence[int]) -> bytes | bytearray:
        try:
            return read_in_memory(self._descriptor, positions, sizes)
        except BlockingIOError:
            raise BytesCold(self, positions, sizes) from None
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise
            self._tells_cold = False
            return self.gather(positions, sizes)

    def fetch(self, positions: Sequence[int], sizes: Sequence[int], ahead_bytes: int) -> None:
        """Bring ranges into memory, and have the bytes behind them come."""
        try:
            fetch(self._descriptor, positions, sizes, ahead_bytes)
            read_in_memory(self._descriptor, positions, sizes)
        except BlockingIOError:
            # Driven out again at once; or a file system that always says so.
            self._missed += 1
            self._tells_cold = self._missed < _MISSED_MAX
        except OSError:
            self._tells_cold = False  # Unreadable: the reader meets the error itself.
        else:
            self._missed = 0

    def write_at(self, position: int, content: ByteBuffer) -> None:
        """Write all bytes at a place."""
        written = os.pwrite(self._descriptor, content, position)
        while written < len(content):
            rest = memoryview(content)[written:]
            written += os.pwrite(self._descriptor, rest, position + written)

    def flush(self) -> None:
        """Make all data written before the call durable."""
        os.fdatasync(self._descriptor)

    def written_ranges(self, begin: int) -> Iterator[tuple[int, int]]:
        """Ranges that the file system has data for."""
        return _data_ranges(self._descriptor, begin)

    def close(self) -> None:
        """Close the file."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    __del__ = close


class OsFileLock:
    """A lock on an open file description.

    A lock on a file excludes holders of POSIX locks, which Java uses. Unlike these it also excludes
    the same process, and is not lost when another descriptor of the file is closed. A lock on a
    folder (``flock``) does the same among our own programs.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """Give the lock back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class OsDisk:
    """The file system of the machine."""

    def real_path(self, path: Path) -> Path:
        """A path of the same place without links: the same one if it has none."""
        resolved = path.resolve()
        return path if path.absolute() == resolved else resolved

    def names(self, folder: Path) -> list[str]:
        """Names in a folder, sorted; none if there is no such folder."""
        try:
            with _opened(folder, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
                entries = list(os.scandir(descriptor))
        except (FileNotFoundError, NotADirectoryError):
            return []
        for entry in entries:
            if entry.is_symlink():
                raise _link_refused(folder / entry.name)
        return sorted(entry.name for entry in entries)

    def is_folder(self, path: Path) -> bool:
        """Whether a folder is there."""
        status = _status(path)
        return status is not None and stat.S_ISDIR(status.st_mode)

    def size_of(self, path: Path) -> int | None:
        """Length of a file in bytes, or None if there is none."""
        status = _status(path)
        if status is not None and stat.S_ISDIR(status.st_mode):
            raise _folder_refused(path)  # Its length has no meaning: it differs by file system.
        return None if status is None else status.st_size

    def modified_ms(self, path: Path) -> int | None:
        """When a file was written to last; None if there is none."""
        try:
            return path.stat().st_mtime_ns // 1_000_000
        except (FileNotFoundError, NotADirectoryError):
            return None

    def make_folders(self, path: Path, *, durable: bool = True) -> None:
        """Make a folder and its parents."""
        if self.is_folder(path):
            return
        self.make_folders(path.parent, durable=durable)
        path.mkdir(exist_ok=True)
        if durable:
            self.sync(folders=[path.parent])

    def read(self, path: Path) -> bytes:
        """The whole content of a small file."""
        descriptor = _open_file(path, os.O_RDONLY)
        with os.fdopen(descriptor, "rb") as file:
            return file.read()

    def write(self, path: Path, content: bytes) -> None:
        """Write a small file as a whole and make its content durable (not its name)."""
        descriptor = _open_file(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def create_sparse(self, path: Path, size_bytes: int) -> None:
        """Make a file of zeros, or extend one, without taking space."""
        with _opened(path, os.O_RDWR | os.O_CREAT) as descriptor:
            os.ftruncate(descriptor, size_bytes)

    def allocate(self, path: Path, size_bytes: int) -> None:
        """Make a file of zeros, or extend one, with all its space taken."""
        existed = self.size_of(path) is not None
        try:
            with _opened(path, os.O_RDWR | os.O_CREAT) as descriptor:
                os.posix_fallocate(descriptor, 0, size_bytes)
                os.fsync(descriptor)
        except OSError:
            if not existed:
                path.unlink(missing_ok=True)
            raise
        self.sync(folders=[path.parent])

    def cut(self, path: Path, keep_bytes: int) -> None:
        """Make everything behind the first bytes zeros, durably; the length stays."""
        with _opened(path, os.O_RDWR) as descriptor:
            status = os.fstat(descriptor)
            sparse = status.st_blocks * 512 < status.st_size
            os.ftruncate(descriptor, keep_bytes)
            if sparse:
                os.ftruncate(descriptor, status.st_size)
            else:
                os.posix_fallocate(descriptor, 0, status.st_size)
            os.fsync(descriptor)

    def open(self, path: Path, *, writable: bool) -> OpenFile:
        """Open a file that is there."""
        return OsOpenFile(path, writable=writable)

    def link(self, path: Path, other: Path) -> None:
        """Give a file a second name; another file with that name loses it."""
        other.unlink(missing_ok=True)
        other.hardlink_to(path)

    def rename(self, path: Path, other: Path) -> None:
        """Rename a file; another file with that name loses it."""
        path.replace(other)

    def remove(self, path: Path) -> None:
        """Remove a file if it is there."""
        path.unlink(missing_ok=True)

    def remove_folder(self, path: Path) -> None:
        """Remove a folder and all in it, if it is there."""
        if self.is_folder(path):
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(path)

    def sync(self, *, files: Iterable[Path] = (), folders: Iterable[Path] = ()) -> None:
        """Make contents of files and names in folders durable."""
        paths = [*files, *folders]
        if len(paths) >= _SYNC_ALL_FILES_MIN:
            with _opened(paths[0], os.O_RDONLY) as descriptor:
                if _LIBC.syncfs(descriptor) != 0:
                    number = ctypes.get_errno()
                    raise OSError(number, os.strerror(number), str(paths[0]))
            return
        for path in paths:
            with _opened(path, os.O_RDONLY) as descriptor:
                os.fsync(descriptor)

    def lock(self, path: Path, *, exclusive: bool) -> FileLock | None:
        """Lock the first byte of a file, or a folder; None if another holder is in the way."""
        if self.is_folder(path):
            descriptor = _open(path, os.O_RDONLY | os.O_DIRECTORY)
            kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
            return _locked(descriptor, lambda: fcntl.flock(descriptor, kind | fcntl.LOCK_NB))
        descriptor = _open_file(path, os.O_RDWR if exclusive else os.O_RDONLY)
        span = _first_byte(exclusive=exclusive)
        return _locked(descriptor, lambda: fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, span))

    def usage(self, path: Path) -> DiskUsage:
        """How full the file system of a path is, for users other than root."""
        status = os.statvfs(path)
        used = status.f_blocks - status.f_bfree
        return DiskUsage(
            total_bytes=(used + status.f_bavail) * status.f_frsize,
            used_bytes=used * status.f_frsize,
        )

    def process_id(self) -> int:
        """The number of this process."""
        return os.getpid()


def _status(path: Path) -> os.stat_result | None:
    """The status of the file at a path, or None if there is none."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISLNK(status.st_mode):
        raise _link_refused(path)
    return status


def _link_refused(path: Path) -> OSError:
    return OSError(errno.ELOOP, _LINK, str(path))


def _folder_refused(path: Path) -> OSError:
    return IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))


def _open(path: Path, flags: int) -> int:
    """Open the file at a path itself. Does not block on a pipe that has no other end."""
    try:
        return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    except OSError as error:
        # Linux has two errors for this, depending on whether a folder was asked for.
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and path.is_symlink():
            raise _link_refused(path) from error
        raise


def _open_file(path: Path, flags: int) -> int:
    """Open a path that must be a file: a folder or a device there is refused here, not later."""
    descriptor = _open(path, flags)
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(kind):
        raise _folder_refused(path)
    raise OSError(errno.EINVAL, "is a pipe, a socket or a device, and no file", str(path))


def _locked(descriptor: int, take: Callable[[], object]) -> OsFileLock | None:
    """Lock an open descriptor; closes it if the lock is taken."""
    try:
        take()
    except OSError as error:
        os.close(descriptor)
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return None
        raise
    return OsFileLock(descriptor)


def _data_ranges(descriptor: int, begin: int) -> Iterator[tuple[int, int]]:
    """Find the ranges of a file that have data now.

    All ranges are found before the caller reads: pages that the system reads ahead count as data as
    well, so that a search through an allocated segment would otherwise read all of it.
    """
    ranges = []
    size = os.fstat(descriptor).st_size
    while begin < size:
        try:
            begin = os.lseek(descriptor, begin, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            break  # Only a hole is left.
        if begin >= size:
            break  # XFS may report this if the end of a file was allocated and never written.
        end = os.lseek(descriptor, begin, os.SEEK_HOLE)
        ranges.append((begin, end))
        begin = end
    return iter(ranges)


def _first_byte(*, exclusive: bool) -> bytes:
    """``struct flock`` for byte 0: type, whence, start, length, process."""
    kind = fcntl.F_WRLCK if exclusive else fcntl.F_RDLCK
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, 0, 1, 0)


@contextlib.contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    descriptor = _open(path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
