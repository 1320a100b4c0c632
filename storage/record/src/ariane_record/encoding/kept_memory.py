"""Keeping memory that was freed, for the next block of records.

A block is a megabyte and lives for milliseconds. The allocator of glibc hands pieces of that size
back to the system and asks for them anew, and the system clears every page of them again: measured,
a fifth of what receiving a block costs, and most of what a broker spends on reading ranges of it.
"""

from __future__ import annotations

import ctypes
from typing import Final

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
"""Numbers of glibc's ``mallopt``."""

_SETTINGS: Final = {
    _MMAP_THRESHOLD: 32 << 20,  # The largest that glibc takes.
    _TRIM_THRESHOLD: 256 << 20,
    _TOP_PAD: 16 << 20,
}


def keep_freed_memory() -> bool:
    """Have this process keep up to 256 MiB that it freed.

    Returns:
        Whether its allocator takes such settings; one that is not glibc's does not.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return all([mallopt(name, value) for name, value in _SETTINGS.items()])  # noqa: C419 - all.


_LARGE_BYTES: Final = 31 << 20
"""Almost the largest piece that glibc learns from."""


def expect_large_blocks() -> None:
    """Make the allocator learn now what it would learn from blocks that come and go.

    For a library, whose process belongs to somebody else: nothing is set. glibc keeps pieces of
    the size of the largest that was ever freed; what is freed here, nobody has touched, so that it
    cost no memory. Whoever has set the limits of the allocator finds them as they were.
    """
    bytes(_LARGE_BYTES)
