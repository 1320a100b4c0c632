"""A stream that is given up when its sender no longer answers: after silence, another call asks.

The connections of a frozen process stay open. gRPC notices after 40 s, by its keepalive; a deadline
for the whole stream would hit large ranges, slow brokers and slow readers. So only the wait for the
next answer is limited, and silence alone does not end the stream::

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
    """The answers of one streaming call to a service that must stay alive."""

    def __init__(
        self,
        call: UnaryStreamCall[Any, Answer],
        ask: Callable[[], Awaitable[object]],
        *,
        silence_s: float,
    ) -> None:
        """``ask`` makes a small call to the same service, with a deadline, after ``silence_s``."""
        self._call = call
        self._answers: AsyncIterator[Answer] = aiter(call)
        self._ask = ask
        self._silence_s = silence_s
        self._loop = asyncio.get_running_loop()
        self._watch: asyncio.Task[None] | None = None
        self._silence: CallError | None = None

    async def next(self) -> Answer | None:
        """Return the next answer; None at the end.

        Raises:
            AioRpcError: The call ended with an error.
            CallError: The service was silent for long and did not answer the small call.
        """
        # A timer for each answer and a task only for late ones: that costs next to nothing.
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
        """Ask the service until an answer comes; give the stream up when it does not answer."""
        while True:
            try:
                await self._ask()
            except ArianeError as error:
                if isinstance(error, CallError) and error.unanswered:
                    self._silence = error
                    self._call.cancel()
                    return
            await asyncio.sleep(self._silence_s)
