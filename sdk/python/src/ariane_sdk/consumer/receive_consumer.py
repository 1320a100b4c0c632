"""The receiving consumer: messages of all queues, shared by all members, settled one by one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from random import Random
from typing import Final

from ariane.broker.v1.receive_service_pb2 import (
    RECEIVE_START_NEWEST,
    RECEIVE_START_OLDEST,
    Nack,
    ReceiveOrder,
)
from ariane_record.encoding.kept_memory import expect_large_blocks
from ariane_sdk.checks.limits import check_timeout, checked_group
from ariane_sdk.checks.queue_arguments import checked_count
from ariane_sdk.checks.sql_filter import Sql
from ariane_sdk.client.stateless_client import CALL_TIMEOUT_S, StatelessClient
from ariane_sdk.consumer.group.consumer_plan import filters_of
from ariane_sdk.consumer.receiving.asking import HOLD_S, Asking
from ariane_sdk.consumer.receiving.receive_calls import (
    DONE,
    Answer,
    ReceiveCalls,
    Settlement,
    duration_of,
    messages_of,
)
from ariane_sdk.errors import (
    ArianeError,
    IllegalArgument,
    ReceiptExpired,
)
from ariane_sdk.message import ReceivedMessage
from ariane_sdk.routing.name_servers import NameServerAddresses
from ariane_sdk.routing.route import BrokerRoute
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.runtime.log import logger
from ariane_sdk.runtime.tasks import start_task

RECEIVE_COUNT_DEFAULT: Final = 32
ANSWER_BYTES_MAX: Final = 4 << 20
"""Bytes of records that a broker gives at once: more than the 1 MiB that it gives unasked, because
each answer is written down, and settled, for itself."""
FAILURE_CAUSE_LENGTH_MAX: Final = 1024

INVISIBLE_S_MIN: Final = 1.0
INVISIBLE_S_MAX: Final = 12 * 3600.0


class ReceiveConsumer(StatelessClient):
    """Receives messages without owning queues.

    Every member of the group gets messages of all queues. What it gets is invisible to the others
    for ``invisible_s``; it acknowledges each message, gives it back (``nack``) or asks for more
    time (``extend``). What it does none of in time comes again, to any member. There may be more
    consumers than queues, and a slow one holds up only what it has.

    Example::

        async with ReceiveConsumer(
            "127.0.0.1:9876", group="billing", subscriptions={"orders": "*"}
        ) as consumer:
            async for message in consumer.receive():
                print(message.body)
                await consumer.ack(message)
    """

    def __init__(
        self,
        name_servers: NameServerAddresses,
        *,
        group: str,
        subscriptions: Mapping[str, str | Sql],
        invisible_s: float = 60.0,
        from_oldest: bool = True,
        by_priority: bool = False,
        call_timeout_s: float = CALL_TIMEOUT_S,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        """Set up; nothing is connected before ``start``.

        Args:
            name_servers: "host:port" of each name server, as a list or separated by commas.
            group: The consumer group.
            subscriptions: By topic, "*" for all messages, tags joined by "||", or ``Sql``.
            invisible_s: How long others do not see what this one has, 1 s to 12 h.
            from_oldest: Whether a new group begins with the oldest message that is kept; else with
                what comes from now on.
            by_priority: Whether messages of higher priority come first.
            call_timeout_s: How long one call may take, beyond its hold.
            clock: For tests.
            random: For tests.

        Raises:
            IllegalArgument: An address, a name, an expression or a duration is none.
        """
        super().__init__(name_servers, call_timeout_s=call_timeout_s, clock=clock, random=random)
        check_timeout(invisible_s)
        if not INVISIBLE_S_MIN <= invisible_s <= INVISIBLE_S_MAX:
            raise IllegalArgument(f"invisible_s {invisible_s!r}: 1 s to 12 h is expected")
        self._group = checked_group(group)
        filters = filters_of(subscriptions)
        if not filters:
            raise IllegalArgument("subscriptions: at least one topic is expected")
        self._topics = sorted(filters)
        self._invisible_s = invisible_s
        self._kept: list[list[ReceivedMessage]] = []
        self._late: dict[str, asyncio.Task[Answer]] = {}
        self._order = ReceiveOrder(
            consumer_group=self._group,
            subscriptions=[filters[topic].to_wire(topic) for topic in self._topics],
            invisible_duration=duration_of(invisible_s),
            start=RECEIVE_START_OLDEST if from_oldest else RECEIVE_START_NEWEST,
            by_priority=by_priority,
            size_bytes_max=ANSWER_BYTES_MAX,
        )

    async def start(self) -> None:
        """Be ready to receive; routes are kept fresh from now on."""
        expect_large_blocks()
        await super().start()
        self._session.routes.start()

    async def close(self) -> None:
        """Give back what was fetched and nobody took, and disconnect."""
        await self.give_back()
        await super().close()

    @property
    def group(self) -> str:
        """The consumer group."""
        return self._group

    async def receive_batch(
        self, count_max: int = RECEIVE_COUNT_DEFAULT, *, timeout_s: float = HOLD_S
    ) -> list[ReceivedMessage]:
        """The next messages of one broker.

        All brokers are asked. What others find comes with the next call; until then nobody else
        sees it.

        Args:
            count_max: Messages at most.
            timeout_s: How long to wait for the first.

        Returns:
            The messages; none when the time is over.

        Raises:
            IllegalArgument: An argument is none.
            ClientNotRunning: It does not run.
            RouteNotFound: No live broker carries a topic.
            CallError: No broker gives messages.
            RecordDamaged: What a broker gave cannot be taken apart.
        """
        checked_count("count_max", count_max)
        check_timeout(timeout_s)
        async with aclosing(self._batches(count_max, timeout_s)) as batches:
            async for batch in batches:
                return batch
        return []

    async def batches(
        self, count_max: int = RECEIVE_COUNT_DEFAULT
    ) -> AsyncGenerator[list[ReceivedMessage]]:
        """Messages without end in lists, each of one broker.

        Args:
            count_max: Messages of a list at most.

        Raises:
            IllegalArgument: The count is none.
            ClientNotRunning: It does not run.
            RouteNotFound: No live broker carries a topic.
            CallError: The group may not receive.
            RecordDamaged: What a broker gave cannot be taken apart.
        """
        checked_count("count_max", count_max)
        async with aclosing(self._batches(count_max, None)) as batches:
            async for batch in batches:
                yield batch

    async def receive(
        self, count_max: int = RECEIVE_COUNT_DEFAULT
    ) -> AsyncGenerator[ReceivedMessage]:
        """Messages without end, as they come.

        Those that were fetched and not looked at are given back when the loop ends.

        Args:
            count_max: As many are fetched of a broker at once.

        Raises:
            IllegalArgument: The count is none.
            ClientNotRunning: It does not run.
            RouteNotFound: No live broker carries a topic.
            CallError: The group may not receive.
            RecordDamaged: What a broker gave cannot be taken apart.
        """
        checked_count("count_max", count_max)
        left: list[ReceivedMessage] = []
        try:
            async with aclosing(self._batches(count_max, None)) as batches:
                async for batch in batches:
                    left = batch[::-1]
                    while left:
                        yield left.pop()
        finally:
            # Nothing is asked any more: a call of our own would get what is given back.
            if left:
                await self._give_back(left)

    async def ack(self, *messages: ReceivedMessage) -> None:
        """Acknowledge messages; returns when that is as safe as the brokers promise.

        Raises:
            ReceiptExpired: Another consumer has some of them by now; the others are acknowledged.
            CallError: Of some it is not known whether they were acknowledged.
        """
        await self._calls.settle(messages, DONE)

    async def nack(
        self,
        *messages: ReceivedMessage,
        delay_s: float | None = None,
        dead_letter: bool = False,
        cause: str = "",
    ) -> None:
        """Messages failed: they come again, or become dead letters without attempts left.

        Args:
            messages: Which.
            delay_s: How long to wait; as the group's retry policy says if not given.
            dead_letter: Whether they become dead letters at once.
            cause: Why, for people.

        Raises:
            ReceiptExpired: Some are another's by now.
            CallError: Nobody knows of some what became of them.
        """
        printable = "".join(sign if sign.isprintable() else " " for sign in cause)
        nack = Nack(dead_letter=dead_letter, cause=printable[:FAILURE_CAUSE_LENGTH_MAX])
        if delay_s is not None:
            nack.delay.CopyFrom(duration_of(delay_s))
        await self._calls.settle(messages, Settlement(nack=nack))

    async def extend(self, *messages: ReceivedMessage, seconds: float) -> None:
        """Keep messages invisible to others for so long from now on; 0 shows them at once.

        Raises:
            ReceiptExpired: Some are another's by now.
            CallError: Nobody knows of some what became of them.
        """
        await self._calls.settle(messages, Settlement(invisible_s=seconds))

    async def give_back(self, *messages: ReceivedMessage) -> None:
        """Let others have messages at once, and what was fetched and nobody took."""
        for call in self._late.values():
            call.cancel()
        for ended in await asyncio.gather(*self._late.values(), return_exceptions=True):
            if isinstance(ended, Answer):
                self._kept.append(messages_of(ended))
        self._late.clear()
        batches = [*self._kept, list(messages)]
        self._kept.clear()
        for batch in batches:
            if batch:
                await self._give_back(batch)

    async def listen(
        self, listener: Callable[[ReceivedMessage], Awaitable[object]], *, concurrency: int = 16
    ) -> None:
        """Have a listener work on messages, several at a time, until this is cancelled.

        A message is acknowledged when the listener returns, and given back when it raises. As long
        as it works the message stays invisible.

        Args:
            listener: Called with each message.
            concurrency: So many at a time.

        Raises:
            IllegalArgument: The concurrency is none.
            ClientNotRunning: It does not run.
            RouteNotFound: No live broker carries a topic.
            CallError: The group may not receive.
            RecordDamaged: What a broker gave cannot be taken apart.
        """
        checked_count("concurrency", concurrency)
        free = asyncio.Semaphore(concurrency)
        async with asyncio.TaskGroup() as works, aclosing(self.receive(concurrency)) as messages:
            await free.acquire()
            async for message in messages:
                work = works.create_task(self._work(listener, message))
                work.add_done_callback(lambda _: free.release())
                await free.acquire()

    @property
    def _calls(self) -> ReceiveCalls:
        connections = self._session.connections
        return ReceiveCalls(connections, self._group, timeout_s=self._call_timeout_s)

    async def _work(
        self, listener: Callable[[ReceivedMessage], Awaitable[object]], message: ReceivedMessage
    ) -> None:
        renewal = start_task(self._renew(message), "renew-receipt")
        try:
            await listener(message)
        except Exception as error:  # noqa: BLE001 - whatever it is, the message failed.
            logger.warning("listener failed on %r: %r", message, error)
            await self._settled(self.nack(message, cause=repr(error)), message)
        else:
            await self._settled(self.ack(message), message)
        finally:
            renewal.cancel()

    async def _renew(self, message: ReceivedMessage) -> None:
        """Ask for more time, long before it is over."""
        while True:
            await self._clock.sleep(self._invisible_s / 3)
            await self._settled(self.extend(message, seconds=self._invisible_s), message)

    async def _settled(self, settling: Awaitable[None], message: ReceivedMessage) -> None:
        """A message whose settling fails comes again, or has."""
        try:
            await settling
        except ReceiptExpired:
            logger.warning("%r took too long: another consumer has it", message)
        except ArianeError as error:
            logger.warning("%r is not settled and comes again: %s", message, error)

    async def _give_back(self, messages: list[ReceivedMessage]) -> None:
        """Let others have messages at once; those that fail come when their time is over."""
        try:
            await self.extend(*messages, seconds=0)
        except ArianeError as error:
            logger.warning("%d messages come again later: %s", len(messages), error)

    async def _brokers(self) -> dict[str, BrokerRoute]:
        """The brokers of the topics by their addresses, as far as they are known now."""
        brokers: dict[str, BrokerRoute] = {}
        for topic in self._topics:
            route = await self._session.routes.get(topic)
            brokers |= {each.read_address: each for each in route.brokers if each.read_address}
        return brokers

    def _batches(
        self, count_max: int, timeout_s: float | None
    ) -> AsyncGenerator[list[ReceivedMessage]]:
        """Batches of all brokers as they come.

        Args:
            count_max: Messages of a batch.
            timeout_s: Ends after this time without any; nothing: never.
        """
        order = ReceiveOrder()
        order.CopyFrom(self._order)
        order.message_count_max = count_max
        asking = Asking(
            self._calls,
            self._brokers,
            order,
            self._kept,
            self._late,
            clock=self._clock,
            timeout_s=timeout_s,
        )
        return asking.batches()
