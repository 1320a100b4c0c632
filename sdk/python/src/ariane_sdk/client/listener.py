"""The application's function that gets messages: a coroutine function, or a plain one."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Final, TypeAlias, cast

from ariane_sdk.message import ReceivedMessage
from ariane_sdk.runtime.application_calls import as_failure, for_thread

Listener: TypeAlias = (
    Callable[[list[ReceivedMessage]], Awaitable[None]] | Callable[[list[ReceivedMessage]], None]
)
"""Called with messages of one queue, in order. Returns None when all are done; raises if they
failed."""

LOOK_S: Final = 10.0
"""Interval of looks whether a listener stands still."""

STANDSTILL_S: Final = 60.0
"""After this long without progress a standstill is logged, and again after twice as long."""

Deliver: TypeAlias = Callable[[Sequence[ReceivedMessage]], Awaitable[None]]


class ListenerCalls:
    """Calls a listener on the event loop or in threads."""

    def __init__(self, listener: Listener, *, threads: int) -> None:
        """A coroutine function runs on the loop; any other function in this many threads."""
        self._pool: ThreadPoolExecutor | None = None
        self._call: Callable[[list[ReceivedMessage]], Awaitable[object]]
        if is_coroutine_function(listener):
            self._call = cast("Callable[[list[ReceivedMessage]], Awaitable[object]]", listener)
        else:
            self._plain = for_thread(cast("Callable[[list[ReceivedMessage]], object]", listener))
            self._pool = ThreadPoolExecutor(threads, thread_name_prefix="ariane-listener")
            self._call = self._deliver_in_thread

    async def deliver(self, messages: Sequence[ReceivedMessage]) -> None:
        """Call the listener with messages.

        If the listener raises CancelledError although this call was not cancelled, a task that it
        waited for was cancelled. That is a failure like others.

        Raises:
            TypeError: The listener returned something else than None.
            RuntimeError: The listener raised CancelledError by itself, or an error that is no
                ``Exception``.
            SystemExit: The listener called ``sys.exit()``.
            Exception: Any error of the listener.
        """
        try:
            outcome = await self._call(messages if isinstance(messages, list) else list(messages))
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise RuntimeError("what the listener waited for was cancelled") from error
        except (Exception, SystemExit, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            raise as_failure(error) from error
        if outcome is not None:
            # RocketMQ's listeners say by a value whether they failed, and are not obeyed here.
            raise TypeError(
                f"the listener returned {outcome!r:.100}: it must return None when its messages are"
                " done, and raise an error when they failed"
            )

    async def _deliver_in_thread(self, messages: list[ReceivedMessage]) -> object:
        run = copy_context().run
        loop = asyncio.get_running_loop()
        outcome = await loop.run_in_executor(self._pool, run, self._plain, messages)
        return await outcome if inspect.isawaitable(outcome) else outcome

    def close(self) -> None:
        """Accept no more calls; does not wait for threads that are still in the listener."""
        if self._pool is not None:
            self._pool.shutdown(wait=False)


def is_coroutine_function(listener: object) -> bool:
    """Whether calls of a listener have to be awaited."""
    return inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(
        getattr(listener, "__call__", None)  # noqa: B004 - objects with `async def __call__`.
    )
