"""From messages to batches: checks, queue choice, encoding."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from random import Random
from typing import Final, NamedTuple, TypeAlias

from ariane_record.errors import RecordError
from ariane_record.single.message_id import UniqueIdGenerator
from ariane_sdk.checks.delay import (
    check_delay,
    check_delivery_time,
    delay_kind,
    is_delayed,
)
from ariane_sdk.checks.limits import (
    check_body_size,
    check_property_names,
    checked_tag,
    checked_topic,
    refusal_of,
)
from ariane_sdk.checks.message_types import TYPE_ERRORS, check_sequence, check_types
from ariane_sdk.errors import ArianeError, MessageIllegal
from ariane_sdk.message import Message, MessageQueue, SendResult
from ariane_sdk.producer.batches.block_intake import BlockIntake
from ariane_sdk.producer.batches.body_packing import BodyPacking
from ariane_sdk.producer.batches.open_batches import OpenBatches
from ariane_sdk.producer.batches.plain_intake import PlainIntake
from ariane_sdk.producer.batches.plain_messages import PlainMessages
from ariane_sdk.producer.batches.plain_singles import PlainSingles
from ariane_sdk.producer.batches.send_batch import SendBatch
from ariane_sdk.producer.batches.singles_batch import SinglesBatch
from ariane_sdk.producer.batches.topic_lane import NO_WISH, QueueWish, TopicLane
from ariane_sdk.producer.sending.group_moves import GroupMoves
from ariane_sdk.producer.sending.latency import BrokerLatencies
from ariane_sdk.producer.sending.route_wait import RouteWait
from ariane_sdk.producer.sending.send_buffer import SendBuffer
from ariane_sdk.producer.sending.sending import Sending
from ariane_sdk.routing.route import Route
from ariane_sdk.routing.routes import Routes
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.settings import ProducerSettings

TAGS_REMEMBERED_MAX: Final = 4096
"""Tags that are known to be legal."""

Outcome: TypeAlias = SendResult | ArianeError


class Share(NamedTuple):
    """Messages of one call of ``take_all`` that go into the same open batch.

    Attributes:
        lane: Their topic.
        queue: Their queue, or nothing when any will do.
        positions: Which of the messages.
        delay_kind: Their kind of delay.
    """

    lane: TopicLane
    queue: MessageQueue | None
    positions: list[int]
    delay_kind: int


class BatchPart(NamedTuple):
    """Neighbours in one batch that came from one call of ``take_all``.

    Attributes:
        batch: The batch.
        first: Place of the first of them in it.
        positions: Which of the messages.
    """

    batch: SendBatch
    first: int
    positions: list[int]


class Intake:
    """Takes messages and sends them.

    Attributes:
        blocks: Sends what is encoded in one go.
    """

    def __init__(
        self,
        routes: Routes,
        sending: Sending,
        buffer: SendBuffer,
        *,
        settings: ProducerSettings,
        clock: Clock,
        random: Random,
        unique_ids: UniqueIdGenerator,
        latencies: BrokerLatencies,
    ) -> None:
        self._routes = routes
        self._sending = sending
        self._buffer = buffer
        self._settings = settings
        self._clock = clock
        self._random = random
        self._unique_ids = unique_ids
        by_latency = settings.queue_choice == "least_latency"
        self._latencies = latencies if by_latency else None
        self._packing = BodyPacking(settings)
        self.blocks = BlockIntake(
            sending, buffer, settings=settings, clock=clock, new_unique_ids=unique_ids.next_id_run
        )
        self._plain = PlainIntake(self.blocks, batch_bytes_max=settings.batch_bytes_max)
        self._open = OpenBatches(sending, settings=settings, unique_ids=unique_ids, clock=clock)
        plain_bytes_max = min(settings.body_bytes_max, self._packing.size_bytes_min - 1)
        self._plain_bytes_max = plain_bytes_max
        self._loop = asyncio.get_running_loop()
        self._lanes: dict[str, TopicLane] = {}
        self._singles = PlainSingles(
            self._lanes,
            self._open,
            sending,
            buffer,
            clock=clock,
            body_bytes_max=plain_bytes_max,
            batch_bytes_max=settings.batch_bytes_max,
            bundle_bytes_max=min(settings.batch_bytes_max, settings.request_bytes_max),
        )
        self._tags_seen: set[str] = set()
        self._route_wait = RouteWait(
            routes, buffer, clock=clock, timeout_s=settings.send_timeout_s, place=self._place
        )
        self._moves = GroupMoves(sending, self._place_anew)
        routes.on_change(self._follow)
        sending.on_gone(lambda batch: self._moves.take_over(self._lanes[batch.topic], batch))

    def take(self, message: Message, wish: QueueWish) -> asyncio.Future[SendResult]:
        """Take one message; the future has its outcome.

        Raises:
            IllegalArgument: Message or wish break a rule.
            SendError: No broker takes messages for the topic.
        """
        future: asyncio.Future[SendResult] = self._loop.create_future()
        if wish is not NO_WISH or not self._singles.take(message, future):
            self._place_or_park(message, wish, future)
        return future

    def take_one_way(self, message: Message, wish: QueueWish) -> None:
        """Take one message whose outcome nobody wants to know.

        Raises:
            IllegalArgument: Message or wish break a rule.
            SendError: No broker takes messages for the topic.
        """
        self._place_or_park(message, wish, None)

    def withdraw(self, topic: str, future: asyncio.Future[SendResult]) -> bool:
        """Take back a message of ``take`` whose future is no longer waited for.

        Returns:
            Whether it will surely not be stored; otherwise it has left, or has its outcome.
        """
        future.cancel()
        lane = self._lanes.get(topic)
        if lane is not None and self._route_wait.withdraw(lane, future):
            return True
        return self._sending.unsettled.withdraw(future)

    async def take_all(self, messages: Sequence[Message]) -> Sequence[Outcome]:
        """Take many messages, and wait for their outcomes.

        Calls for the same topic have their messages taken one call after the other.
        """
        check_sequence(messages)
        plain = PlainMessages.of(messages, body_bytes_max=self._plain_bytes_max)
        if plain is not None:
            # Thousands of messages that only wait here would cost the garbage collector more than
            # they cost to encode: it looks at all that live.
            del messages
            lane = partial(self.lane_of, plain.topic, grouped=False)
            return await self._plain.take_all(plain, lane)
        outcomes: dict[int, Outcome] = {}
        parts: list[BatchPart] = []
        async with AsyncExitStack() as turns:
            try:
                shares = await self._shares(messages, outcomes, turns)
            except TYPE_ERRORS:
                # Nothing was sent yet.
                for message in messages:
                    check_types(message)
                raise
            for share in shares:
                await self._encode(messages, share, outcomes, parts)
        for batch, first, positions in parts:
            if not positions:
                continue  # All were refused: it may never be sent.
            await batch.wait_settled()
            batch_outcomes = batch.outcomes_of(first, len(positions))
            outcomes.update(zip(positions, batch_outcomes, strict=True))
        return [outcomes[position] for position in range(len(messages))]

    async def lane_of(self, topic: str, *, grouped: bool) -> TopicLane:
        """The lane of a topic, once its route is known.

        Args:
            topic: The topic.
            grouped: Whether to wait until it is known where message groups belong as well, or until
                time is up.

        Raises:
            NameIllegal: No topic may be called so.
            CallError: There is no route.
        """
        lane = self._lanes.get(topic) or self._new_lane(topic)
        async with lane.turn:
            await self._route_wait.wait_for(lane, grouped=grouped)
        return lane

    async def wait_for_routes(self) -> None:
        """Wait until no message waits for a route any longer."""
        await self._route_wait.wait_for_all(self._lanes.values())

    def _place_or_park(
        self, message: Message, wish: QueueWish, future: asyncio.Future[SendResult] | None
    ) -> None:
        try:
            lane = self._lanes.get(message.topic) or self._new_lane(message.topic)
            if self._route_wait.must_wait(lane, message, wish):
                self._check(message)
                self._route_wait.park(lane, message, wish, future)
            else:
                self._put(lane, message, wish, future)
        except TYPE_ERRORS:
            check_types(message)
            raise

    def _place(
        self,
        lane: TopicLane,
        message: Message,
        wish: QueueWish,
        future: asyncio.Future[SendResult] | None,
    ) -> None:
        """Put a message that was parked into the open batch of its queue."""
        try:
            self._put(lane, message, wish, future)
        except TYPE_ERRORS:
            check_types(message)
            raise

    def _put(
        self,
        lane: TopicLane,
        message: Message,
        wish: QueueWish,
        future: asyncio.Future[SendResult] | None,
    ) -> None:
        self._check(message)
        queue = None
        if message.message_group or wish is not NO_WISH:
            queue = lane.pinned_queue(message, wish)
        self._add(lane, message, queue, future, grouped=wish is NO_WISH)

    def _place_anew(
        self, lane: TopicLane, message: Message, future: asyncio.Future[SendResult]
    ) -> SendBatch:
        """Put a message of a group, whose queue is gone, into the open batch of its new one."""
        return self._add(lane, message, lane.pinned_queue(message, NO_WISH), future, grouped=True)

    def _add(
        self,
        lane: TopicLane,
        message: Message,
        queue: MessageQueue | None,
        future: asyncio.Future[SendResult] | None,
        *,
        grouped: bool,
    ) -> SendBatch:
        """Put a message that was checked into the open batch of a queue, or of none."""
        kind = delay_kind(message)
        batch = self._batch_for(lane, queue, len(message.body), kind, grouped=grouped)
        body, system_flag = message.body, 0
        if len(body) >= self._packing.size_bytes_min:
            body, system_flag = self._packing.packed(body)
        try:
            size_bytes = batch.add(
                message,
                self._unique_ids.next_id(),
                self._clock.now_ms(),
                future,
                body=body,
                system_flag=system_flag,
            )
        except RecordError as error:
            raise refusal_of(error) from error
        self._buffer.size_bytes += size_bytes
        if batch.count == 1:
            self._sending.add(batch)
        return batch

    def _batch_for(
        self,
        lane: TopicLane,
        queue: MessageQueue | None,
        body_bytes: int,
        kind: int,
        *,
        grouped: bool,
    ) -> SinglesBatch:
        if queue is None:
            return self._open.unpinned(lane, body_bytes, delay_kind=kind)
        return self._open.pinned(lane, queue, body_bytes, delay_kind=kind, grouped=grouped)

    def _check(self, message: Message) -> None:
        body_bytes_max = self._settings.body_bytes_max
        if len(message.body) > body_bytes_max:
            check_body_size(len(message.body), body_bytes_max)
        if message.tag not in self._tags_seen:
            if len(self._tags_seen) >= TAGS_REMEMBERED_MAX:
                self._tags_seen.clear()
            self._tags_seen.add(checked_tag(message.tag))
        if message.properties:
            check_property_names(message)
        if is_delayed(message):
            check_delay(message)
            check_delivery_time(message, self._clock.now_ms(), self._settings.delay_days_max)
        if isinstance(message.keys, str):
            raise MessageIllegal(f"keys {message.keys!r}: a tuple of texts is expected, not a text")

    async def _shares(
        self, messages: Sequence[Message], outcomes: dict[int, Outcome], turns: AsyncExitStack
    ) -> Sequence[Share]:
        """Sort messages by the batch they go into, order kept.

        Args:
            messages: The messages.
            outcomes: Where refusals are put.
            turns: Keeps later calls for the same topics waiting until it is closed.
        """
        refused: dict[str, ArianeError] = {}
        grouped = {message.topic for message in messages if message.message_group}
        # Sorted, so that no two calls wait for each other.
        for topic in sorted({message.topic for message in messages}):
            try:
                lane = self._lanes.get(topic) or self._new_lane(topic)
                await turns.enter_async_context(lane.turn)
                await self._route_wait.wait_for(lane, grouped=topic in grouped)
            except ArianeError as error:
                refused[topic] = error
        shares: dict[tuple[str | MessageQueue, int], Share] = {}
        for position, message in enumerate(messages):
            topic = message.topic
            queue = None
            if topic in refused:
                outcomes[position] = refused[topic]
                continue
            lane = self._lanes[topic]
            if message.message_group:
                try:
                    queue = lane.pinned_queue(message, NO_WISH)
                except ArianeError as error:
                    outcomes[position] = error
                    continue
            kind = delay_kind(message)
            key = (queue or topic, kind)
            share = shares.get(key)
            if share is None:
                share = shares[key] = Share(lane, queue, [], kind)
            share.positions.append(position)
        return list(shares.values())

    async def _encode(
        self,
        messages: Sequence[Message],
        share: Share,
        outcomes: dict[int, Outcome],
        parts: list[BatchPart],
    ) -> None:
        """Encode messages that share a queue; calls leave while later ones are still encoded."""
        lane, queue, positions, kind = share
        batch: SinglesBatch | None = None
        now_ms = self._clock.now_ms()
        for position in positions:
            message = messages[position]
            try:
                self._check(message)
                fits = batch is not None and self._open.fits(batch, len(message.body))
                if batch is None or not fits or batch.count >= batch.cut_count:
                    if not fits:
                        # A batch is full: let it leave, and let others have their turn.
                        await self._yield_for_room()
                    batch = self._batch_for(
                        lane, queue, len(message.body), kind, grouped=queue is not None
                    )
                    parts.append(BatchPart(batch, batch.next_place, []))
                body, system_flag = message.body, 0
                if len(body) >= self._packing.size_bytes_min:
                    body, system_flag = self._packing.packed(body)
                size_bytes = batch.add(
                    message,
                    self._unique_ids.next_id(),
                    now_ms,
                    None,
                    body=body,
                    system_flag=system_flag,
                )
            except (RecordError, ArianeError, *TYPE_ERRORS) as error:
                outcomes[position] = _refusal_of(message, error)
            else:
                self._buffer.size_bytes += size_bytes
                parts[-1].positions.append(position)
                if batch.count == 1:
                    self._sending.add(batch)

    async def _yield_for_room(self) -> None:
        if self._buffer.size_bytes:
            await asyncio.sleep(0)
            await self._buffer.wait_for_room()

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

    def _follow(self, route: Route) -> None:
        lane = self._lanes.get(route.topic)
        if lane is not None and lane.route_task is None:
            self._moves.follow(lane, route)


def _refusal_of(message: Message, error: Exception) -> ArianeError:
    """Why a message of many is not sent.

    Raises:
        Exception: The error itself, when it is not the message's fault.
    """
    if isinstance(error, RecordError):
        return refusal_of(error)
    if isinstance(error, ArianeError):
        return error
    try:
        check_types(message)
    except MessageIllegal as refusal:
        return refusal
    raise error
