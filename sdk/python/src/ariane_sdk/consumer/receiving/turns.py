"""Turns: how many full answers of one broker are on their way to this process at a time.

Many consumers of one process that ask at once would all be answered at once, each a little at a
time: memory for all answers, and none of them ready. One after the other, the first is worked on
while the next is on its way.
"""

from __future__ import annotations

import asyncio
from typing import Final
from weakref import WeakKeyDictionary, WeakValueDictionary

TURNS: Final = 2
"""While one answer is read, the broker has the next question."""

_of_loops: Final[
    WeakKeyDictionary[asyncio.AbstractEventLoop, WeakValueDictionary[str, asyncio.Semaphore]]
] = WeakKeyDictionary()


def turn_at(address: str) -> asyncio.Semaphore:
    """What to hold while a broker is asked that answers at once.

    Shared by all consumers on the running loop. Calls that are held do not count: nobody knows
    when they are answered.

    Args:
        address: The broker.
    """
    turns = _of_loops.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
    turn = turns.get(address)
    if turn is None:
        turn = turns[address] = asyncio.Semaphore(TURNS)
    return turn
