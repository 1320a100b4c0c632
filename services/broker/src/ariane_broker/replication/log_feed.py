"""Handing the log on to one replica: what it lacks, as long as it keeps pace.

::

    written by the replica     sent                    end of the log
    |                          |                       |
    v                          v                       v
    +--------------------------+-----------------------+
    |<--- at most a window --->| the next chunks       |
    +--------------------------+-----------------------+
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from operator import attrgetter
from typing import Final, NamedTuple

from ariane_storage.store import Store

WINDOW_BYTES: Final = 16 << 20
"""Bytes on their way to a replica: enough to fill a fast line for as long as a round trip takes."""

CHUNK_BYTES: Final = 1 << 20


class LogRun(NamedTuple):
    """Bytes of the log, all of one epoch and one segment.

    Attributes:
        begin: Commit-log offset of the first.
        epoch: The epoch that they belong to.
        epoch_begin: Where that begins.
        content: The bytes.
    """

    begin: int
    epoch: int
    epoch_begin: int
    content: bytes | memoryview


class LogFeed:
    """What goes to one replica. Lives on one loop.

    Attributes:
        is_closed: Whether nothing more goes to it.
    """

    def __init__(self, store: Store, begin: int) -> None:
        self._store = store
        self._sent = begin
        self._written = begin
        self._woken = asyncio.Event()
        self._is_held = False
        self.is_closed = False

    def wake(self) -> None:
        """There may be something to send."""
        self._woken.set()

    def progressed(self, written: int) -> None:
        """The replica has written everything before this."""
        self._written = written
        if self._is_held:
            self._woken.set()

    def close(self) -> None:
        """Send nothing more."""
        self.is_closed = True
        self._woken.set()

    def take(self) -> LogRun | None:
        """What goes out now; None for nothing.

        Raises:
            StorageError: The log cannot be read there, or retention was faster.
        """
        copying = self._store.copying
        room = self._written + WINDOW_BYTES - self._sent
        self._is_held = room <= 0
        if self._is_held or self._sent >= self._store.max_offset:
            return None
        epochs = copying.epochs
        place = max(0, bisect_right(epochs, self._sent, key=attrgetter("begin")) - 1)
        end = epochs[place + 1].begin if place + 1 < len(epochs) else self._store.max_offset
        content = copying.read(self._sent, end, bytes_max=min(room, CHUNK_BYTES))
        run = LogRun(self._sent, epochs[place].epoch, epochs[place].begin, content)
        self._sent += len(content)
        return run

    @property
    def position(self) -> int:
        """Commit-log offset of what goes out next."""
        return self._sent

    async def wait(self, seconds: float) -> bool:
        """Wait until there may be something to send, but not longer; whether there may."""
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return False
        self._woken.clear()
        return True
