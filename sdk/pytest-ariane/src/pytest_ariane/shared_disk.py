"""The disk of the in-process broker: in memory, and for several threads."""

from __future__ import annotations

import threading
from typing import Any, cast

from ariane_storage.disk.disk import Disk
from ariane_storage.testing.faulty_disk import FaultyDisk


class _OneAtATime:
    """Passes the operations on to the disk, one at a time."""

    def __init__(self, disk: FaultyDisk) -> None:
        self._disk = disk
        self._lock = threading.RLock()

    def __getattr__(self, name: str) -> Any:
        step = getattr(self._disk, name)

        def locked(*args: Any, **kwargs: Any) -> Any:
            with self._lock:
                return step(*args, **kwargs)

        return locked


def shared(disk: FaultyDisk) -> Disk:
    """A disk for several threads; the given disk is for one thread only."""
    return cast("Disk", _OneAtATime(disk))
