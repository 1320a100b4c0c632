"""Work that is done for all who wait for it together, turn after turn.

While one turn is under way others come to wait; the next turn is theirs, all at once. Who asked may
stop waiting: what has begun is done to the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeAlias, TypeVar

AskedT = TypeVar("AskedT")
ToldT = TypeVar("ToldT")

Waiting: TypeAlias = tuple[AskedT, "asyncio.Future[ToldT]"]
"""What somebody asked for, and how to tell."""


class SharedTurns(Generic[AskedT, ToldT]):
    """The turns of one kind of work."""

    def __init__(
        self,
        lock: asyncio.Lock,
        work: Callable[[Sequence[Waiting[AskedT, ToldT]]], Awaitable[None]],
    ) -> None:
        """Have nobody wait.

        Args:
            lock: Held during each turn; other work may need it, too.
            work: Does what they asked for, and tells each; what it raises is told to the others.
        """
        self._lock = lock
        self._work = work
        self._waiting: list[Waiting[AskedT, ToldT]] = []
        self._running: asyncio.Task[None] | None = None

    async def ask(self, asked: AskedT) -> ToldT:
        """Wait for the end of the next turn, and for what is told of it."""
        told: asyncio.Future[ToldT] = asyncio.get_running_loop().create_future()
        # Told to nobody where the one who asked has gone.
        told.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._waiting.append((asked, told))
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run())
        return await asyncio.shield(told)

    async def _run(self) -> None:
        while self._waiting:
            async with self._lock:
                waiting, self._waiting = self._waiting, []
                try:
                    await self._work(waiting)
                except Exception as error:  # noqa: BLE001 - whatever it is, they must be told.
                    for _, told in waiting:
                        if not told.done():
                            told.set_exception(error)
