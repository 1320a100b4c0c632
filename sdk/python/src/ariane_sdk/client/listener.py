"""The application's function that gets messages: a coroutine function, or a plain one."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeAlias

from ariane_sdk.message import ReceivedMessage

Listener: TypeAlias = (
    Callable[[Sequence[ReceivedMessage]], Awaitable[None]]
    | Callable[[Sequence[ReceivedMessage]], None]
)
"""Gets messages of one queue, in order. Returns when done with all; raises if they failed."""

Deliver: TypeAlias = Callable[[Sequence[ReceivedMessage]], Awaitable[None]]


class ListenerCalls:
    """Calls a listener in its own way."""

    def __init__(self, listener: Listener, *, threads: int) -> None:
        """Look at the listener.

        Args:
            listener: A coroutine function runs on the loop; anything else in threads.
            threads: How many.
        """
        self._pool: ThreadPoolExecutor | None = None
        self._call: Deliver
        if is_coroutine_function(listener):
            self._call = listener  # type: ignore[assignment]
        else:
            self._plain = listener
            self._pool = ThreadPoolExecutor(threads, thread_name_prefix="ariane-listener")
            self._call = self._deliver_in_thread

    async def deliver(self, messages: Sequence[ReceivedMessage]) -> None:
        """Have the listener work on messages.

        A cancellation that comes out of the listener, where nobody cancelled this call, is a
        failure like others: a task that the listener waited for was cancelled.

        Raises:
            RuntimeError: That happened.
            Exception: Whatever the listener raises.
        """
        try:
            await self._call(messages)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise RuntimeError("what the listener waited for was cancelled") from error

    async def _deliver_in_thread(self, messages: Sequence[ReceivedMessage]) -> None:
        run = copy_context().run
        loop = asyncio.get_running_loop()
        outcome = await loop.run_in_executor(self._pool, run, self._plain, messages)
        if inspect.isawaitable(outcome):
            await outcome

    def close(self) -> None:
        """Take no more calls; does not wait for threads that are still in the listener."""
        if self._pool is not None:
            self._pool.shutdown(wait=False)


def is_coroutine_function(listener: object) -> bool:
    """Whether a call of it is to be awaited."""
    return inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(
        getattr(listener, "__call__", None)  # noqa: B004 - objects with `async def __call__`.
    )
