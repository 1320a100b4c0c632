"""Memory in which a block is built before it is written to its segment.

Every block uses the same memory, so that it stays in the caches of the processor: the additional
cost of a block is one copy by the kernel into the pages of the file.
"""

from __future__ import annotations

from typing import Final

_KEPT_BYTES_MAX: Final = 8 << 20
"""The memory of larger blocks is not kept."""


class DraftMemory:
    """Room for one block at a time. One thread."""

    __slots__ = ("_memory",)

    def __init__(self) -> None:
        self._memory = memoryview(b"")

    def of(self, size: int) -> memoryview:
        """``size`` bytes of any content; valid until the next call."""
        if size <= len(self._memory):
            return self._memory[:size]
        if size > _KEPT_BYTES_MAX:
            return memoryview(bytearray(size))
        # A power of two, so that it does not grow with every block.
        self._memory = memoryview(bytearray(1 << size.bit_length()))
        return self._memory[:size]
