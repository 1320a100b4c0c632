"""Turns: the limit of full answers of one broker on their way to this process at a time.

If many consumers of one process asked at once, all answers would arrive in parallel, each slowly:
they would need memory for all, and none would be ready. In turns, the first answer is processed
while the next is on its way.
"""

from __future__ import annotations

import asyncio
from typing import Final
from weakref import WeakKeyDictionary, WeakValueDictionary

TURNS: Final = 2
"""While one answer is read, the broker works on the next request."""

_of_loops: Final[
    WeakKeyDictionary[asyncio.AbstractEventLoop, WeakValueDictionary[str, asyncio.Semaphore]]
] = WeakKeyDictionary()


def turn_at(address: str) -> asyncio.Semaphore:
    """The semaphore to hold during a call that the broker answers at once.

    Shared by all consumers on the running loop. Held calls do not use it: the time of their answer
    is unknown.
    """
    turns = _of_loops.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
    turn = turns.get(address)
    if turn is None:
        turn = turns[address] = asyncio.Semaphore(TURNS)
    return turn
