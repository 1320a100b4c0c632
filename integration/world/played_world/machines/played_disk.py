"""The disk of a machine, as one process uses it: its calls take time, and may be the last."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ariane_storage.disk.disk import DiskUsage, FileLock, OpenFile
from ariane_storage.testing.faulty_disk import FaultyDisk

if TYPE_CHECKING:
    from random import Random

    from ariane_record.layout import ByteBuffer
    from played_world.machines.process import Process

FLUSH_S: Final = (100e-6, 3e-3)
"""How long a flush takes."""

CAPACITY_BYTES: Final = 1 << 30


class DiskHealth:
    """How well the disk of a machine works."""

    def __init__(self, chance: Random, order: Random) -> None:
        self.chance = chance
        self.slow_s = 0.0
        """The longest that a flush takes, beside what it takes usually."""
        self.is_stuttering = False
        """Whether writes and reads are as slow, too."""
        self.full = False
        """Whether there is no space."""
        self.flush_errors = 0
        """How many of the next flushes fail."""
        self.lies = False
        """Whether flushes are said to be done, and are not."""
        self.order = order
        """Draws what a flush takes along of that which is written meanwhile."""

    def heal(self) -> None:
        """Work well, but for lies: what was said to be flushed stays to be done."""
        self.slow_s, self.is_stuttering, self.full = 0.0, False, False
        self.flush_errors = 0

    def flush_s(self) -> float:
        """How long the next flush takes."""
        low, high = FLUSH_S
        seconds = low + (high - low) * self.chance.random()
        return seconds + self.slow_s * self.chance.random() if self.slow_s else seconds


class PlayedDisk:
    """A disk that has content, and health, and one user."""

    def __init__(self, process: Process, content: FaultyDisk, health: DiskHealth) -> None:
        self._process = process
        self._content = content
        self._health = health

    # What each call costs.

    def _look(self) -> None:
        """A call that changes nothing."""
        self._process.at_disk_call()
        health = self._health
        if health.is_stuttering and health.chance.random() < 0.1:
            self._process.block(health.slow_s * health.chance.random())

    def _change(self, *, takes_space: bool = False) -> None:
        """A call that changes something."""
        self._look()
        if takes_space and self._health.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _wait(self, seconds: float) -> None:
        """Wait for the medium, which may fail then."""
        health = self._health
        self._process.block(seconds)
        if health.flush_errors:
            health.flush_errors -= 1
            self._content.flush_fails_at = self._content.flushes + 1

    def _begin_flush(self) -> float:
        """A call that waits for the medium; returns how long."""
        process = self._process
        process.world.timeline.note(f"flush {process.name} {process.disk_calls}")
        process.at_disk_call()
        return self._health.flush_s()

    def flush(self, act: Callable[[], None]) -> None:
        """Make durable what was written before this call, and perhaps what is written meanwhile.

        ``act`` makes durable what is written by then; a disk that lies leaves it out.
        """
        seconds, health = self._begin_flush(), self._health
        # Nobody may rely on the rest: it is drawn whether it is taken along.
        waits_first = health.order.random() < 0.5
        self._wait(seconds if waits_first else 0.0)
        if not health.lies:
            act()
        if not waits_first:
            self._process.block(seconds)

    # Files.

    def real_path(self, path: Path) -> Path:
        """The path."""
        return path

    def names(self, folder: Path) -> list[str]:
        """Names in a folder."""
        self._look()
        return self._content.names(folder)

    def is_folder(self, path: Path) -> bool:
        """Whether a folder is there."""
        return self._content.is_folder(path)

    def size_of(self, path: Path) -> int | None:
        """Length of a file."""
        return self._content.size_of(path)

    def modified_ms(self, path: Path) -> int | None:
        """Unknown."""
        return self._content.modified_ms(path)

    def make_folders(self, path: Path, *, durable: bool = True) -> None:
        """Make a folder and its parents."""
        self._change()
        self._content.make_folders(path, durable=durable)

    def read(self, path: Path) -> bytes:
        """The content of a small file."""
        self._look()
        return self._content.read(path)

    def write(self, path: Path, content: bytes) -> None:
        """Write a small file, durably."""
        self._change(takes_space=True)
        self._wait(self._begin_flush())
        self._content.write(path, content)

    def create_sparse(self, path: Path, size_bytes: int) -> None:
        """Make a file of zeros."""
        self._change()
        self._content.create_sparse(path, size_bytes)

    def allocate(self, path: Path, size_bytes: int) -> None:
        """Make a file of zeros with its space."""
        self._change(takes_space=True)
        self._wait(self._begin_flush())
        self._content.allocate(path, size_bytes)

    def cut(self, path: Path, keep_bytes: int) -> None:
        """Make the end of a file zeros."""
        self._change()
        self._wait(self._begin_flush())
        self._content.cut(path, keep_bytes)

    def open(self, path: Path, *, writable: bool) -> OpenFile:
        """Open a file."""
        self._look()
        return _PlayedFile(self, self._content.open(path, writable=writable))

    def link(self, path: Path, other: Path) -> None:
        """Give a file a second name."""
        self._change()
        self._content.link(path, other)

    def rename(self, path: Path, other: Path) -> None:
        """Rename a file."""
        self._change()
        self._content.rename(path, other)

    def remove(self, path: Path) -> None:
        """Remove a file."""
        self._change()
        self._content.remove(path)

    def remove_folder(self, path: Path) -> None:
        """Remove a folder."""
        self._change()
        self._content.remove_folder(path)

    def sync(self, *, files: Iterable[Path] = (), folders: Iterable[Path] = ()) -> None:
        """Make files and names durable."""
        for path in files:
            self.flush(partial(self._content.sync, files=[path]))
        for path in folders:
            self.flush(partial(self._content.sync, folders=[path]))

    def lock(self, path: Path, *, exclusive: bool) -> FileLock | None:
        """Lock a file, until the process ends."""
        lock = self._content.lock(path, exclusive=exclusive)
        if lock is not None:
            self._process.machine.locks.setdefault(self._process, []).append(lock)
        return lock

    def usage(self, path: Path) -> DiskUsage:
        """How full it is."""
        del path
        ratio = 0.999 if self._health.full else 0.01
        return DiskUsage(CAPACITY_BYTES, round(ratio * CAPACITY_BYTES))

    def process_id(self) -> int:
        """The number of the process."""
        return self._process.process_id

    # What an open file asks for.

    def before_read(self) -> None:
        """A file is read."""
        self._look()

    def before_write(self) -> None:
        """A file is written to."""
        self._look()


class _PlayedFile:
    """An open file."""

    def __init__(self, disk: PlayedDisk, file: OpenFile) -> None:
        self._disk = disk
        self._file = file

    def size(self) -> int:
        return self._file.size()

    def read_at(self, position: int, size: int) -> bytes:
        self._disk.before_read()
        return self._file.read_at(position, size)

    def gather(self, positions: Sequence[int], sizes: Sequence[int]) -> bytes | bytearray:
        self._disk.before_read()
        return self._file.gather(positions, sizes)

    def write_at(self, position: int, content: ByteBuffer) -> None:
        half = len(content) // 2
        self._disk.before_write()
        if half > 512:
            # A kill may come in the middle of a large write.
            self._file.write_at(position, memoryview(content)[:half])
            self._disk.before_write()
        self._file.write_at(position, content)

    def flush(self) -> None:
        self._disk.flush(self._file.flush)

    def written_ranges(self, begin: int) -> Iterator[tuple[int, int]]:
        self._disk.before_read()
        return self._file.written_ranges(begin)

    def close(self) -> None:
        self._file.close()
