"""Handing the log on to one replica: what it lacks, as long as it keeps pace.

::

    received by the replica    sent                    end of the log
    |                          |                       |
    v                          v                       v
    +--------------------------+-----------------------+
    |<--- at most a window --->| the next chunks       |
    +--------------------------+-----------------------+

A chunk costs a replica much more than its bytes do: it is read, checked and filed as one. While
some are on their way the replica is busy, and what is appended meanwhile goes out together as soon
as it has taken the first of them; a whole chunk does not wait. Chunks end behind a record where
that is known, because a record that comes in two parts is copied once more. What counts is what the
replica has received, not what it has written: it writes whole records, and one may be larger than
all that is on its way.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from operator import attrgetter
from typing import Final, NamedTuple

from ariane_storage.store import Store

WINDOW_BYTES: Final = 16 << 20
"""Bytes on their way to a replica: enough to fill a fast line for as long as a round trip takes."""

CHUNK_BYTES: Final = 4 << 20

_ENDS_KEPT: Final = 4096


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

    def __init__(self, store: Store, begin: int, *, busy_chunk_count: int | None) -> None:
        """Begin.

        Args:
            store: Whose log.
            begin: Commit-log offset of what goes out first.
            busy_chunk_count: With so many chunks on their way the replica has enough to do, and
                small ones wait for one another. None: they never wait.
        """
        self._store = store
        self._busy_chunk_count = busy_chunk_count
        self._sent = begin
        self._chunk_ends: deque[int] = deque()
        self._record_ends: deque[int] = deque(maxlen=_ENDS_KEPT)
        self._received = begin
        self._woken = asyncio.Event()
        self._is_held = False
        self.is_closed = False

    def wake(self) -> None:
        """There may be something to send."""
        self._woken.set()

    def appended(self) -> None:
        """The log has grown, up to behind a record."""
        self._record_ends.append(self._store.max_offset)
        # What is held goes out once the replica has received more, or a whole chunk is there.
        if not self._is_held or self._has_whole_chunk:
            self._woken.set()

    def progressed(self, received: int) -> None:
        """The replica has received everything before this."""
        self._received = received
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
        room = self._received + WINDOW_BYTES - self._sent
        self._is_held = room <= 0 or self._is_busy()
        if self._is_held or self._sent >= self._store.max_offset:
            return None
        epochs = copying.epochs
        place = max(0, bisect_right(epochs, self._sent, key=attrgetter("begin")) - 1)
        end = epochs[place + 1].begin if place + 1 < len(epochs) else self._store.max_offset
        end = self._chunk_end(min(end, self._sent + min(room, CHUNK_BYTES)))
        content = copying.read(self._sent, end, bytes_max=CHUNK_BYTES)
        run = LogRun(self._sent, epochs[place].epoch, epochs[place].begin, content)
        self._sent += len(content)
        self._chunk_ends.append(self._sent)
        return run

    def _is_busy(self) -> bool:
        """Whether the replica has enough to do, so that what is there may become a whole chunk."""
        ends = self._chunk_ends
        while ends and ends[0] <= self._received:
            ends.popleft()
        count = self._busy_chunk_count
        return count is not None and len(ends) >= count and not self._has_whole_chunk

    @property
    def _has_whole_chunk(self) -> bool:
        return self._store.max_offset - self._sent >= CHUNK_BYTES

    def _chunk_end(self, end_max: int) -> int:
        """Behind the last record that is known to end there, else where a chunk ends at most."""
        ends, found = self._record_ends, self._sent
        while ends and ends[0] <= end_max:
            found = ends.popleft()
        return found if found > self._sent else end_max

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
