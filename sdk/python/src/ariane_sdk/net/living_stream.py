"""A stream whose sender must live: one that sends nothing for long is asked something else.

A process that is frozen keeps its connections. gRPC notices after 40 s, by its keepalive, and a
deadline for a whole range would hit large ones, slow brokers, and readers that take their time.
So only the wait for the next answer counts, and silence alone proves nothing either::

    next() -----------------+ silence_s ------+ as long as a call may take
                            |                 |
                            is it alive?      no answer to this either: the stream is given up
                                              any answer, also a refusal: wait for as long again
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Generic, TypeVar

from grpc.aio import UnaryStreamCall

from ariane_sdk.errors import ArianeError, CallError
from ariane_sdk.runtime.tasks import start_task

Answer = TypeVar("Answer")


class LivingStream(Generic[Answer]):
    """The answers of one call, of a service that must live meanwhile."""

    def __init__(
        self,
        call: UnaryStreamCall[Any, Answer],
        ask: Callable[[], Awaitable[object]],
        *,
        silence_s: float,
    ) -> None:
        """Read nothing yet.

        Args:
            call: The call.
            ask: Asks the same service for something small, with a deadline.
            silence_s: For how long it may send nothing before it is asked.
        """
        self._call = call
        self._answers: AsyncIterator[Answer] = aiter(call)
        self._ask = ask
        self._silence_s = silence_s
        self._loop = asyncio.get_running_loop()
        self._watch: asyncio.Task[None] | None = None
        self._silence: CallError | None = None

    async def next(self) -> Answer | None:
        """The next answer; nothing at the end.

        Raises:
            AioRpcError: The call ended with an error.
            CallError: The service has sent nothing for long, and does not live.
        """
        # A timer for each answer, and a task only where one is late: that costs next to nothing.
        timer = self._loop.call_later(self._silence_s, self._begin_to_watch)
        try:
            return await anext(self._answers, None)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._silence is None or (task is not None and task.cancelling()):
                raise
            raise self._silence from None
        finally:
            timer.cancel()
            if self._watch is not None:
                self._watch.cancel()
                self._watch = None

    def _begin_to_watch(self) -> None:
        self._watch = start_task(self._watch_life(), "silence")

    async def _watch_life(self) -> None:
        """Ask the service until an answer comes; give the stream up when it does not live."""
        while True:
            try:
                await self._ask()
            except ArianeError as error:
                if isinstance(error, CallError) and error.unanswered:
                    self._silence = error
                    self._call.cancel()
                    return
            await asyncio.sleep(self._silence_s)
