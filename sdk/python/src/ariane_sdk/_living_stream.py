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

from ariane_sdk.errors import CallError, DeadlinePassed, ServiceUnavailable

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
        self._answers: AsyncIterator[Answer] = aiter(call)
        self._ask = ask
        self._silence_s = silence_s

    async def next(self) -> Answer | None:
        """The next answer; nothing at the end.

        Raises:
            AioRpcError: The call ended with an error.
            CallError: The service has sent nothing for long, and does not live.
        """
        reading = asyncio.ensure_future(self._read())
        try:
            while not (await asyncio.wait((reading,), timeout=self._silence_s))[0]:
                await self._check_life(reading)
            return reading.result()
        finally:
            reading.cancel()

    async def _read(self) -> Answer | None:
        return await anext(self._answers, None)

    async def _check_life(self, reading: asyncio.Future[Answer | None]) -> None:
        """Ask the service, which has been silent for long.

        Raises:
            CallError: It does not answer, and nothing has come meanwhile.
        """
        try:
            await self._ask()
        except CallError as error:
            if is_silence(error) and not reading.done():
                raise


def is_silence(error: CallError) -> bool:
    """Whether a call ended so because nobody answered. A service that refuses it has answered."""
    if isinstance(error, ServiceUnavailable):
        return error.reason == ServiceUnavailable.reason
    return isinstance(error, DeadlinePassed)
