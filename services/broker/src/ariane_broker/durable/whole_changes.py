"""Changes of disk and memory that a cancelled caller does not cut in half."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


async def make_whole(
    lock: asyncio.Lock, change: Callable[[], Coroutine[Any, Any, ResultT]]
) -> ResultT:
    """Make a change under a lock, to its end even if the caller is cancelled.

    A caller that is cancelled while it waits for the lock has changed nothing.

    Args:
        lock: Held until the change is made.
        change: Makes it.
    """
    await lock.acquire()
    making = asyncio.ensure_future(change())

    def made(_: object) -> None:
        lock.release()
        if not making.cancelled():
            making.exception()  # It is the waiting caller's, which may have gone.

    making.add_done_callback(made)
    return await asyncio.shield(making)
