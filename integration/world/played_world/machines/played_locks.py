"""Locks between the loop and the threads of one process, which are greenlets here."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING

from greenlet import getcurrent, greenlet

if TYPE_CHECKING:
    from played_world.world import World


class PlayedLock:
    """A lock that may be taken again by its holder, or not."""

    def __init__(self, world: World, *, is_reentrant: bool) -> None:
        self._world = world
        self._is_reentrant = is_reentrant
        self._holder: greenlet | None = None
        self._depth = 0
        self._waiting: deque[Callable[[], None]] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock, or wait until it is free."""
        del timeout
        me = getcurrent()
        while self._holder is not None and not (self._is_reentrant and self._holder is me):
            process = self._world.running
            if not blocking:
                return False
            if process is None or self._holder is me:
                raise RuntimeError("a lock that nobody will free")
            self._waiting.append(process.park())
            process.wait_parked()
        self._holder = me
        self._depth += 1
        return True

    def release(self) -> None:
        """Give the lock back."""
        self._depth -= 1
        if not self._depth:
            self._holder = None
            if self._waiting:
                self._waiting.popleft()()

    def locked(self) -> bool:
        """Whether somebody holds it."""
        return self._holder is not None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def played_threading(world: World) -> SimpleNamespace:
    """What modules are to find in place of ``threading``."""
    names = {name: getattr(threading, name) for name in threading.__all__}
    names["Lock"] = lambda: PlayedLock(world, is_reentrant=False)
    names["RLock"] = lambda: PlayedLock(world, is_reentrant=True)
    return SimpleNamespace(**names)
