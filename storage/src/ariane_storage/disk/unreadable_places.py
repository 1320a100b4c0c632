"""Places in consume queues and index files that the disk could not read.

These files are rebuilt from the log, so nothing is lost; but operators must know of it.
"""

from __future__ import annotations

import threading
from pathlib import Path

from ariane_storage.errors import BytesUnreadable


class UnreadablePlaces:
    """Unreadable places of files, each noted once. Any thread."""

    def __init__(self) -> None:
        self._found: dict[tuple[Path, int], BytesUnreadable] = {}
        self._lock = threading.Lock()

    @property
    def found(self) -> tuple[BytesUnreadable, ...]:
        """The noted places, in order."""
        with self._lock:
            return tuple(self._found.values())

    def note(self, place: BytesUnreadable) -> None:
        """Remember a place."""
        with self._lock:
            self._found.setdefault((place.path, place.position), place)
