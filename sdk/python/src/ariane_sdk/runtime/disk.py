"""The disk of a broadcasting consumer, passed in so that tests can make it fail."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import IO, Protocol

try:
    import fcntl
except ImportError:  # pragma: no cover - only where files cannot be locked so.
    fcntl = None  # type: ignore[assignment]


class Disk(Protocol):
    """The disk operations of a client."""

    def lock(self, path: Path) -> IO[bytes]:
        """Create a file and its folder; the file is locked until it is closed.

        Raises:
            BlockingIOError: Another process, or another part of this one, has the lock.
            OSError: The disk fails.
        """
        ...

    def read(self, path: Path) -> str:
        """The text of a file.

        Raises:
            FileNotFoundError: The file does not exist.
            OSError, ValueError: It cannot be read.
        """
        ...

    def replace(self, path: Path, text: str, *, backup: Path) -> None:
        """Replace a file as a whole; the previous version becomes the backup.

        Raises:
            OSError: The disk fails; one of the two is nevertheless complete.
        """
        ...

    def move(self, path: Path, to: Path) -> None:
        """Rename a file within its folder, durably."""
        ...


class SystemDisk:
    """The disk of the machine."""

    def lock(self, path: Path) -> IO[bytes]:
        """Create a file and its folder; the file is locked until it is closed."""
        _make_folder(path.parent)
        lock = path.open("wb")
        if fcntl is not None:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                lock.close()
                raise
        return lock

    def read(self, path: Path) -> str:
        """The text of a file."""
        return path.read_text("utf-8")

    def replace(self, path: Path, text: str, *, backup: Path) -> None:
        """Replace a file as a whole: write a new one, force it to disk, rename it."""
        fresh = path.with_name(path.name + ".tmp")
        with fresh.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileNotFoundError):
            path.replace(backup)
        fresh.replace(path)
        _sync_folder(path.parent)

    def move(self, path: Path, to: Path) -> None:
        """Rename a file within its folder, durably."""
        path.replace(to)
        _sync_folder(to.parent)


def _make_folder(path: Path) -> None:
    """Create a folder and its parents, durably: a file is no safer than its path."""
    if not path.is_dir():
        _make_folder(path.parent)
        path.mkdir(exist_ok=True)
        _sync_folder(path.parent)


def _sync_folder(path: Path) -> None:
    """Force the entries of a folder to disk."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
