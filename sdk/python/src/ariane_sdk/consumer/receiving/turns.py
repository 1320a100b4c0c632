"""Turns of a process's consumers at a broker that answers at once.

Few full answers of one broker are on their way to a process. If many consumers of a process asked
at once, all answers would arrive in parallel, each slowly: they would need memory for all, and none
would be ready. In turns, the first is processed while the next is on its way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final
from weakref import WeakKeyDictionary, WeakValueDictionary

TURNS: Final = 2
"""While one answer is read, the broker works on the next request."""


class Turns:
    """The turns at one broker."""

    def __init__(self) -> None:
        self._count = 0
        self._waiting: dict[Callable[[], None], None] = {}

    def take(self, begin: Callable[[], None]) -> None:
        """Call a function when it has its turn, at once if there is one; ``end`` ends the turn.

        It may not raise: it is called for a consumer that may be another one.
        """
        if self._count < TURNS and not self._waiting:
            self._count += 1
            begin()
        else:
            self._waiting[begin] = None

    def forget(self, begin: Callable[[], None]) -> None:
        """Call a function no more."""
        self._waiting.pop(begin, None)

    def end(self, _: object = None) -> None:
        """A turn is over: the next one begins in the next turn of the loop.

        Not now: calls that fail at once would end turns within turns, without bound.
        """
        self._count -= 1
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._begin_next)

    def _begin_next(self) -> None:
        if self._waiting and self._count < TURNS:
            begin = next(iter(self._waiting))
            del self._waiting[begin]
            self._count += 1
            begin()


_of_loops: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, WeakValueDictionary[str, Turns]]] = (
    WeakKeyDictionary()
)


def turns_at(address: str) -> Turns:
    """The turns at the broker of an address, shared by all consumers on the running loop.

    Held calls do without: the time of their answer is unknown.
    """
    of_loop = _of_loops.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
    turns = of_loop.get(address)
    if turns is None:
        turns = of_loop[address] = Turns()
    return turns
