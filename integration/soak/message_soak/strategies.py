"""Which consumer groups the soak has, and how each shares its queues."""

from __future__ import annotations

from typing import Final

from ariane_sdk import AllocationStrategy, Averaging, CircularAveraging, ConsistentHash, Sticky

GROUPS: Final = (
    "ordered-averaging",
    "ordered-sticky",
    "averaging",
    "circular",
    "consistent-hash",
    "receiving",
)
"""Two consume in order under locks, three do not; the last owns no queues."""


def strategy_of(group: str) -> AllocationStrategy:
    """The strategy of a group: one for all its members."""
    if "sticky" in group:
        return Sticky()
    if "circular" in group:
        return CircularAveraging()
    if "hash" in group:
        return ConsistentHash()
    return Averaging()
