"""The receiving consumer: all members share the messages of all queues, and settle each."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

from ariane.broker.v1.receive_service_pb2 import ReceiveOrder
from ariane_record.counted import counted
from ariane_record.encoding.kept_memory import expect_large_blocks
from ariane_sdk.checks.limits import check_timeout, checked_group
from ariane_sdk.checks.queue_arguments import checked_count
from ariane_sdk.checks.sql_filter import Sql
from ariane_sdk.client.listener import Listener
from ariane_sdk.client.lost_messages import LostMessages
from ariane_sdk.client.message_trace import MessageTrace
from ariane_sdk.client.operator_answers import OperatorAnswers
from ariane_sdk.client.session import new_client_id
from ariane_sdk.client.stateless_client import CALL_TIMEOUT_S, StatelessClient
from ariane_sdk.client.telemetry import Telemetry
from ariane_sdk.consumer.group.consumer_plan import filters_of
from ariane_sdk.consumer.receiving.asking import Asking, is_held
from ariane_sdk.consumer.receiving.fetched import Fetched
from ariane_sdk.consumer.receiving.idle_return import IdleReturn
from ariane_sdk.consumer.receiving.invisible_span import check_span
from ariane_sdk.consumer.receiving.listening import Listening, Listens
from ariane_sdk.consumer.receiving.message_listener import MessageListener, of_one
from ariane_sdk.consumer.receiving.receive_calls import ANSWER_BYTES_MAX, duration_of
from ariane_sdk.consumer.receiving.receiving_member import ReceivingMember
from ariane_sdk.errors import ArianeError, DeadlinePassed, IllegalArgument
from ariane_sdk.message import ReceivedMessage
from ariane_sdk.routing.failover import PATIENCE_S
from ariane_sdk.routing.name_servers import NameServerAddresses
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.runtime.log import logger
from ariane_sdk.security import CredentialsGiven, TlsGiven

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

RECEIVE_COUNT_DEFAULT: Final = 32
RECEIVE_S: Final = 15.0


class ReceiveConsumer(StatelessClient):
    """Receives messages without owning queues.

    Every member of the group gets messages of all queues. Messages of one member are invisible to
    the others for ``invisible_s``. The member acknowledges each message, gives it back (``nack``)
    or asks for more time (``extend``). A message that is not settled in time goes to any member
    again. There may be more consumers than queues, and a slow one delays only the messages that it
    holds.

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
        name_servers: NameServerAddresses | None = None,
        *,
        group: str,
        subscriptions: Mapping[str, str | Sql],
        invisible_s: float = 60.0,
        from_oldest: bool = True,
        by_priority: bool = False,
        keep_invisible: bool = False,
        fail_on_lost_messages: bool = False,
        call_timeout_s: float = CALL_TIMEOUT_S,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        otlp_endpoint: str = "",
        message_trace: bool = False,
        stacks_on_request: bool = True,
        tls: TlsGiven = None,
        credentials: CredentialsGiven = None,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        """Set the consumer up; ``start`` connects it.

        Args:
            name_servers: "host:port" of each, as a list or by commas; None: ARIANE_NAME_SERVERS.
            group: The consumer group.
            subscriptions: By topic, "*" for all messages, tags joined by "||", or ``Sql``.
            invisible_s: How long other members do not see the messages of this one, 1 s to 12 h.
            from_oldest: Whether a group begins with the oldest message that is kept in a topic that
                is new to it; otherwise, with new messages.
            by_priority: Whether messages of higher priority come first.
            keep_invisible: Whether brokers keep messages invisible while this consumer runs, for 12
                h at most, and for a minute after they last heard of it. This ends for a message
                whose time is set by ``extend``.
            fail_on_lost_messages: Whether receiving ends with ``MessagesLost`` when a broker tells
                of messages that it has lost; otherwise, it logs an error and goes on.
            call_timeout_s: How long one call may take, beyond its hold.
            tracer_provider: Creates OpenTelemetry spans for ``listen``; default: the application's
                global provider.
            meter_provider: The same for metrics.
            otlp_endpoint: Collector that gets spans, as in ``PushSettings``.
            message_trace: Whether deliveries to the listener of ``listen`` are recorded in the
                trace topic, as in ``PushSettings``.
            stacks_on_request: Whether operators may ask where the threads and tasks of this process
                are.
            tls: Files for TLS, or that of the authority alone; False: plain text; None: what
                ARIANE_TLS_CA, ARIANE_TLS_CERTIFICATE and ARIANE_TLS_KEY say.
            credentials: File with the key of the user, or a function that gives a token; None: what
                ARIANE_CREDENTIALS says.
            clock: For tests.
            random: For tests.

        Raises:
            IllegalArgument: An address, a name, an expression or a duration is invalid.
        """
        super().__init__(
            name_servers,
            call_timeout_s=call_timeout_s,
            tls=tls,
            credentials=credentials,
            clock=clock,
            random=random,
        )
        check_span("invisible_s", invisible_s, least_s=1.0)
        self._group = checked_group(group)
        filters = filters_of(subscriptions)
        if not filters:
            raise IllegalArgument("subscriptions: at least one topic is expected")
        self._stacks_on_request = stacks_on_request
        self._telemetry_of = partial(
            Telemetry.configured, tracer_provider, meter_provider, otlp_endpoint=otlp_endpoint
        )
        self._client_id = new_client_id(self._random)
        self._trace: MessageTrace | None = None
        if message_trace:
            self._trace = MessageTrace(
                lambda: self._session,
                group=self._group,
                client_id=self._client_id,
                clock=self._clock,
                timeout_s=call_timeout_s,
            )
        self._fetched = Fetched()
        self._order = ReceiveOrder(
            consumer_group=self._group,
            client_id=self._client_id,
            subscriptions=[filters[topic].to_wire(topic) for topic in sorted(filters)],
            invisible_duration=duration_of(invisible_s),
            by_priority=by_priority,
            size_bytes_max=ANSWER_BYTES_MAX,
        )
        self._from_oldest = from_oldest
        self._lost = LostMessages(
            fails=fail_on_lost_messages, group=group, meter_provider=meter_provider
        )
        self._keeps = keep_invisible
        self._idle = IdleReturn(self.give_back, invisible_s)
        self._joined: ReceivingMember | None = None
        self._listens = Listens()

    async def start(self) -> None:
        """Prepare to receive; from now on, routes are refreshed."""
        expect_large_blocks()
        await super().start()
        self._session.routes.start()

    async def close(self) -> None:
        """Give back messages that were fetched and not taken, and disconnect.

        A call that waits for messages ends with ``ClientNotRunning``; so does ``listen``, which
        gives back what its listener has.
        """
        if self._running is not None:
            await self._listens.end()
            if self._joined is not None:
                await self._joined.end_asking()
            await self._idle.close()
            await self.give_back()
            if self._trace is not None:
                await self._trace.close()
            joined, self._joined = self._joined, None
            if joined is not None:
                await joined.close()
        await super().close()

    @property
    def group(self) -> str:
        """The consumer group."""
        return self._group

    @property
    def lost_message_count(self) -> int:
        """How many messages were passed over because the broker has lost them: damaged records."""
        return self._lost.count

    async def receive_batch(
        self, count_max: int = RECEIVE_COUNT_DEFAULT, *, timeout_s: float = RECEIVE_S
    ) -> list[ReceivedMessage]:
        """The next messages, all of one broker.

        All brokers are asked. Messages that others return are kept for the next call; until then,
        no other member sees them.

        Args:
            count_max: The most messages.
            timeout_s: How long to wait for the first.

        Returns:
            The messages; an empty list when the time is over.

        Raises:
            IllegalArgument: An argument is invalid.
            ClientNotRunning: The consumer is not running.
            RouteNotFound: No live broker has a topic.
            CallError: No broker returns messages.
            RecordDamaged: The records from a broker cannot be decoded.
        """
        checked_count("count_max", count_max)
        check_timeout(timeout_s)
        if self._keeps:
            self._idle.end()
        try:
            return await self._asking(count_max, timeout_s).one()
        finally:
            if self._keeps and self._fetched:
                self._begin_idle()

    async def batches(
        self, count_max: int = RECEIVE_COUNT_DEFAULT
    ) -> AsyncGenerator[list[ReceivedMessage]]:
        """Messages without end, in lists, each of one broker.

        Lists that were fetched ahead when the loop ends are kept for the next call; with
        ``keep_invisible`` they are given back if none comes for ``invisible_s``.

        Args:
            count_max: The most messages of a list.

        Raises:
            IllegalArgument: The count is invalid.
            ClientNotRunning: The consumer is not running.
            RouteNotFound: No live broker has a topic.
            CallError: The group may not receive.
            RecordDamaged: The records from a broker cannot be decoded.
        """
        checked_count("count_max", count_max)
        if self._keeps:
            self._idle.end()
        try:
            async with aclosing(self._asking(count_max, None).batches()) as batches:
                async for batch in batches:
                    yield batch
                    del batch
        finally:
            if self._keeps and self._fetched:
                self._begin_idle()

    async def receive(
        self, count_max: int = RECEIVE_COUNT_DEFAULT
    ) -> AsyncGenerator[ReceivedMessage]:
        """Messages without end, as they come.

        When the loop ends, messages of the last answer that were not looked at are given back;
        what becomes of answers that were fetched ahead is as with ``batches``.

        Args:
            count_max: How many messages are fetched from a broker at once.

        Raises:
            IllegalArgument: The count is invalid.
            ClientNotRunning: The consumer is not running.
            RouteNotFound: No live broker has a topic.
            CallError: The group may not receive.
            RecordDamaged: The records from a broker cannot be decoded.
        """
        async with aclosing(self._receive(count_max)) as messages:
            async for message in messages:
                yield message

    async def _receive(
        self, count_max: int, *, keep_invisible: bool = False
    ) -> AsyncGenerator[ReceivedMessage]:
        checked_count("count_max", count_max)
        left: list[ReceivedMessage] = []
        if self._keeps:
            self._idle.end()
        try:
            asking = self._asking(count_max, None, keep_invisible=keep_invisible)
            async with aclosing(asking.batches()) as batches:
                async for batch in batches:
                    left = batch[::-1]
                    while left and self.is_held(left[-1]):
                        yield left.pop()
                    left.clear()  # The rest was given back to other members.
        finally:
            if self._keeps and self._fetched:
                self._begin_idle()
            # No call is open any more: it would receive the messages that are given back.
            if left:
                await self._give_back(left)

    def is_held(self, message: ReceivedMessage) -> bool:
        """Whether no other member gets a message yet, as far as known here without ``extend``."""
        return is_held(message, self._clock)

    async def ack(self, *messages: ReceivedMessage) -> None:
        """Acknowledge messages; returns when that is as safe as the brokers guarantee.

        While a replica takes over, its call waits for it. If a broker does not answer in time, it
        is asked again while no other member gets the messages, with ``keep_invisible`` for 30 s.

        Raises:
            ReceiptExpired: Another consumer has some of the messages by now; the others are
                acknowledged.
            CallError: For some messages, it is unknown whether they were acknowledged.
        """
        timeout_s = self._call_timeout_s
        while True:
            try:
                return await self._member.ack(*messages, timeout_s=timeout_s, patience_s=PATIENCE_S)
            except DeadlinePassed:
                if self._clock.monotonic_s() >= _held_until_s(messages):
                    raise
                timeout_s *= 2  # An overloaded broker is called less often.

    async def nack(
        self,
        *messages: ReceivedMessage,
        delay_s: float | None = None,
        dead_letter: bool = False,
        cause: str = "",
    ) -> None:
        """Give failed messages back: they are delivered again, or become dead letters.

        Args:
            messages: The messages.
            delay_s: How long to wait, 0 to 12 h; default: the group's retry policy.
            dead_letter: Whether they become dead letters at once.
            cause: The reason, for people.

        Raises:
            IllegalArgument: The delay is invalid.
            ReceiptExpired: Another consumer has some of the messages by now.
            CallError: For some messages, the outcome is unknown.
        """
        if delay_s is not None:
            check_span("delay_s", delay_s)
        await self._member.nack(
            *messages,
            delay_s=delay_s,
            dead_letter=dead_letter,
            cause=cause,
            patience_s=PATIENCE_S,
        )

    async def extend(self, *messages: ReceivedMessage, seconds: float) -> None:
        """Keep messages invisible to other members for this long from now on; 0 ends it at once.

        Args:
            messages: The messages.
            seconds: 0 to 12 h.

        Raises:
            IllegalArgument: The duration is invalid.
            ReceiptExpired: Another consumer has some of the messages by now.
            CallError: For some messages, the outcome is unknown.
        """
        check_span("seconds", seconds)
        await self._member.extend(*messages, seconds=seconds, patience_s=PATIENCE_S)

    async def give_back(self, *messages: ReceivedMessage) -> None:
        """Give back these messages at once, and those that were fetched and not taken."""
        for batch in [*await self._fetched.take_all(), list(messages)]:
            if batch and self.is_held(batch[0]):
                await self._give_back(batch)

    async def listen(self, listener: MessageListener, *, concurrency: int = 16) -> None:
        """Have a listener process messages, several at a time, until ``close``.

        Cancelling this call ends it, too. A message is acknowledged when the listener returns, and
        given back when it raises or is cancelled. While a message waits for the listener or is
        processed, brokers keep it invisible, as with ``keep_invisible``.

        Args:
            listener: Called with each message. A coroutine function runs on the loop, a plain
                function in threads.
            concurrency: How many messages are processed at a time.

        Raises:
            IllegalArgument: The concurrency is invalid.
            ClientNotRunning: The consumer is not running, or was closed.
            RouteNotFound: No live broker has a topic.
            CallError: The group may not receive.
            RecordDamaged: The records from a broker cannot be decoded.
        """
        checked_count("concurrency", concurrency)
        await self._listens.last(self._listen(listener, concurrency))

    async def _listen(self, listener: MessageListener, concurrency: int) -> None:
        await self.give_back()  # Brokers do not renew the invisible time of those.
        traced = self._traced(of_one(listener))
        listening = Listening(
            traced,
            self._member,
            group=self._group,
            concurrency=concurrency,
            clock=self._clock,
        )
        try:
            fetching = self._receive(concurrency, keep_invisible=True)
            async with aclosing(fetching) as messages:
                await listening.run(messages)
        finally:
            await self.give_back()

    def _traced(self, listener: Listener) -> Listener:
        """The listener itself, or with a trace of each call."""
        telemetry = self._telemetry_of(client_id=self._client_id)
        if telemetry is not None:
            listener = telemetry.traced(listener, self._group)
        return listener if self._trace is None else self._trace.traced(listener)

    @property
    def _member(self) -> ReceivingMember:
        session = self._session  # Raises if the consumer does not run.
        if self._joined is None:
            self._joined = ReceivingMember(
                session,
                self._order,
                from_oldest=self._from_oldest,
                lost=self._lost,
                call_timeout_s=self._call_timeout_s,
                clock=self._clock,
                answers=OperatorAnswers(facts=self._facts, stacks_allowed=self._stacks_on_request),
            )
        return self._joined

    def _begin_idle(self) -> None:
        """Give back what was fetched and not taken, unless the application asks in time.

        Brokers would keep it invisible although the application does not ask for it.
        """
        if self._running is not None:
            self._idle.begin()

    async def _give_back(self, messages: list[ReceivedMessage]) -> None:
        """Make messages visible at once; after a failure, they are visible when their time ends."""
        try:
            await self._member.extend(*messages, seconds=0)
        except ArianeError as error:
            count = counted(len(messages), "message")
            logger.warning("%s will come again later: %s", count, error)

    def _facts(self) -> dict[str, str]:
        kept = sum(map(len, self._fetched.kept))
        return {"consumes": "receives, owns no queues", "messages_kept": str(kept)}

    def _asking(
        self, count_max: int, timeout_s: float | None, *, keep_invisible: bool = False
    ) -> Asking:
        """Ask all brokers for batches.

        Args:
            count_max: Messages of a batch.
            timeout_s: Ends after this time without a message; None: never.
            keep_invisible: Whether brokers keep them invisible, also against the consumer's
                setting.
        """
        return self._member.asking(
            self._fetched,
            count_max=count_max,
            timeout_s=timeout_s,
            keeps=self._keeps or keep_invisible,
        )


def _held_until_s(messages: Sequence[ReceivedMessage]) -> float:
    """Until when no other member gets some messages; a past time if brokers keep one invisible.

    Of those, ``listen`` repeats the settlement itself without limit, which no call may take.
    """
    until_s = max(message.receipt.held_until_s for message in messages)
    return until_s if math.isfinite(until_s) else -math.inf
