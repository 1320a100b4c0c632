"""The worker's end of the socket, with the three calls that the jail allows on it."""

from __future__ import annotations

import os


class ParentGone(Exception):
    """The parent has closed the channel."""


class Channel:
    """Reads and writes whole frames; blocks until they are through."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read(self, size_bytes: int) -> bytes:
        """Read ``size_bytes`` bytes.

        Raises:
            ParentGone: The parent has closed the channel.
        """
        buffer = bytearray(size_bytes)
        rest = memoryview(buffer)
        while rest:
            count = os.readv(self._descriptor, [rest])
            if count == 0:
                raise ParentGone
            rest = rest[count:]
        return bytes(buffer)

    def write(self, frame: bytes) -> None:
        """Write all bytes of a frame."""
        rest = memoryview(frame)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
