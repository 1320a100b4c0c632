"""Records of the log that begin with a text at some place, found by column."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ariane_storage.log.records.fields import FieldColumn, Int64s


def starts_with(buffer: memoryview, starts: Int64s, ends: Int64s, prefix: str) -> NDArray[np.bool_]:
    """Where a text begins with a prefix: bool[count].

    Args:
        buffer: Where the texts lie.
        starts: Of each text.
        ends: Of the record of each, which it does not reach beyond.
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
