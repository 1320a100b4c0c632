"""From messages to batches: checks, queue choice, encoding."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from random import Random

from ariane_record.encoding.plain_topic import TagShape
from ariane_record.single.message_id import UniqueIdGenerator
from ariane_sdk.checks.delay import AT_ONCE, delay_kind
from ariane_sdk.checks.demand import Demand
from ariane_sdk.checks.limits import checked_tag, checked_topic
from ariane_sdk.checks.message_types import TYPE_ERRORS, check_sequence, check_types
from ariane_sdk.errors import MessageIllegal, NameIllegal
from ariane_sdk.message import Message, RelayedMessage, SendResult
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer.batches.open_batches import OpenBatches
from ariane_sdk.producer.batches.send_batch import SendBatch
from ariane_sdk.producer.batches.topic_lane import NO_OPTIONS, SendOptions, TopicLane
from ariane_sdk.producer.intake.block_intake import BlockIntake
from ariane_sdk.producer.intake.message_adding import MessageAdding
from ariane_sdk.producer.intake.mixed_intake import MixedIntake, Outcome
from ariane_sdk.producer.intake.plain_intake import PlainIntake
from ariane_sdk.producer.intake.plain_messages import PlainMessages
from ariane_sdk.producer.sending.group_moves import GroupMoves
from ariane_sdk.producer.sending.latency import BrokerLatencies
from ariane_sdk.producer.sending.route_wait import RouteWait
from ariane_sdk.producer.sending.sending import Sending
from ariane_sdk.routing.route import Route
from ariane_sdk.routing.routes import Routes
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.settings import ProducerSettings


class Intake:
    """Takes messages from the application and adds them to batches.

    Attributes:
        blocks: Sends messages that are encoded in one go.
    """

    def __init__(
        self,
        routes: Routes,
        sending: Sending,
        *,
        settings: ProducerSettings,
        clock: Clock,
        random: Random,
        unique_ids: UniqueIdGenerator,
        latencies: BrokerLatencies,
    ) -> None:
        self._routes = routes
        self._sending = sending
        self._unsettled = sending.unsettled
        self._random = random
        self._unique_ids = unique_ids
        self._latencies = latencies if latencies.counts_all else None
        self.blocks = BlockIntake(sending, settings=settings, clock=clock, unique_ids=unique_ids)
        self._plain = PlainIntake(self.blocks, batch_bytes_max=settings.batch_bytes_max)
        self._open = OpenBatches(sending, settings=settings, unique_ids=unique_ids, clock=clock)
        self._adding = MessageAdding(sending, settings=settings, clock=clock, unique_ids=unique_ids)
        self._plain_bytes_max = self._adding.plain_bytes_max
        self._loop = asyncio.get_running_loop()
        self._lanes: dict[str, TopicLane] = {}
        self._route_wait = RouteWait(
            routes,
            sending.unsettled,
            clock=clock,
            timeout_s=settings.send_timeout_s,
            place=self._place,
        )
        self._mixed = MixedIntake(
            self._lane, self._route_wait, self._open, self._adding, sending.unsettled
        )
        self._moves = GroupMoves(sending, self._place_anew)
        routes.on_change(self._follow)
        sending.on_gone(lambda batch: self._moves.take_over(self._lanes[batch.topic], batch))

    def take(self, message: Message, options: SendOptions) -> asyncio.Future[SendResult]:
        """Take one message; the future will hold its outcome.

        Raises:
            IllegalArgument: The message or its options break a rule.
            SendError: No broker takes messages for the topic.
        """
        future: asyncio.Future[SendResult] = self._loop.create_future()
        if options is not NO_OPTIONS or not self._take_plain(message, future):
            self._place_or_park(message, options, future)
        return future

    def _take_plain(self, message: Message, future: asyncio.Future[SendResult]) -> bool:
        """Take a message if it is plain and its topic is known.

        Returns:
            Whether the message was taken; a message that is not plain is not checked here.

        Raises:
            SendError: No broker takes messages for the topic.
        """
        try:
            lane = self._lanes.get(message.topic)
            if lane is None or lane.route is None:
                return False
            body = message.body
            shape = lane.plain.shapes.get(message.tag) or _new_shape(lane, message.tag)
            if (
                shape is None
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
                or type(message) is RelayedMessage
            ):
                return False
        except TYPE_ERRORS:
            return False
        return self._open.add_plain(lane, body, shape, future)

    def take_one_way(self, message: Message, options: SendOptions) -> None:
        """Take one message without reporting its outcome.

        Raises:
            IllegalArgument: The message or its options break a rule.
            SendError: No broker takes messages for the topic.
        """
        self._place_or_park(message, options, None)

    def withdraw(self, topic: str, future: asyncio.Future[SendResult]) -> bool:
        """Take back a message of ``take`` whose caller no longer waits.

        Returns:
            True if the message is surely not stored; False if a call carries it or it has its
            outcome.
        """
        future.cancel()
        lane = self._lanes.get(topic)
        if lane is not None and self._route_wait.withdraw(lane, future):
            return True
        return self._unsettled.withdraw(future)

    async def take_all(
        self, messages: Sequence[Message], demand: Demand | None = None
    ) -> Sequence[Outcome]:
        """Take many messages, and wait for their outcomes.

        Calls for the same topic take their turns: all messages of one call, then those of the next.

        Args:
            messages: The messages.
            demand: The level to reach; None for the broker's own.
        """
        check_sequence(messages)
        if demand is not None:
            return await self._mixed.take_all(messages, demand)
        plain = PlainMessages.of(messages, body_bytes_max=self._plain_bytes_max)
        shape = None if plain is None else self._shape_of(plain.topic, plain.tag)
        if plain is None or shape is None:
            return await self._mixed.take_all(messages)
        # The garbage collector scans all objects that are alive: thousands of messages that only
        # wait here would cost more in scans than in encoding.
        del messages
        lane = partial(self.lane_of, plain.topic, grouped=False)
        return await self._plain.take_all(plain, shape, lane)

    async def lane_of(self, topic: str, *, grouped: bool) -> TopicLane:
        """Return the lane of a topic, once its route is known.

        Args:
            topic: The topic.
            grouped: Whether to wait for the order of queues as well, which message groups need; at
                most until the time is up.

        Raises:
            NameIllegal: The topic's name is illegal.
            CallError: The topic has no route.
        """
        lane = self._lane(topic)
        async with lane.turn:
            await self._route_wait.wait_for(lane, grouped=grouped)
        return lane

    async def wait_for_routes(self) -> None:
        """Wait until no message waits for a route."""
        await self._route_wait.wait_for_all(self._lanes.values())

    def _place_or_park(
        self, message: Message, options: SendOptions, future: asyncio.Future[SendResult] | None
    ) -> None:
        try:
            lane = self._lane(message.topic)
            if self._route_wait.must_wait(lane, message, options):
                self._adding.check(message)
                self._route_wait.park(lane, message, options, future)
            else:
                self._put(lane, message, options, future)
        except TYPE_ERRORS:
            check_types(message)
            raise

    def _place(
        self,
        lane: TopicLane,
        message: Message,
        options: SendOptions,
        future: asyncio.Future[SendResult] | None,
    ) -> None:
        """Add a parked message to the open batch of its queue."""
        try:
            self._put(lane, message, options, future)
        except TYPE_ERRORS:
            check_types(message)
            raise

    def _put(
        self,
        lane: TopicLane,
        message: Message,
        options: SendOptions,
        future: asyncio.Future[SendResult] | None,
    ) -> None:
        self._adding.check(message)
        queue = None
        if message.message_group or options is not NO_OPTIONS:
            queue = lane.pinned_queue(message, options)
        self._add(lane, message, queue, future, options.demand, grouped=not options.names_queue)

    def _place_anew(
        self,
        lane: TopicLane,
        message: Message,
        future: asyncio.Future[SendResult],
        demand: Demand | None,
    ) -> SendBatch:
        """Add a message, whose group has lost its queue, to the open batch of its new queue."""
        queue = lane.pinned_queue(message, NO_OPTIONS)
        return self._add(lane, message, queue, future, demand, grouped=True)

    def _add(
        self,
        lane: TopicLane,
        message: Message,
        queue: MessageQueue | None,
        future: asyncio.Future[SendResult] | None,
        demand: Demand | None,
        *,
        grouped: bool,
    ) -> SendBatch:
        """Add a checked message to the open batch of a queue; None as queue means any queue."""
        size, kind = len(message.body), delay_kind(message)
        batch = self._open.batch_for(lane, queue, size, kind, demand, grouped=grouped)
        self._adding.add(batch, message, future)
        return batch

    def _lane(self, topic: str) -> TopicLane:
        """Return the lane of a topic, with or without a route."""
        return self._lanes.get(topic) or self._new_lane(topic)

    def _new_lane(self, topic: str) -> TopicLane:
        lane = TopicLane(
            checked_topic(topic),
            id_digits=self._unique_ids.digit_count,
            sticky_first=self._random.getrandbits(16),
            latencies=self._latencies,
        )
        route = self._routes.cached(topic)
        if route is not None:
            lane.follow(route)
        self._lanes[topic] = lane
        return lane

    def _shape_of(self, topic: str, tag: str) -> TagShape | None:
        """The shape of messages; None if they are not plain, or break a rule."""
        try:
            return _new_shape(self._lane(topic), tag)
        except NameIllegal:
            return None

    def _follow(self, route: Route) -> None:
        lane = self._lanes.get(route.topic)
        if lane is not None and lane.route_task is None:
            self._moves.follow(lane, route)


def _new_shape(lane: TopicLane, tag: str) -> TagShape | None:
    """Make the shape of messages with a new tag; None if the tag is illegal."""
    try:
        return lane.plain.shape_of(checked_tag(tag))
    except MessageIllegal:
        return None
