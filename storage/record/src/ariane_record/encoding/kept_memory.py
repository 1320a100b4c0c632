"""Keeping freed memory for the next block of records.

A block is a megabyte and lives for milliseconds. The allocator of glibc returns pieces of that size
to the system and requests them anew, and the system clears every page again: measured, a fifth of
the cost of receiving a block, and most of a broker's cost of reading ranges of it.
"""

from __future__ import annotations

import ctypes
from typing import Final

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
"""Numbers of glibc's ``mallopt``."""

_SETTINGS: Final = {
    _MMAP_THRESHOLD: 32 << 20,  # The largest that glibc accepts.
    _TRIM_THRESHOLD: 256 << 20,
    _TOP_PAD: 16 << 20,
}


def keep_freed_memory() -> bool:
    """Have this process keep up to 256 MiB of freed memory.

    Returns:
        Whether its allocator accepts such settings; only glibc's does.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return all([mallopt(name, value) for name, value in _SETTINGS.items()])  # noqa: C419 - all.


_LARGE_BYTES: Final = 31 << 20
"""Almost the largest piece that glibc learns from."""


def expect_large_blocks() -> None:
    """Let the allocator adapt now to the size of blocks, as it would after some blocks.

    For libraries in the process of an application: this changes no settings. glibc keeps pieces up
    to the size of the largest piece ever freed; the piece that is freed here was never written, so
    it costs no memory. Limits of the allocator that the application has set stay unchanged.
    """
    bytes(_LARGE_BYTES)
