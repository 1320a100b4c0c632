"""A listener at work on received messages: several at a time, each settled when it is done.

::

    message ──> listener ──> settle ──────────────────────> done
                                |  failed, may succeed yet    ^
                                +──> again every second ──────+

Brokers keep a message invisible as long as this consumer runs. One whose settlement never reached
its broker would come to nobody for hours, so settling is tried until the broker has said what
became of the message. Only the first try counts as work: a broker that is away holds up no messages
of others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final, Protocol

from ariane_sdk.client.listener import Listener, ListenerCalls
from ariane_sdk.errors import ArianeError, DeadlinePassed, ReceiptExpired, ServiceUnavailable
from ariane_sdk.message import ReceivedMessage
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.runtime.log import logger
from ariane_sdk.runtime.tasks import start_task

SETTLE_RETRY_S: Final = 1.0
"""Before a message is settled again."""


class Settler(Protocol):
    """Settles messages; the consumer."""

    async def ack(self, *messages: ReceivedMessage) -> None:
        """Messages are done."""

    async def nack(self, *messages: ReceivedMessage, cause: str) -> None:
        """Messages failed."""

    async def extend(self, *messages: ReceivedMessage, seconds: float) -> None:
        """Messages stay invisible for so long from now on."""


class Listening:
    """Has a listener work on messages."""

    def __init__(
        self, listener: Listener, settler: Settler, *, concurrency: int, clock: Clock
    ) -> None:
        """Work on none yet.

        Args:
            listener: Called with one message at a time.
            settler: Settles messages.
            concurrency: So many are in work at a time.
            clock: Paces what is tried again.
        """
        self._calls = ListenerCalls(listener, threads=concurrency)
        self._settler = settler
        self._clock = clock
        self._free = asyncio.Semaphore(concurrency)

    async def run(self, messages: AsyncGenerator[ReceivedMessage]) -> None:
        """Work on messages until there are no more. What they raise comes as it is.

        Whoever cancels this waits until what is in work is given back or settled.
        """
        works: set[asyncio.Task[None]] = set()
        try:
            await self._free.acquire()
            async for message in messages:
                work = start_task(self._work(message), "listener-work")
                works.add(work)
                work.add_done_callback(works.discard)
                await self._free.acquire()
            if works:
                await asyncio.wait(works)
        except BaseException:
            try:
                # First: a call of our own would get what is given back.
                await messages.aclose()
            finally:
                for work in works:
                    work.cancel()
                if works:
                    await asyncio.wait(works)
            raise
        finally:
            self._calls.close()

    async def _work(self, message: ReceivedMessage) -> None:
        try:
            settle = await self._outcome(message)
            settled = await _to_its_end(self._settle(settle, message))
        finally:
            self._free.release()
        while not settled:
            try:
                await self._clock.sleep(SETTLE_RETRY_S)
            finally:
                # Also when this is cancelled, once more.
                settled = await _to_its_end(self._settle(settle, message))

    async def _outcome(self, message: ReceivedMessage) -> Callable[[], Awaitable[None]]:
        """Have the listener work; what settles the message then."""
        try:
            await self._calls.deliver([message])
        except asyncio.CancelledError:
            # As long as this consumer runs it would come to nobody.
            await self._settle(partial(self._settler.extend, message, seconds=0), message)
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the message failed.
            logger.warning("listener failed on %r: %r", message, error)
            return partial(self._settler.nack, message, cause=repr(error))
        return partial(self._settler.ack, message)

    async def _settle(
        self, settle: Callable[[], Awaitable[None]], message: ReceivedMessage
    ) -> bool:
        """Settle a message; whether nothing more can be done about it."""
        try:
            await settle()
        except ReceiptExpired:
            logger.warning("%r took too long: another consumer has it", message)
        except ArianeError as error:
            logger.warning("%r is not settled: %s", message, error)
            away = isinstance(error, ServiceUnavailable | DeadlinePassed)
            return not (away or error.retriable or error.outcome_unknown)
        return True


async def _to_its_end(coroutine: Coroutine[Any, Any, bool]) -> bool:
    """Wait for something that is not to be cut off; being cancelled counts when it has ended."""
    task = asyncio.ensure_future(coroutine)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise
