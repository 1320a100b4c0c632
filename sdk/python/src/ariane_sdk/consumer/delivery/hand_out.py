"""Giving messages of one queue to the listener, with care in queues where consumers died.

A listener that kills its process cannot report the message. So in queues where members of the group
died, the messages in work are reported to the broker before. If that was not enough, one message at
a time is in work, with nothing else in this consumer. If the consumer dies then, too, the broker
knows the message, and counts this as a failed attempt.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, NamedTuple, Protocol

from ariane_record.layout import PropertyName
from ariane_record.names import RETRY_PREFIX
from ariane_sdk.client.caution import NO_CAUTION, Caution, InWork
from ariane_sdk.client.listener import Deliver
from ariane_sdk.consumer.delivery.window import QueueWindow
from ariane_sdk.errors import CallError
from ariane_sdk.message import ReceivedMessage
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.runtime.log import logger

REPORT_DELAY_S: Final = 1.0
"""Delay before a failed report to a broker is repeated."""

REPORTS_MAX: Final = 3
"""The most reports that a message is done."""


class DeliveryGate:
    """Admits any number of deliveries, or one that is alone; the queues of a consumer share it.

    A delivery that waits to be alone goes before later ones, and so waits only for deliveries that
    the listener already has.
    """

    def __init__(self) -> None:
        """Start without deliveries."""
        self._sharing = 0
        self._alone = False
        self._waiting_alone = 0
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Deliver while nothing else is delivered."""
        self._waiting_alone += 1
        try:
            while self._alone or self._sharing:
                await self._changed.wait()
            self._alone = True
        finally:
            self._waiting_alone -= 1
            if not self._alone:
                self._wake()  # Cancelled: later deliveries need not wait any longer.
        try:
            yield
        finally:
            self._alone = False
            self._wake()

    def enter_now(self) -> bool:
        """Begin a shared delivery, until ``leave``, if none is alone or waits to be."""
        if self._alone or self._waiting_alone:
            return False
        self._sharing += 1
        return True

    async def enter(self) -> None:
        """Wait for and begin a shared delivery, until ``leave``."""
        while not self.enter_now():
            await self._changed.wait()

    def leave(self) -> None:
        """End a shared delivery."""
        self._sharing -= 1
        if self._waiting_alone and not self._sharing:
            self._wake()

    def _wake(self) -> None:
        """Wake all waiting deliveries."""
        self._changed.set()
        self._changed = asyncio.Event()


class ReportInWork(Protocol):
    """Reports the messages in work to the broker of a queue."""

    async def __call__(self, queue: MessageQueue, consumer_offset: int, in_work: InWork, /) -> None:
        """Report them, with the smallest unfinished queue offset.

        Raises:
            CallError: The report failed, or the queue is not this consumer's any longer.
        """
        ...


class DeliveryCare(NamedTuple):
    """The means against messages that kill consumers again and again."""

    gate: DeliveryGate | None
    """Shared by the queues of the consumer; None if no care is taken."""
    caution: Caution
    """The broker's advice for the queue."""
    report: ReportInWork
    """Reports the messages in work to the broker."""


async def _report_nothing(_queue: MessageQueue, _consumer_offset: int, _in_work: InWork, /) -> None:
    pass


NO_CARE: Final = DeliveryCare(None, NO_CAUTION, _report_nothing)


class GivenUpError(Exception):
    """The queue was given up before the listener got the messages."""


class HandOut:
    """Gives messages of one queue to the listener."""

    def __init__(
        self,
        queue: MessageQueue,
        window: QueueWindow,
        deliver: Deliver,
        *,
        care: DeliveryCare,
        is_released: Callable[[], bool],
    ) -> None:
        """``is_released`` says whether the queue is being given up."""
        self._queue = queue
        self._window = window
        self._deliver = deliver
        # A gate of its own has no effect: without suspects it never closes.
        self._gate = care.gate or DeliveryGate()
        self._caution = care.caution
        self._report = care.report
        self._is_released = is_released
        self._comes_back = queue.topic.startswith(RETRY_PREFIX)
        self._moved = asyncio.Event()

    @property
    def suspects(self) -> Callable[[ReceivedMessage], bool] | None:
        """A test for messages that must be alone in work; None while there can be none."""
        if self._comes_back or self._window.next_take_offset < self._caution.alone_end:
            return self._is_suspect
        return None

    @property
    def is_past_suspects(self) -> bool:
        """Whether no messages from here on need care."""
        caution = self._caution
        needed_until = max(caution.alone_end, caution.watched_end)
        return not self._comes_back and self._window.next_take_offset >= needed_until

    def wake(self) -> None:
        """Wake a waiting message: others are finished, or the queue is being given up."""
        self._moved.set()

    async def give(self, messages: Sequence[ReceivedMessage]) -> None:
        """Give messages to the listener; a message that must be alone is given alone.

        Raises:
            GivenUpError: The listener did not get them.
            Exception: What the listener raised.
        """
        first_offset = messages[0].queue_offset
        if self._is_suspect(messages[0]):
            await self._give_alone(messages)
            return
        if first_offset < self._caution.watched_end:
            while not await self._report_first(InWork(self._window.taken_end)):  # noqa: ASYNC110 - tried again
                await asyncio.sleep(REPORT_DELAY_S)
        await self.give_freely(messages)

    async def give_freely(self, messages: Sequence[ReceivedMessage]) -> None:
        """Give messages that need no care to the listener.

        Raises:
            Exception: What the listener raised.
        """
        gate = self._gate
        if not gate.enter_now():
            await gate.enter()
        try:
            await self._deliver(messages)
        finally:
            gate.leave()

    def _is_suspect(self, message: ReceivedMessage) -> bool:
        if message.queue_offset < self._caution.alone_end:
            return True
        return self._comes_back and PropertyName.CONSUMER_DEATHS in message.properties

    async def _give_alone(self, messages: Sequence[ReceivedMessage]) -> None:
        queue_offset = messages[0].queue_offset
        while self._window.consumer_offset != queue_offset:
            # Earlier messages of the queue come first: the broker stores this message's offset.
            self._moved.clear()
            await self._moved.wait()
            self._check_owned()
        while True:
            async with self._gate.alone():
                if await self._report_first(InWork(queue_offset + 1, alone=True)):
                    await self._deliver_alone(messages)
                    return
            # Outside the gate, so that other queues go on while the broker is away.
            await asyncio.sleep(REPORT_DELAY_S)

    async def _deliver_alone(self, messages: Sequence[ReceivedMessage]) -> None:
        done_offset = messages[0].queue_offset
        try:
            await self._deliver(messages)
            done_offset += 1
        finally:
            await self._report_done(done_offset)

    async def _report_first(self, in_work: InWork) -> bool:
        """Report the next messages in work; return whether the broker received that.

        Raises:
            GivenUpError: The queue is not this consumer's any longer.
        """
        self._check_owned()
        try:
            await self._report(self._queue, self._window.consumer_offset, in_work)
        except CallError as error:
            logger.info("%s waits until its broker hears of it: %s", self._queue, error)
            return False
        self._check_owned()
        return True

    async def _report_done(self, done_offset: int) -> None:
        """Report to the broker that this message did not kill the consumer."""
        for _ in range(REPORTS_MAX):
            try:
                await self._report(self._queue, done_offset, InWork(done_offset))
            except CallError as error:
                logger.warning(
                    "the broker of %s still takes message %d to be in work: %s",
                    self._queue,
                    done_offset,
                    error,
                )
                if self._is_released():
                    return
                await asyncio.sleep(REPORT_DELAY_S)
            else:
                return

    def _check_owned(self) -> None:
        if self._is_released():
            raise GivenUpError
