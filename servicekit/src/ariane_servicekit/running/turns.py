"""Long work in short turns of the event loop.

Work that looks at many things, such as entries, queues, groups or records, is an iterator that
yields once for each thing that it has examined: a result, or None. Other tasks run after every
``EXAMINED_MAX`` of them, and after ``TURN_S_MAX``, so one question of a client never holds up all
other clients::

    loop    | 64 things | a send | a pull | 64 things | a send | 30 things |

What the work looks at may change between two turns: it iterates over copies of tables.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final, TypeVar

EXAMINED_MAX: Final = 64
"""Things examined in one turn of the loop: a microsecond for an entry of the index, some 30 for a
queue whose newest message is read, or for a message that is translated."""

TURN_S_MAX: Final = 0.0005
"""Seconds of one turn, by the clock of the loop: what is examined may be slow, and a call of
another client takes several passes of the loop."""

ResultT = TypeVar("ResultT")


async def in_turns(work: Iterable[ResultT | None]) -> list[ResultT]:
    """Do work in turns, and return its results."""
    clock = asyncio.get_running_loop().time
    found = []
    examined, end_s = 0, clock() + TURN_S_MAX
    for result in work:
        if result is not None:
            found.append(result)
        examined += 1
        if examined >= EXAMINED_MAX or clock() >= end_s:
            await asyncio.sleep(0)
            examined, end_s = 0, clock() + TURN_S_MAX
    return found


def at_once(work: Iterable[ResultT | None]) -> list[ResultT]:
    """Do work in a single turn: where no loop runs, or little is to be done."""
    return [result for result in work if result is not None]
