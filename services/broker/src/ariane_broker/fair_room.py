"""Who gives up how much of a full table: whoever has most, down to one level for all of these."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import TypeVar

Owner = TypeVar("Owner")


def given_up(counts: Mapping[Owner, int], wanted: int) -> dict[Owner, int]:
    """How many entries each owner gives up so that at least so many go; none loses below the level.

    Args:
        counts: How many entries each has.
        wanted: How many are to go, at most as many as there are.
    """
    largest = sorted(counts, key=counts.__getitem__, reverse=True)
    held = [counts[owner] for owner in largest]
    sums = accumulate(held)
    for number, (total, below) in enumerate(zip(sums, [*held[1:], 0], strict=True), 1):
        if total - number * below >= wanted:
            level = (total - wanted) // number
            return {
                owner: count - level
                for owner, count in zip(largest[:number], held, strict=False)
                if count > level
            }
    return dict(counts)
