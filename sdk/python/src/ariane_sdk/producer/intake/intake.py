"""Messages from the application: checked, encoded, and put into the open row of their queue."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import TypeAlias

from ariane_record.encoding.message_properties import EncodedProperties
from ariane_record.errors import RecordError
from ariane_sdk.checks.delay import AT_ONCE, delay_kind
from ariane_sdk.checks.demand import Demand
from ariane_sdk.checks.limits import checked_tag, checked_topic
from ariane_sdk.checks.message_types import TYPE_ERRORS, check_sequence, check_types
from ariane_sdk.errors import ArianeError, CallError, MessageIllegal, NameIllegal
from ariane_sdk.message import Message, RelayedMessage, SendResult
from ariane_sdk.producer.accumulator.accumulator import OpenRows
from ariane_sdk.producer.accumulator.row import Row
from ariane_sdk.producer.accumulator.topic_info import NO_OPTIONS, SendOptions, TopicInfo
from ariane_sdk.producer.intake.group_moves import GroupMoves
from ariane_sdk.producer.intake.message_encoding import MessageEncoding, time_of
from ariane_sdk.producer.intake.route_wait import RouteWait
from ariane_sdk.producer.intake.whole_rows import MessageRun, WholeRows
from ariane_sdk.producer.sending.append_calls import AppendCalls
from ariane_sdk.producer.sending.table_wire import note_span
from ariane_sdk.producer.sending.unsettled import Backpressure, ProducerParts
from ariane_sdk.routing.route import Route

Outcome: TypeAlias = SendResult | ArianeError


class Intake:
    """Takes messages from the application and adds them to rows."""

    def __init__(self, parts: ProducerParts, sending: AppendCalls) -> None:
        settings, clock = parts.settings, parts.clock
        self._parts = parts
        self._unsettled = parts.unsettled
        self._clock = clock
        self._open_rows = OpenRows(
            sending.accumulators, parts.unsettled.add, sending.is_welcome, settings
        )
        self.whole_rows = WholeRows(parts, self._open_rows)
        """Sends messages that are encoded in one go."""
        self.encoding = MessageEncoding(settings=settings, clock=clock)
        """Checks and encodes messages one by one."""
        self._plain_bytes_max = self.encoding.plain_bytes_max
        self._loop = asyncio.get_running_loop()
        self._topics: dict[str, TopicInfo] = {}
        self._route_wait = RouteWait(parts, self._put_now)
        self._moves = GroupMoves(sending, self._put_now)
        parts.session.routes.on_change(self._follow)
        parts.session.routes.on_gone(self._lose_route)
        sending.on_gone(lambda row: self._moves.take_over(self._topics[row.topic], row))

    def take(self, message: Message, options: SendOptions) -> asyncio.Future[SendResult]:
        """Take one message; the future will hold its outcome.

        Raises:
            IllegalArgument: The message or its options break a rule.
            SendError: No broker takes messages for the topic.
        """
        future: asyncio.Future[SendResult] = self._loop.create_future()
        if options is not NO_OPTIONS or not self._take_usual(message, future):
            self.put(message, options, future)
        return future

    async def send(self, message: Message, options: SendOptions) -> SendResult:
        """Take one message when there is room for it, and wait for its outcome.

        Raises:
            IllegalArgument: The message or its options break a rule.
            SendError: The message was not acknowledged.
        """
        if self._unsettled.crowded:
            await self._unsettled.wait_for_room()
        future = self.take(message, options)
        try:
            return await future
        except asyncio.CancelledError:
            self.withdraw(message.topic, future)
            raise

    def _take_usual(self, message: Message, future: asyncio.Future[SendResult]) -> bool:
        """Take a message with a body and perhaps a tag, and nothing else, of a known topic.

        Most messages are like that. Their properties are encoded already, and there is nothing to
        be checked but the body.

        Returns:
            Whether the message was taken; any other message is not checked here.

        Raises:
            SendError: No broker takes messages for the topic.
        """
        if type(message) is RelayedMessage:
            return False
        try:
            info = self._topics.get(message.topic)
            if info is None or info.route is None:
                return False
            body = message.body
            properties = info.properties.of_tags.get(message.tag)
            if (
                properties is None
                or type(body) is not bytes
                or len(body) > self._plain_bytes_max
                or message.keys != ()
                or message.message_group != ""
                or message.properties
                or message.flag != 0
                or message.deliver_at is not None
                or message.delay is not None
                or message.delay_level != AT_ONCE
                or message.priority != 0
                or message.expire_after is not None
            ):
                return False
        except TYPE_ERRORS:
            return False
        row = self._open_rows.for_any_queue(info, len(body))
        self._unsettled.size_bytes += row.add(body, properties, self._clock.now_ms(), future)
        return True

    def put(
        self, message: Message, options: SendOptions, future: asyncio.Future[SendResult] | None
    ) -> None:
        """Take one message; None as future: nobody waits for its outcome.

        Raises:
            IllegalArgument: The message or its options break a rule.
            SendError: No broker takes messages for the topic.
        """
        try:
            info = self._info(message.topic)
            if self._route_wait.must_wait(info, message, options):
                self.encoding.check(message)
                self._route_wait.park(info, message, options, future)
            else:
                self._put_now(info, message, options, future)
        except TYPE_ERRORS:
            check_types(message)
            raise

    def trouble_of(self, topic: str) -> CallError | None:
        """What messages of a topic still wait for: a late error, if there was one."""
        info = self._topics.get(topic)
        return (info and info.trouble) or self._unsettled.trouble_of(topic)

    def withdraw(self, topic: str, future: asyncio.Future[SendResult]) -> bool:
        """Take back a message of ``take`` whose caller no longer waits.

        Returns:
            True if the message is surely not stored; False if a call carries it or it has its
            outcome.
        """
        future.cancel()
        info = self._topics.get(topic)
        if info is not None and self._route_wait.withdraw(info, future):
            return True
        return self._unsettled.withdraw(future)

    async def take_all(
        self, messages: Sequence[Message], demand: Demand | None = None
    ) -> Sequence[Outcome]:
        """Take many messages, and wait for their outcomes.

        Calls for the same topic do not mix: all messages of one call, then those of the next.

        Args:
            messages: The messages.
            demand: The level to reach; None for the broker's own.
        """
        check_sequence(messages)
        if demand is None:
            run = MessageRun.of(messages, body_bytes_max=self._plain_bytes_max)
            properties = None if run is None else self._properties_of(run)
            if run is not None and properties is not None:
                # The garbage collector scans all objects that are alive: thousands of messages that
                # only wait here would cost more in scans than in encoding.
                del messages
                try:
                    info = await self.info_of(run.topic, grouped=False)
                except ArianeError as error:
                    return [error] * len(run.bodies)
                sending = self.whole_rows.send_run(run, properties, info)
                del run
                return await sending
        options = NO_OPTIONS if demand is None else SendOptions(demand=demand)
        taken = await self._take_each(messages, options)
        return [each if isinstance(each, ArianeError) else await _outcome(each) for each in taken]

    async def _take_each(
        self, messages: Sequence[Message], options: SendOptions
    ) -> list[asyncio.Future[SendResult] | ArianeError]:
        """Take messages of any topics and kinds one by one, in their order."""
        taken: list[asyncio.Future[SendResult] | ArianeError] = []
        backpressure = Backpressure(self._unsettled, self._parts.settings.batch_bytes_max)
        taken_bytes = 0
        async with AsyncExitStack() as locked:
            try:
                refused = await self._learn_infos(messages, locked)
            except TYPE_ERRORS:
                # No message was sent yet.
                for message in messages:
                    check_types(message)
                raise
            for message in messages:
                future: asyncio.Future[SendResult] = self._loop.create_future()
                try:
                    if message.topic in refused:
                        raise refused[message.topic]
                    await backpressure.wait(taken_bytes)
                    self._put_now(self._info(message.topic), message, options, future)
                except ArianeError as error:
                    taken.append(error)
                else:
                    taken_bytes += len(message.body)
                    taken.append(future)
        return taken

    async def _learn_infos(
        self, messages: Sequence[Message], locked: AsyncExitStack
    ) -> dict[str, ArianeError]:
        """Wait for the lock of each topic and for its route; returns the topics without one."""
        refused: dict[str, ArianeError] = {}
        grouped = {message.topic for message in messages if message.message_group}
        # Topics are sorted, so that two calls cannot wait for each other.
        for topic in sorted({message.topic for message in messages}):
            try:
                info = self._info(topic)
                await locked.enter_async_context(info.send_lock)
                await self._route_wait.wait_for(info, grouped=topic in grouped)
            except ArianeError as error:
                refused[topic] = error
        return refused

    async def info_of(self, topic: str, *, grouped: bool) -> TopicInfo:
        """Return what is known of a topic, once its route is known.

        Args:
            topic: The topic.
            grouped: Whether to wait for the order of queues as well, which message groups need; at
                most until the time is up.

        Raises:
            NameIllegal: The topic's name is illegal.
            CallError: The topic has no route.
        """
        info = self._info(topic)
        async with info.send_lock:
            await self._route_wait.wait_for(info, grouped=grouped)
        return info

    async def wait_for_routes(self) -> None:
        """Wait until no message waits for a route."""
        await self._route_wait.wait_for_all(self._topics.values())

    def _put_now(
        self,
        info: TopicInfo,
        message: Message,
        options: SendOptions,
        future: asyncio.Future[SendResult] | None,
    ) -> Row:
        """Add a message to the open row of its queue, which any queue may be; returns the row."""
        try:
            self.encoding.check(message)
            queue = None
            if message.message_group or options is not NO_OPTIONS:
                queue = info.pinned_queue(message, options)
            body, properties = self.encoding.encode(info.properties, message)
            born_ms = self._clock.now_ms()
            if isinstance(message, RelayedMessage):
                born_ms = message.born_timestamp_ms
            kind = delay_kind(message)
            time_ms = time_of(message, kind, born_ms)
        except TYPE_ERRORS:
            check_types(message)
            raise
        size = len(body)
        if options.half_of:
            row = self._open_rows.half(info, queue, options)
        elif queue is None:
            row = self._open_rows.for_any_queue(info, size, kind, options.demand)
        else:
            row = self._open_rows.for_queue(info, queue, size, kind, options)
        kept = message if row.grouped else None
        self._unsettled.size_bytes += row.add(body, properties, born_ms, future, time_ms, kept)
        if message.properties:
            note_span(row, message)
        return row

    def _info(self, topic: str) -> TopicInfo:
        """Return what is known of a topic, with or without a route."""
        known = self._topics.get(topic)
        if known is not None:
            return known
        parts = self._parts
        info = TopicInfo(
            checked_topic(topic),
            id_digits=parts.unique_ids.digit_count,
            sequenced=parts.settings.idempotent,
            sticky_first=parts.random.getrandbits(16),
            latencies=parts.latencies if parts.latencies.counts_all else None,
        )
        route = parts.session.routes.cached(topic)
        if route is not None:
            info.follow(route)
        self._topics[topic] = info
        return info

    def _properties_of(self, run: MessageRun) -> EncodedProperties | None:
        """The properties of messages; None if topic or tag break a rule."""
        try:
            return self._info(run.topic).properties.of_tag(checked_tag(run.tag))
        except (NameIllegal, MessageIllegal, RecordError):
            return None

    def _follow(self, route: Route) -> None:
        info = self._topics.get(route.topic)
        if info is not None and info.for_route.task is None:
            self._moves.follow(info, route)

    def _lose_route(self, topic: str) -> None:
        """Ask name servers anew about a topic that nobody could write to, and that is gone."""
        info = self._topics.get(topic)
        if info is not None and info.for_order.task is None:
            info.route = None


async def _outcome(future: asyncio.Future[SendResult]) -> Outcome:
    """Wait for the outcome of a message."""
    if not future.done():
        await asyncio.wait((future,))
    error = future.exception()
    if isinstance(error, ArianeError):
        return error
    return future.result()
