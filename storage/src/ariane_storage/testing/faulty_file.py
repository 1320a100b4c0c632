"""An open file of a faulty disk, and a lock on a file."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ariane_record.layout import ByteBuffer
from ariane_storage.disk.cold import IN_MEMORY, BytesCold
from ariane_storage.testing.file_images import Inode

if TYPE_CHECKING:
    from ariane_storage.testing.faulty_disk import FaultyDisk

_PAGE_BYTES: Final = 4096


class FaultyFile:
    """An open file."""

    def __init__(self, disk: FaultyDisk, inode: Inode) -> None:
        self._disk = disk
        self._inode = inode

    def size(self) -> int:
        """Length in bytes, now."""
        return len(self._inode.cached)

    def read_at(self, position: int, size: int) -> bytes:
        """Bytes from a place; fewer than asked at the end of the file."""
        return self.gather((position,), (size,))

    def gather(self, positions: Sequence[int], sizes: Sequence[int]) -> bytes:
        """Bytes from many places, back to back."""
        ends = list(map(int.__add__, positions, sizes))
        if any(map(self._inode.is_cold, positions, ends)):
            if IN_MEMORY.only:
                raise BytesCold(self, positions, sizes)
            self.fetch(positions, sizes, 0)
        for position, end in zip(positions, ends, strict=True):
            self._inode.check_readable(position, end)
        return b"".join(
            map(bytes, map(self._inode.cached.__getitem__, map(slice, positions, ends)))
        )

    def fetch(self, positions: Sequence[int], sizes: Sequence[int], ahead_bytes: int) -> None:
        """Bring ranges into memory, and the bytes behind them."""
        self._disk.await_medium()
        for position, size in zip(positions, sizes, strict=True):
            self._inode.warm(position, position + size)
        self._inode.warm(position + size, position + size + ahead_bytes)

    def written_ranges(self, begin: int) -> Iterator[tuple[int, int]]:
        """All of the file."""
        if begin < len(self._inode.cached):
            yield begin, len(self._inode.cached)

    def write_at(self, position: int, content: ByteBuffer) -> None:
        """Write all bytes at a place."""
        inode, end = self._inode, position + len(content)
        half = memoryview(content)[: len(content) // 2]
        try:
            self._disk.step()
        except OSError:
            inode.cached[position : position + len(half)] = half
            raise
        inode.overwrite(position, end)
        if end <= inode.space:
            if len(inode.cached) > _PAGE_BYTES and self._disk.write_fails():
                inode.cached[position : position + len(half)] = half
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            inode.cached[position:end] = content
            return
        before = bytes(inode.cached)
        if len(before) < end:
            inode.cached.extend(bytes(end - len(before)))
        inode.cached[position:end] = content
        limit = self._disk.space_bytes
        if limit is not None and self._disk.taken_bytes() > limit:
            inode.cached = bytearray(before)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def flush(self) -> None:
        """Make all data written before the call durable."""
        self._disk.flush(self._inode)

    def close(self) -> None:
        """Nothing is held."""


class HeldLock:
    """A lock on a file, held until it is released."""

    def __init__(self, held: list[HeldLock], *, exclusive: bool) -> None:
        self._held = held
        self.exclusive = exclusive
        """Whether it excludes all other holders."""

    def release(self) -> None:
        """Release the lock."""
        if self in self._held:
            self._held.remove(self)
