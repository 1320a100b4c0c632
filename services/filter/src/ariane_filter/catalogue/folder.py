"""The catalogue's folder on the disk: small files that are written whole, or not at all.

::

    .late@3f2a....py.17-9be1.tmp    1. written and flushed under a name that readers ignore
    late@3f2a....py                 2. takes its name; flush of the folder

Several processes share the folder: each writer has temporary names of its own.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from secrets import token_hex
from typing import Final, NamedTuple

_TEMPORARY: Final = ".tmp"
_TEMPORARY_S_MAX: Final = 3600.0
"""The longest time that a file may take to write: older temporary files are of killed writers."""


class FileStatus(NamedTuple):
    """The size and time of a file."""

    size_bytes: int
    """Its size."""
    time_ms: int
    """When it was written, since 1970 UTC."""


class Folder:
    """Files by name. Writing and removing wait for the disk; looking takes microseconds."""

    def __init__(self, path: Path) -> None:
        """Use a folder; see ``prepare``."""
        self._path = path

    def prepare(self) -> None:
        """Create the folder if it is missing, and remove the temporary files of killed writers.

        Raises:
            OSError: It cannot be written.
        """
        self._path.mkdir(parents=True, exist_ok=True)
        since = time.time() - _TEMPORARY_S_MAX
        for path in self._path.glob(f".*{_TEMPORARY}"):
            if path.stat().st_mtime < since:
                path.unlink(missing_ok=True)
        probe = self._temporary("probe")
        probe.write_bytes(b"")
        probe.unlink()

    def __str__(self) -> str:
        return str(self._path)

    def names(self) -> list[str]:
        """The names of all complete files."""
        with os.scandir(self._path) as entries:
            return [entry.name for entry in entries if not entry.name.startswith(".")]

    def status(self, name: str) -> FileStatus | None:
        """The size and time of a file; None if it does not exist."""
        try:
            found = (self._path / name).stat()
        except FileNotFoundError:
            return None
        return FileStatus(found.st_size, found.st_mtime_ns // 1_000_000)

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if it does not exist."""
        try:
            return (self._path / name).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """Write a file durably: a reader finds the old file, no file, or the whole new one.

        Raises:
            OSError: The disk refuses; then nothing has changed.
        """
        fresh = self._temporary(name)
        try:
            with fresh.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self._path / name)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise
        self._sync()

    def remove(self, *names: str) -> None:
        """Remove files, durably; missing ones are ignored."""
        for name in names:
            (self._path / name).unlink(missing_ok=True)
        self._sync()

    def _temporary(self, name: str) -> Path:
        return self._path / f".{name}.{os.getpid()}-{token_hex(4)}{_TEMPORARY}"

    def _sync(self) -> None:
        descriptor = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
