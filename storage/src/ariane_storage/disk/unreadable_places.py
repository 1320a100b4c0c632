"""Which places of derived files the disk could not read: consume queues and index.

They are built again from the log, so nothing is lost with them; but somebody has to say it.
"""

from __future__ import annotations

import threading
from pathlib import Path

from ariane_storage.errors import BytesUnreadable


class UnreadablePlaces:
    """Places of files that could not be read, each noted once. Any thread."""

    def __init__(self) -> None:
        self._found: dict[tuple[Path, int], BytesUnreadable] = {}
        self._lock = threading.Lock()

    @property
    def found(self) -> tuple[BytesUnreadable, ...]:
        """What was noted, in its order."""
        with self._lock:
            return tuple(self._found.values())

    def note(self, place: BytesUnreadable) -> None:
        """Remember a place."""
        with self._lock:
            self._found.setdefault((place.path, place.position), place)
