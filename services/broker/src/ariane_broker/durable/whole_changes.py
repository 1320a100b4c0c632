"""Changes that are made whole: what is on the disk is in memory, whoever has gone meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


async def make_whole(
    lock: asyncio.Lock, change: Callable[[], Coroutine[Any, Any, ResultT]]
) -> ResultT:
    """Make a change under a lock, to its end even if the caller is cancelled.

    Whoever is cancelled while waiting for the lock has changed nothing.

    Args:
        lock: Held until the change is made.
        change: Makes it.
    """
    await lock.acquire()
    making = asyncio.ensure_future(change())

    def made(_: object) -> None:
        lock.release()
        if not making.cancelled():
            making.exception()  # Whoever waits gets it; it may have gone.

    making.add_done_callback(made)
    return await asyncio.shield(making)
