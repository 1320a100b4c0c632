"""Small state files that are replaced as a whole: readers find the old or the new content, no mix.

::

    name.json.tmp   being written         1. write, fsync
    name.json.bak   previous generation   2. the present file becomes it, by a second link
    name.json       the present one       3. the new file takes the name; fsync of the folder

After a crash between any two steps ``name.json`` is complete. The broker's state is in its store,
which has files of its own; these are for services without a store. All calls block: ``to_thread``.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ariane_servicekit.errors import FileDamaged, StartRefused
from ariane_servicekit.observability.logs import get_logger

_log = get_logger(__name__)


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file's content, durably, and keep the previous generation as ``.bak``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = _beside(path, ".tmp")
    with fresh.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    if path.exists():
        link = _beside(path, ".bak.tmp")
        link.unlink(missing_ok=True)
        link.hardlink_to(path)
        link.replace(_beside(path, ".bak"))
    fresh.replace(path)
    _sync_folder(path.parent)


class JsonFile:
    """A JSON object on disk, with its previous generation behind it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> dict[str, Any] | None:
        """Return the content; None if it was never saved.

        Raises:
            FileDamaged: Neither generation can be read.
        """
        reason = ""
        for generation in (self.path, _beside(self.path, ".bak")):
            try:
                content = json.loads(generation.read_bytes())
            except FileNotFoundError:
                continue
            except (ValueError, RecursionError, OSError) as error:
                reason = reason or f"{generation.name}: {error}"
                continue
            if not isinstance(content, dict):
                reason = reason or f"{generation.name}: no JSON object"
                continue
            if generation != self.path:
                _log.warning("previous_generation_used", path=str(self.path), reason=reason)
            return content
        if reason:
            raise FileDamaged(self.path, reason)
        return None

    def save(self, content: Mapping[str, Any]) -> None:
        """Replace the content, durably."""
        text = json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True)
        write_whole(self.path, text.encode())


class FolderLock:
    """Reserves a folder for one process. The kernel releases the lock however the process ends."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "lock"
        self._descriptor: int | None = None

    def take(self) -> None:
        """Take the lock; creates the folder if it is missing.

        Raises:
            StartRefused: Another process holds it, or the folder cannot be written.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            msg = f"cannot use {self._path.parent}: {error.strerror}"
            raise StartRefused(msg) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            msg = f"{self._path.parent} is in use by another process"
            raise StartRefused(msg) from None
        self._descriptor = descriptor

    def release(self) -> None:
        """Release the lock. Repeating is harmless."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
