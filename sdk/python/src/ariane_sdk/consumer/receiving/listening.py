"""A listener's work on received messages: several at a time, each settled when it is done.

::

    message ──> listener ──> settle ──────────────────────> done
                                |  failed, may succeed yet    ^
                                +──> again every second ──────+

Brokers keep a message invisible as long as this consumer runs. If its settlement did not reach the
broker, no consumer would get the message for hours. So settling is tried until the broker has
answered. Only the first try counts as work: an unreachable broker does not hold up messages of
others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, Protocol

from ariane_record.counted import counted
from ariane_sdk.client.listener import LOOK_S, STANDSTILL_S, Listener, ListenerCalls
from ariane_sdk.consumer.receiving.invisible_span import INVISIBLE_S_MAX
from ariane_sdk.errors import (
    ArianeError,
    ClientNotRunning,
    ConsumptionHeld,
    DeadlinePassed,
    MessagesFailed,
    ReceiptExpired,
    ServiceUnavailable,
)
from ariane_sdk.message import ReceivedMessage
from ariane_sdk.runtime.application_calls import text_of
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.runtime.log import logger
from ariane_sdk.runtime.tasks import start_task

SETTLE_RETRY_S: Final = 1.0
"""Delay before a message is settled again."""


class Settler(Protocol):
    """Settles messages; the consumer."""

    async def ack(self, *messages: ReceivedMessage) -> None:
        """Settle messages as done."""

    async def nack(
        self,
        *messages: ReceivedMessage,
        delay_s: float | None = None,
        dead_letter: bool = False,
        cause: str,
    ) -> None:
        """Settle messages as failed."""

    async def extend(self, *messages: ReceivedMessage, seconds: float) -> None:
        """Set the invisible time of messages from now on."""


class Listening:
    """Calls a listener with messages, and settles them."""

    def __init__(
        self, listener: Listener, settler: Settler, *, group: str, concurrency: int, clock: Clock
    ) -> None:
        """Start without messages; ``concurrency`` of them are in work at a time."""
        self._calls = ListenerCalls(listener, threads=concurrency)
        self._settler = settler
        self._clock = clock
        self._long_work = LongWork(group, clock)
        self._free = asyncio.Semaphore(concurrency)
        self._held_until_s = clock.monotonic_s()

    async def run(self, messages: AsyncGenerator[ReceivedMessage]) -> None:
        """Work on messages until there are no more. Errors of the generator are raised as they are.

        When this is cancelled, it ends once all messages in work are given back or settled.
        """
        works: dict[asyncio.Task[None], None] = {}
        watching = start_task(self._watch(), "watch-listener")
        try:
            await self._free.acquire()
            async for message in messages:
                work = start_task(self._work(message), "listener-work")
                works[work] = None
                work.add_done_callback(works.pop)
                await self._free.acquire()
            if works:
                await asyncio.wait(works)
        except BaseException:
            try:
                # First: otherwise our own call would receive the messages that are given back.
                await messages.aclose()
            finally:
                for work in works:
                    work.cancel()
                if works:
                    await asyncio.wait(works)
            raise
        finally:
            watching.cancel()
            self._calls.close()

    async def _watch(self) -> None:
        while True:
            await self._clock.sleep(LOOK_S)
            self._long_work.look()

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
        """Call the listener; return the function that settles the message by the outcome."""
        try:
            while (held_s := self._held_until_s - self._clock.monotonic_s()) > 0:
                await self._clock.sleep(held_s)
            with self._long_work.on(message):
                await self._calls.deliver([message])
        except asyncio.CancelledError:
            # Give it back: no consumer would get it as long as this one runs.
            await self._settle(partial(self._settler.extend, message, seconds=0), message)
            raise
        except Exception as error:  # noqa: BLE001 - with any error, the message failed.
            logger.warning("listener failed on %r: %s", message, text_of(error, repr))
            return self._failed(message, error)
        return partial(self._settler.ack, message)

    def _failed(self, message: ReceivedMessage, error: Exception) -> Callable[[], Awaitable[None]]:
        """Give a message back as the listener's error says."""
        nack = partial(self._settler.nack, message)
        if isinstance(error, ConsumptionHeld):
            if error.all_queues:
                until_s = self._clock.monotonic_s() + error.hold_s
                self._held_until_s = max(self._held_until_s, until_s)
            return partial(
                nack, delay_s=min(error.hold_s, INVISIBLE_S_MAX), cause=text_of(error, repr)
            )
        if isinstance(error, MessagesFailed) and message in error.messages:
            cause, rejected = text_of(error), error.rejected
            delay_s = None if error.delay_s is None else min(error.delay_s, INVISIBLE_S_MAX)
            return partial(nack, delay_s=delay_s, dead_letter=rejected, cause=cause)
        return partial(nack, cause=text_of(error, repr))

    async def _settle(
        self, settle: Callable[[], Awaitable[None]], message: ReceivedMessage
    ) -> bool:
        """Settle a message; return False if trying again may help."""
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
    """Run a coroutine to its end; a cancellation takes effect only then."""
    task = asyncio.ensure_future(coroutine)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise


class Listens:
    """The calls of ``listen`` that last; whoever closes the consumer ends them first."""

    def __init__(self) -> None:
        self._lasting: dict[asyncio.Task[None], None] = {}

    async def last(self, work: Coroutine[Any, Any, None]) -> None:
        """Work to the end, or until ``end``.

        Raises:
            ClientNotRunning: The consumer was closed.
        """
        lasting = asyncio.create_task(work, name="ariane-listen")
        self._lasting[lasting] = None
        try:
            await lasting
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise ClientNotRunning("the consumer was closed") from None
        finally:
            self._lasting.pop(lasting, None)

    async def end(self) -> None:
        """Cancel them; returns once all messages in work are given back or settled."""
        for lasting in self._lasting:
            lasting.cancel()
        if self._lasting:
            await asyncio.wait(self._lasting)


class LongWork:
    """The messages that a listener has now, and warnings of those that it has had for long.

    Brokers keep a message invisible as long as the consumer runs, so nobody else gets what a
    listener is stuck with, and without a warning nobody would know.
    """

    def __init__(self, group: str, clock: Clock) -> None:
        """Begin without messages."""
        self._group = group
        self._clock = clock
        self._since_s: dict[int, tuple[ReceivedMessage, float]] = {}
        self._number = 0
        self._warned_of = 0
        self._warn_after_s = STANDSTILL_S

    @contextmanager
    def on(self, message: ReceivedMessage) -> Iterator[None]:
        """Note that the listener has a message."""
        self._number += 1
        number = self._number
        self._since_s[number] = message, self._clock.monotonic_s()
        try:
            yield
        finally:
            del self._since_s[number]

    def look(self) -> None:
        """Tell of the oldest message if it is old, and again when twice as long has passed."""
        if not self._since_s:
            return
        number, (message, since_s) = next(iter(self._since_s.items()))
        if number != self._warned_of:
            self._warned_of, self._warn_after_s = number, STANDSTILL_S
        old_s = self._clock.monotonic_s() - since_s
        if old_s < self._warn_after_s:
            return
        self._warn_after_s *= 2
        logger.warning(
            "%s of group %s: no progress for %.0f s; the listener has %s, the oldest is %s"
            " (ariane group running %s --stacks shows where it is)",
            message.message_queue,
            self._group,
            old_s,
            counted(len(self._since_s), "message"),
            message.unique_id,
            self._group,
        )
