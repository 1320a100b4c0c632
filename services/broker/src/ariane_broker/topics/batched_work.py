"""Work that is done for all waiting requests together, batch by batch.

Requests that arrive while a batch is worked on make the next one. A request may be cancelled: a
batch that has begun is done to its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeAlias, TypeVar

RequestT = TypeVar("RequestT")
ResultT = TypeVar("ResultT")

Waiting: TypeAlias = tuple[RequestT, "asyncio.Future[ResultT]"]
"""A request, and the future of its result."""


class BatchedWork(Generic[RequestT, ResultT]):
    """Batches of one kind of work."""

    def __init__(
        self,
        lock: asyncio.Lock,
        work: Callable[[Sequence[Waiting[RequestT, ResultT]]], Awaitable[None]],
    ) -> None:
        """Start without requests.

        ``lock`` is held during each batch; other work may need it, too. ``work`` does the requests,
        and sets each result; its error is raised for the others.
        """
        self._lock = lock
        self._work = work
        self._waiting: list[Waiting[RequestT, ResultT]] = []
        self._running: asyncio.Task[None] | None = None

    async def do(self, request: RequestT) -> ResultT:
        """Wait until a batch with the request is done; return the result."""
        future: asyncio.Future[ResultT] = asyncio.get_running_loop().create_future()
        # The result of a cancelled request is never read.
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
                except Exception as error:  # noqa: BLE001 - any error is raised for the waiting requests.
                    for _, future in waiting:
                        if not future.done():
                            future.set_exception(error)
