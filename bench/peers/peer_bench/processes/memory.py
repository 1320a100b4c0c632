"""Memory that is in use before anything is timed.

A page that nobody has used since the machine began, or that a virtual machine gave back to its
host, costs several times as much to write to first as a page that was in use before. Where a leg
writes gigabytes, that is what would be measured, and who runs later gets the pages of who ran
before. On a machine that has been up for some time the page cache has nearly all memory. So it
gets it here: by reading zeros of a file without blocks, which the kernel lets go of as soon as
somebody needs room.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_MEMINFO: Final = Path("/proc/meminfo")
_READ_BYTES: Final = 8 << 20
FREE_BYTES_MAX: Final = 1 << 30
"""With less than this free, all is in use."""


def use_all_memory(folder: Path) -> int:
    """Have the page cache take what is free; returns how many bytes were read.

    Args:
        folder: Where the file lies; what it took is free again when the file is removed.
    """
    total_bytes, _ = _memory_bytes()
    path = folder / "zeros"
    with path.open("wb") as file:
        file.truncate(total_bytes)
    room = bytearray(_READ_BYTES)
    position = 0
    with path.open("rb", buffering=0) as file:
        while position < total_bytes and _memory_bytes()[1] > FREE_BYTES_MAX:
            position += os.preadv(file.fileno(), [room], position)
    return position


def _memory_bytes() -> tuple[int, int]:
    """All memory, and what nothing is in."""
    lines = _MEMINFO.read_text().splitlines()
    sizes = {
        name: int(rest.split()[0]) << 10 for name, _, rest in (x.partition(":") for x in lines)
    }
    return sizes["MemTotal"], sizes["MemFree"]
