"""Threads of a process, played one piece of work after the other in virtual time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from played_world.machines.played_database import DatabaseWay
    from played_world.machines.process import Process

HAND_OVER_S: Final = (10e-6, 500e-6)
"""Until a thread begins with what it was given, and until the loop hears of its end."""

_T = TypeVar("_T")


class PlayedThreads(Executor):
    """An executor of a played process."""

    def __init__(self, process: Process, count: int, way: DatabaseWay | None = None) -> None:
        """``way``: what its work goes through, if that is calls of a database."""
        self._process = process
        self._way = way
        self._idle = count
        self._waiting: deque[Callable[[], None]] = deque()
        self._busy = 0
        self._is_shut = False
        self._on_idle: list[Callable[[], None]] = []

    def call(self, work: Callable[..., Any], given: tuple[Any, ...]) -> asyncio.Future[Any]:
        """Let a thread work; the future is the loop's."""
        if self._is_shut:
            raise RuntimeError("cannot schedule new futures after shutdown")
        done: asyncio.Future[Any] = self._process.loop.create_future()

        def run() -> None:
            if done.cancelled():
                return
            try:
                if self._way is None:
                    result = work(*given)
                else:
                    result = self._way.call(self._process, partial(work, *given))
            except Exception as error:  # noqa: BLE001 - whoever waits gets it.
                self._tell(done, None, error)
            else:
                self._tell(done, result, None)

        self._put(run)
        return done

    def submit(self, fn: Callable[..., _T], /, *args: Any, **kwargs: Any) -> Future[_T]:
        """Let a thread work.

        Raises:
            RuntimeError: It was shut down.
        """
        if self._is_shut:
            raise RuntimeError("cannot schedule new futures after shutdown")
        done: Future[_T] = Future()

        def run() -> None:
            if not done.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - whoever waits gets it.
                done.set_exception(error)
            else:
                done.set_result(result)

        self._put(run)
        return done

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more work, and wait for what there is."""
        self._is_shut = True
        if cancel_futures:
            self._waiting.clear()
        while wait and (self._busy or self._waiting):
            self._on_idle.append(self._process.park())
            self._process.wait_parked()

    def _tell(self, done: asyncio.Future[Any], result: object, error: Exception | None) -> None:
        def tell() -> None:
            if done.done():
                return
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(result)

        loop = self._process.loop
        self._process.world.timeline.after(self._hand_over_s(), loop.call_soon_threadsafe, tell)

    def _hand_over_s(self) -> float:
        low, high = HAND_OVER_S
        world = self._process.world
        return (low + (high - low) * world.scheduling.random()) * self._process.slowness

    def _put(self, work: Callable[[], None]) -> None:
        self._waiting.append(work)
        self._process.world.timeline.after(self._hand_over_s(), self._begin)

    def _begin(self) -> None:
        if not self._idle or not self._waiting or self._process.is_dead:
            return
        self._idle -= 1
        self._busy += 1
        work = self._waiting.popleft()

        def run() -> None:
            try:
                work()
            finally:
                self._end()

        self._process.run_in_thread(run)

    def _end(self) -> None:
        self._idle += 1
        self._busy -= 1
        if self._waiting:
            self._process.world.timeline.after(self._hand_over_s(), self._begin)
        elif not self._busy:
            waiting, self._on_idle = self._on_idle, []
            for wake in waiting:
                wake()
