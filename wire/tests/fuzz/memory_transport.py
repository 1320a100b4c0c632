"""A transport of asyncio without a socket: what is written is kept, what comes is given by hand."""

from __future__ import annotations

import asyncio
from typing import Any

HIGH_WATER_OCTETS = 256 << 10


class MemoryTransport(asyncio.Transport):
    """One end's transport."""

    def __init__(self, loop: asyncio.AbstractEventLoop, protocol: asyncio.BufferedProtocol) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self._loop = loop
        self._protocol = protocol
        self._is_closing = False
        self._is_paused = False
        self._waiting = 0
        self.written = bytearray()
        """All that the end has sent."""
        protocol.connection_made(self)

    def give(self, octets: bytes) -> None:
        """Octets come from the peer."""
        rest = memoryview(octets)
        while rest and not self._is_closing:
            buffer = self._protocol.get_buffer(-1)
            count = min(len(buffer), len(rest))
            buffer[:count] = rest[:count]
            self._protocol.buffer_updated(count)
            rest = rest[count:]

    def write(self, data: Any) -> None:
        """Keep what is sent; beyond the mark, the end is told to wait for one turn of the loop."""
        if self._is_closing:
            return
        self.written += data
        self._waiting += len(data)
        if self._waiting > HIGH_WATER_OCTETS and not self._is_paused:
            self._is_paused = True
            self._protocol.pause_writing()
            self._loop.call_soon(self._resume)

    def _resume(self) -> None:
        self._is_paused = False
        self._waiting = 0
        if not self._is_closing:
            self._protocol.resume_writing()

    def close(self) -> None:
        """The end closes the connection."""
        if not self._is_closing:
            self._is_closing = True
            self._loop.call_soon(self._protocol.connection_lost, None)

    abort = close

    def is_closing(self) -> bool:
        return self._is_closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """The mark is fixed."""

    def get_write_buffer_size(self) -> int:
        return self._waiting

    def pause_reading(self) -> None:
        """What is given is given: the end must bear it."""

    def resume_reading(self) -> None:
        """The same."""
