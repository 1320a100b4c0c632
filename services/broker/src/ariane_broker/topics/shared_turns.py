"""Work that is done for all who wait for it together, turn after turn.

While one turn is under way others come to wait; the next turn is theirs, all at once. Who asked may
stop waiting: what has begun is done to the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeAlias, TypeVar

RequestT = TypeVar("RequestT")
ResultT = TypeVar("ResultT")

Waiting: TypeAlias = tuple[RequestT, "asyncio.Future[ResultT]"]
"""What somebody asked for, and the future of its result."""


class SharedTurns(Generic[RequestT, ResultT]):
    """The turns of one kind of work."""

    def __init__(
        self,
        lock: asyncio.Lock,
        work: Callable[[Sequence[Waiting[RequestT, ResultT]]], Awaitable[None]],
    ) -> None:
        """Have nobody wait.

        Args:
            lock: Held during each turn; other work may need it, too.
            work: Does what they asked for, and sets each result; what it raises goes to the others.
        """
        self._lock = lock
        self._work = work
        self._waiting: list[Waiting[RequestT, ResultT]] = []
        self._running: asyncio.Task[None] | None = None

    async def ask(self, request: RequestT) -> ResultT:
        """Wait for the next turn to do it; returns the result."""
        future: asyncio.Future[ResultT] = asyncio.get_running_loop().create_future()
        # Nobody reads the result where the one who asked has gone.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._waiting.append((request, future))
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run())
        return await asyncio.shield(future)

    async def _run(self) -> None:
        while self._waiting:
            async with self._lock:
                waiting, self._waiting = self._waiting, []
                try:
                    await self._work(waiting)
                except Exception as error:  # noqa: BLE001 - whatever it is, those who wait get it.
                    for _, future in waiting:
                        if not future.done():
                            future.set_exception(error)
