"""The queue log from which failed messages and dead letters are read, and how much in one turn."""

from __future__ import annotations

from typing import Final

SLICE_COUNT: Final = 128
"""Messages that are returned or sent back in one turn of the loop: some milliseconds."""

SLICE_BYTES: Final = 4 << 20
"""Bytes that are read for them."""
