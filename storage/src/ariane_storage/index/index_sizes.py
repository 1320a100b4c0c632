"""Finds out how many slots and items an index file has, from its content.

The header says how many are in use, but not how many there are; the file's length gives only their
sum. But the header has the commit-log offset of the last item: the place of that item tells where
the items begin, and so all sizes. It is confirmed if the slot of that item points to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ariane_storage.disk.disk import Disk, OpenFile
from ariane_storage.index.index_file import HEADER, ITEM_BYTES, SLOT_BYTES, index_file_bytes

_CHUNK_BYTES: Final = 1 << 22
_OFFSET_IN_ITEM: Final = 4
"""The place of the commit-log offset: after the key hash."""


def sizes_in(disk: Disk, path: Path) -> tuple[int, int] | None:
    """Slots and items of an index file; None if its content does not show them.

    Raises:
        OSError: The disk cannot read it.
    """
    file = disk.open(path, writable=False)
    try:
        length = file.size()
        if length < HEADER.size:
            return None
        *_, end_offset, _, next_item = HEADER.unpack(file.read_at(0, HEADER.size))
        last = next_item - 1
        if end_offset <= 0 or last < 1:
            return None
        for place in _places_of(file, end_offset.to_bytes(8, "big"), length):
            begin = place - _OFFSET_IN_ITEM - ITEM_BYTES * last
            slots, odd = divmod(begin - HEADER.size, SLOT_BYTES)
            items, rest = divmod(length - begin, ITEM_BYTES)
            if not odd and not rest and slots > 0 and items >= next_item:
                key_hash = int.from_bytes(file.read_at(place - _OFFSET_IN_ITEM, 4), "big")
                slot = HEADER.size + SLOT_BYTES * (key_hash % slots)
                newest = int.from_bytes(file.read_at(slot, SLOT_BYTES), "big")
                if newest == last and length == index_file_bytes(slots, items):
                    return slots, items
        return None
    finally:
        file.close()


def _places_of(file: OpenFile, wanted: bytes, length: int) -> Iterator[int]:
    """Positions of some bytes in a file, behind its header."""
    for start in range(HEADER.size, length, _CHUNK_BYTES):
        size = min(_CHUNK_BYTES + len(wanted) - 1, length - start)
        chunk = file.read_at(start, size)
        found = chunk.find(wanted)
        while found >= 0:
            yield start + found
            found = chunk.find(wanted, found + 1)
