"""Finds by column which texts in the log begin with a prefix."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ariane_storage.log.records.fields import FieldColumn, Int64s


def starts_with(buffer: memoryview, starts: Int64s, ends: Int64s, prefix: str) -> NDArray[np.bool_]:
    """Where a text begins with a prefix: bool[count].

    Args:
        buffer: The memory of the texts.
        starts: Start of each text.
        ends: End of the record of each text, which bounds it.
        prefix: ASCII.
    """
    wanted = prefix.encode()
    found: NDArray[np.bool_] = ends - starts >= len(wanted)
    rows = np.flatnonzero(found)
    if len(rows):
        kind = f"V{len(wanted)}"
        begins = FieldColumn(buffer, kind, starts[rows], stride=0).get()
        found[rows] = begins == np.frombuffer(wanted, kind)
    return found
