"""Sending the log to one replica, no further ahead of it than a window.

::

    received by the replica    sent                    end of the log
    |                          |                       |
    v                          v                       v
    +--------------------------+-----------------------+
    |<--- at most a window --->| the next chunks       |
    +--------------------------+-----------------------+

Reading, checking and filing a chunk costs a replica much more than its bytes. While chunks are on
their way the replica is busy, and records appended meanwhile are sent together as soon as it has
received the first of them; a whole chunk does not wait. Chunks end at the end of a record where
that is known, because a record in two parts is copied once more. The window counts the bytes that
the replica has received, not written: it writes whole records, and one record may be larger than
the window.
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


class LogChunk(NamedTuple):
    """Bytes of the log, all of one epoch and one segment."""

    begin: int
    """Commit-log offset of the first byte."""
    epoch: int
    """The epoch that they belong to."""
    epoch_begin: int
    """Commit-log offset at which the epoch begins."""
    content: bytes | memoryview
    """The bytes."""


class LogFeed:
    """The bytes to send to one replica. Lives on one loop."""

    def __init__(self, store: Store, begin: int, *, busy_chunk_count: int | None) -> None:
        """Begin at a commit-log offset.

        With ``busy_chunk_count`` chunks on their way the replica is busy, and smaller chunks wait
        to grow; with None they never wait.
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
        """Whether nothing more is sent."""

    def wake(self) -> None:
        """Wake the sender: there may be bytes to send."""
        self._woken.set()

    def appended(self) -> None:
        """Note that the log has grown by whole records."""
        self._record_ends.append(self._store.max_offset)
        # Held bytes are sent once the replica has received more, or a whole chunk is there.
        if not self._is_held or self._has_whole_chunk:
            self._woken.set()

    def progressed(self, received: int) -> None:
        """Note that the replica has received all before an offset."""
        self._received = received
        if self._is_held:
            self._woken.set()

    def close(self) -> None:
        """Send nothing more."""
        self.is_closed = True
        self._woken.set()

    def take(self) -> LogChunk | None:
        """Take the bytes to send now; None if there are none.

        Raises:
            StorageError: The log cannot be read there, or retention has deleted it.
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
        chunk = LogChunk(self._sent, epochs[place].epoch, epochs[place].begin, content)
        self._sent += len(content)
        self._chunk_ends.append(self._sent)
        return chunk

    def _is_busy(self) -> bool:
        """Whether the replica is busy, so that the next bytes may wait for a whole chunk."""
        ends = self._chunk_ends
        while ends and ends[0] <= self._received:
            ends.popleft()
        count = self._busy_chunk_count
        return count is not None and len(ends) >= count and not self._has_whole_chunk

    @property
    def _has_whole_chunk(self) -> bool:
        return self._store.max_offset - self._sent >= CHUNK_BYTES

    def _chunk_end(self, end_max: int) -> int:
        """The end of the last record before ``end_max`` where known, else ``end_max``."""
        ends, found = self._record_ends, self._sent
        while ends and ends[0] <= end_max:
            found = ends.popleft()
        return found if found > self._sent else end_max

    @property
    def position(self) -> int:
        """Commit-log offset of the next byte to send."""
        return self._sent

    async def wait(self, seconds: float) -> bool:
        """Wait until there may be bytes to send; False after ``seconds``."""
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return False
        self._woken.clear()
        return True
