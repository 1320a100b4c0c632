"""The disk of a client, handed in so that tests can break it. Broadcasting consumers use it."""

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
    """What is asked of it."""

    def lock(self, path: Path) -> IO[bytes]:
        """Make a file that is locked until it is closed, with its folder.

        Raises:
            BlockingIOError: Another process, or another part of this one, has it.
            OSError: The disk refuses.
        """
        ...

    def read(self, path: Path) -> str:
        """The text of a file.

        Raises:
            FileNotFoundError: There is none.
            OSError, ValueError: It cannot be read.
        """
        ...

    def replace(self, path: Path, text: str, *, backup: Path) -> None:
        """Replace a file whole; the one before becomes the backup.

        Raises:
            OSError: The disk refuses; one of the two is whole nevertheless.
        """
        ...

    def move(self, path: Path, to: Path) -> None:
        """Give a file another name, durably; both in one folder."""
        ...


class SystemDisk:
    """The disk of the machine."""

    def lock(self, path: Path) -> IO[bytes]:
        """Make a file that is locked until it is closed, with its folder."""
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
        """Replace a file whole: written beside, forced to disk, renamed."""
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
        """Give a file another name, durably; both in one folder."""
        path.replace(to)
        _sync_folder(to.parent)


def _make_folder(path: Path) -> None:
    """Make a folder and those above it, durably: a file is no safer than the way to it."""
    if not path.is_dir():
        _make_folder(path.parent)
        path.mkdir(exist_ok=True)
        _sync_folder(path.parent)


def _sync_folder(path: Path) -> None:
    """Force the names of a folder to disk."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
