"""Where connections receive.

What comes is cut up before the callback ends, so that all connections of a thread share one piece
of memory, and an idle connection has none of its own.
"""

from __future__ import annotations

import threading
from typing import Final

SCRATCH_OCTETS: Final = 256 << 10
"""The most that is read at once: a connection's turn."""


class _Scratch(threading.local):
    def __init__(self) -> None:
        self.view = memoryview(bytearray(SCRATCH_OCTETS))


_scratch: Final = _Scratch()


def scratch_of_thread() -> memoryview:
    """The memory of this thread."""
    return _scratch.view
