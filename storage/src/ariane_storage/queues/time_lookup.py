"""Finding a queue offset by time: binary search over store timestamps, exact to the millisecond."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class TimeBoundary(StrEnum):
    """Which message to choose around a time."""

    LOWER = "lower"
    """The first message stored at or after the time; the end of the queue if there is none."""
    UPPER = "upper"
    """The last message stored at or before the time; the oldest kept if there is none."""


def find_by_time(
    begin: int,
    end: int,
    timestamp_ms: int,
    boundary: TimeBoundary,
    *,
    stored_at: Callable[[int], int | None],
    next_message: Callable[[int, int], int],
    last_message: Callable[[int, int], int],
) -> int:
    """The queue offset of a time.

    Args:
        begin: The oldest queue offset that is kept.
        end: Behind the newest one that may be read.
        timestamp_ms: The time.
        boundary: Which message to choose.
        stored_at: Store timestamp of a queue offset, growing with it; None for a hole.
        next_message: The first queue offset of a range that is no hole, or its end.
        last_message: The last queue offset of a range that is no hole, or the one before it.
    """
    if boundary is TimeBoundary.LOWER:
        found = _first_from(begin, end, timestamp_ms, stored_at, next_message)
        while found < end and stored_at(found) is None:
            found = next_message(found + 1, end)
        return found
    found = _first_from(begin, end, timestamp_ms + 1, stored_at, next_message) - 1
    while found > begin and stored_at(found) is None:
        found = last_message(begin, found)
    return max(found, begin)


def _first_from(
    begin: int,
    end: int,
    timestamp_ms: int,
    stored_at: Callable[[int], int | None],
    next_message: Callable[[int, int], int],
) -> int:
    """The first queue offset stored at or after a time; holes before it count as earlier."""
    low, high = begin, end
    while low < high:
        middle = (low + high) // 2
        probe = middle
        stored = stored_at(probe)
        while stored is None and (following := next_message(probe + 1, high)) < high:
            probe = following
            stored = stored_at(probe)
        if stored is None or stored >= timestamp_ms:
            # Holes up to ``high`` belong to the next real entry: look below them.
            high = middle
        else:
            low = probe + 1
    return low
