"""How much a producer holds: beyond a limit senders wait, and go on in the order they came in."""

from __future__ import annotations

import asyncio
from itertools import count, islice
from typing import Final

WOKEN_AT_ONCE: Final = 64
"""Of those who wait, so many look at the same time whether there is room for them."""


class SendBuffer:
    """Counts the bytes that wait or travel.

    Attributes:
        size_bytes: Bytes now.
        size_bytes_max: Bytes beyond which there is no room.
    """

    __slots__ = ("_places", "_turns", "size_bytes", "size_bytes_max")

    def __init__(self, size_bytes_max: int) -> None:
        self.size_bytes = 0
        self.size_bytes_max = size_bytes_max
        self._places = count()
        # By place in the line, who came first in front.
        self._turns: dict[int, asyncio.Future[None]] = {}

    @property
    def full(self) -> bool:
        """Whether there is no room."""
        return self.size_bytes >= self.size_bytes_max

    @property
    def crowded(self) -> bool:
        """Whether who comes now has to wait: for room, or behind others."""
        return self.full or bool(self._turns)

    def release(self, size_bytes: int) -> None:
        """Make room."""
        self.size_bytes -= size_bytes
        self._wake()

    async def wait_for_room(self) -> None:
        """Wait until there is room, behind all who wait already."""
        if not self.crowded:
            return
        loop = asyncio.get_running_loop()
        place = next(self._places)
        try:
            while True:
                # Whoever has looked in vain keeps the place.
                turn = self._turns[place] = loop.create_future()
                await turn
                if not self.full and next(iter(self._turns)) == place:
                    return
        finally:
            del self._turns[place]
            self._wake()

    def _wake(self) -> None:
        if self._turns and not self.full:
            for turn in islice(self._turns.values(), WOKEN_AT_ONCE):
                if not turn.done():
                    turn.set_result(None)


class SendTurns:
    """Lets others have their turn while one call takes much: after each so many bytes."""

    __slots__ = ("_buffer", "_end_bytes", "_turn_bytes")

    def __init__(self, buffer: SendBuffer, turn_bytes: int) -> None:
        self._buffer = buffer
        self._turn_bytes = turn_bytes
        # Nothing was taken yet: who comes first looks whether there is room.
        self._end_bytes = -1

    async def next(self, taken_bytes: int) -> None:
        """Before another batch: let batches leave, and wait for room, when a turn is over.

        Args:
            taken_bytes: Bytes that the call has taken so far.
        """
        if taken_bytes < self._end_bytes:
            return
        self._end_bytes = taken_bytes + self._turn_bytes
        if self._buffer.size_bytes:
            await asyncio.sleep(0)
            await self._buffer.wait_for_room()
