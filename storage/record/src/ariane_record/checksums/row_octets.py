"""Texts of one length as rows of octets, most of which are equal in all rows."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

_FEW: Final = 16


def differing_places(rows: NDArray[np.uint8]) -> list[int]:
    """The places at which rows have different octets, ascending.

    Args:
        rows: uint8[n, length], contiguous, n at least 1.
    """
    length = rows.shape[1]
    octets = rows.reshape(-1)
    # Each row is compared with the next one, then halves are combined: numpy is faster along a
    # long array than across.
    differing = (octets[length:] ^ octets[:-length]).reshape(-1, length)
    while len(differing) > _FEW:
        half = (len(differing) + 1) // 2
        differing = differing[:half] | differing[-half:]
    places: list[int] = np.flatnonzero(np.bitwise_or.reduce(differing, axis=0)).tolist()
    return places
