"""Who reads standard output: work for which output alone counts ends when nobody does any more.

A write tells that a pipe's reader has left. Whoever waits for messages writes nothing for long, and
``ariane topic tail orders | grep -m 1 paid`` would wait with it.
"""

from __future__ import annotations

import asyncio
import select
import sys
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

_LOOK_S: Final = 0.25

_Result = TypeVar("_Result")


async def while_read(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Work until it is done.

    Raises:
        BrokenPipeError: The reader of standard output has left; the work was ended.
    """
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            await asyncio.wait((task,), timeout=_LOOK_S)
            if not task.done() and _has_left():
                raise BrokenPipeError
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def _has_left() -> bool:
    try:
        place = sys.stdout.fileno()
    except OSError:  # It is no file: somebody has replaced it.
        return False
    looking = select.poll()
    looking.register(place, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in looking.poll(0))
