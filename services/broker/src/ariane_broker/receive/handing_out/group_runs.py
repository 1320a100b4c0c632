"""Messages of one message group that are handed out together, in their order.

A client that works on messages one after the other may get several of a message group at once. It
gets none behind one that it cannot get: in the hands of a consumer, not visible yet, or without
attempts left. In a queue with messages of the groups a and b, of which the second of a is held::

    a1  b1  a2  b2  a3      a2 is held
    x   x       x           a1, b1 and b2 are handed out; a3 waits for a2
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ariane_broker.receive.in_hand.queue_window import KEY_NONE
from ariane_storage.log.records.fields import Int64s


def rows_in_turn(keys: Int64s, free: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Rows that may be handed out, ascending: free ones without a row before them that is not.

    Args:
        keys: The message group of each row of a queue, in their order.
        free: Whether each may be handed out as such.
    """
    mask = free & (keys == KEY_NONE)
    grouped = np.flatnonzero(keys != KEY_NONE)
    rows = grouped[np.argsort(keys[grouped], kind="stable")]
    stops = np.cumsum(~free[rows])
    begins = _begins(keys[rows])
    before: Int64s = stops[begins] - ~free[rows[begins]]
    mask[rows[stops == before[_numbers(begins, len(rows))]]] = True
    return np.flatnonzero(mask)


def as_low_as_before(keys: Int64s, priorities: Int64s) -> Int64s:
    """Priorities by which no message overtakes an earlier one of its message group.

    Args:
        keys: The message group of each message, in their order.
        priorities: Its priority.

    Returns:
        For each the lowest of its message group so far; its own where it has no group.
    """
    lowest = priorities.copy()
    grouped = np.flatnonzero(keys != KEY_NONE)
    at = grouped[np.argsort(keys[grouped], kind="stable")]
    known, ranks = np.unique(priorities[at], return_inverse=True)
    numbers = _numbers(_begins(keys[at]), len(at))
    # Each group lies below the one before it, so that the lowest so far is of the group itself.
    floors = -numbers * (len(known) + 1)
    lowest[at] = known[np.minimum.accumulate(ranks + floors) - floors]
    return lowest


def _begins(keys: Int64s) -> NDArray[np.int64]:
    """Where another key begins."""
    if not len(keys):
        return np.empty(0, np.int64)
    return np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))


def _numbers(begins: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The number of the stretch in which each of so many lies."""
    return np.repeat(np.arange(len(begins)), np.diff(np.append(begins, count)))
