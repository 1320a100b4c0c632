"""Coroutines that run at once, up to their first wait.

A handler that finds its answer without waiting is done before anybody made a task for it. One that
waits becomes a task that goes on from there. While its first part runs, a stand-in is the current
task, so that ``asyncio.timeout`` and ``asyncio.TaskGroup`` work; asyncio has functions for such
tasks of third parties (``asyncio._enter_task``).
"""

from __future__ import annotations

import asyncio
import types
from asyncio import _enter_task, _leave_task, current_task
from collections.abc import Coroutine, Generator
from contextvars import Context
from typing import Any, cast


class StandIn:
    """Stands for a task that is not made yet; passes on to it once it is."""

    __slots__ = ("__weakref__", "_cancels", "_coroutine", "_task")

    def __init__(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._coroutine = coroutine
        self._task: asyncio.Task[None] | None = None
        self._cancels = 0

    def become(self, task: asyncio.Task[None]) -> None:
        """The task is made."""
        self._task = task
        for _ in range(self._cancels):
            task.cancel()

    def cancel(self, msg: object = None) -> bool:
        """Cancel at the next wait."""
        if self._task is not None:
            return self._task.cancel(msg)
        self._cancels += 1
        return True

    def cancelling(self) -> int:
        """How often it was cancelled."""
        return self._cancels if self._task is None else self._task.cancelling()

    def uncancel(self) -> int:
        """Take one cancellation back."""
        if self._task is not None:
            return self._task.uncancel()
        self._cancels = max(0, self._cancels - 1)
        return self._cancels

    def done(self) -> bool:
        """Whether the task is done."""
        return self._task is not None and self._task.done()

    def get_name(self) -> str:
        """A name for logs."""
        return "ariane-wire-call" if self._task is None else self._task.get_name()

    def get_coro(self) -> Coroutine[Any, Any, None]:
        """What runs."""
        return self._coroutine

    def __getattr__(self, name: str) -> Any:
        """Whatever else a task has: of the task."""
        return getattr(self._task, name)


def run_prompt(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, None], context: Context
) -> asyncio.Task[None] | None:
    """Run a coroutine; return the task that it becomes if it waits, else None.

    Args:
        loop: The running loop.
        coroutine: It must catch its errors itself.
        context: In which it runs, also later.
    """
    stand_in = StandIn(coroutine)
    current = cast("asyncio.Task[None]", stand_in)
    outer = current_task(loop)
    if outer is not None:
        _leave_task(loop, outer)
    _enter_task(loop, current)
    try:
        waited = context.run(coroutine.send, None)
    except StopIteration:
        return None
    finally:
        _leave_task(loop, current)
        if outer is not None:
            _enter_task(loop, outer)
    resumed = _resumed(coroutine, waited)
    resumed.send(None)
    task = loop.create_task(resumed, name="ariane-wire-call", context=context)
    stand_in.become(task)
    return task


def _cancel(waited: object) -> bool:
    """Cancel what a coroutine waits for, as its task would, which does not know of it yet.

    Returns whether the coroutine hears of that by waiting on.
    """
    if not asyncio.isfuture(waited):
        return False
    if waited.cancel():
        return True
    if not waited.cancelled():
        waited.exception()  # Read here, since the coroutine is not resumed.
    return False


@types.coroutine
def _resumed(coroutine: Coroutine[Any, Any, None], waited: object) -> Generator[Any, Any, None]:
    """Wait for what the coroutine waits for, then go on with it.

    It must be driven to the first ``yield`` before it becomes a task: a task that is cancelled
    before its first step throws into what it runs, and into one that has not begun it would throw
    in vain.
    """
    is_begun = is_waiting = False
    while True:
        try:
            if not is_begun:
                is_begun = True
                yield
            is_waiting = True
            yield waited
        except BaseException as error:  # noqa: BLE001 - it is the coroutine's, as a task would throw it.
            if not is_waiting and isinstance(error, asyncio.CancelledError) and _cancel(waited):
                continue
            try:
                waited = coroutine.throw(error)
            except StopIteration:
                return
        else:
            break
    yield from coroutine
