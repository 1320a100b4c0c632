"""How much a producer holds: beyond a limit senders wait."""

from __future__ import annotations

import asyncio


class SendBuffer:
    """Counts the bytes that wait or travel.

    Attributes:
        size_bytes: Bytes now.
        size_bytes_max: Bytes beyond which there is no room.
    """

    __slots__ = ("_room", "size_bytes", "size_bytes_max")

    def __init__(self, size_bytes_max: int) -> None:
        """Be empty.

        Args:
            size_bytes_max: See the class.
        """
        self.size_bytes = 0
        self.size_bytes_max = size_bytes_max
        self._room = asyncio.Event()

    @property
    def full(self) -> bool:
        """Whether there is no room."""
        return self.size_bytes >= self.size_bytes_max

    def release(self, size_bytes: int) -> None:
        """Make room."""
        self.size_bytes -= size_bytes
        if not self.full:
            self._room.set()

    async def wait_for_room(self) -> None:
        """Wait until there is room."""
        while self.full:
            self._room.clear()
            await self._room.wait()
