"""Many messages of any topics and kinds in one call: sorted by their batches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import NamedTuple, TypeAlias

from ariane_sdk.checks.delay import delay_kind
from ariane_sdk.checks.demand import Demand
from ariane_sdk.checks.message_types import TYPE_ERRORS, check_types
from ariane_sdk.errors import ArianeError, MessageIllegal
from ariane_sdk.message import Message, SendResult
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer.batches.open_batches import OpenBatches
from ariane_sdk.producer.batches.send_batch import SendBatch
from ariane_sdk.producer.batches.singles_batch import SinglesBatch
from ariane_sdk.producer.batches.topic_lane import NO_OPTIONS, TopicLane
from ariane_sdk.producer.intake.message_adding import MessageAdding
from ariane_sdk.producer.sending.route_wait import RouteWait
from ariane_sdk.producer.sending.unsettled import Unsettled

Outcome: TypeAlias = SendResult | ArianeError


class Share(NamedTuple):
    """The messages of one ``take_all`` that go into the same open batch.

    Attributes:
        lane: Their topic.
        queue: Their queue; None if any will do.
        positions: Positions of these messages in the call.
        delay_kind: Their kind of delay.
    """

    lane: TopicLane
    queue: MessageQueue | None
    positions: list[int]
    delay_kind: int


class BatchPart(NamedTuple):
    """Neighbouring messages of a batch that came from one ``take_all``.

    Attributes:
        batch: The batch.
        first: Place of the first of them in the batch.
        positions: Positions of these messages in the call.
    """

    batch: SendBatch
    first: int
    positions: list[int]


class MixedIntake:
    """Takes many messages that are not all plain, and sends them."""

    def __init__(
        self,
        lane_of: Callable[[str], TopicLane],
        route_wait: RouteWait,
        open_batches: OpenBatches,
        adding: MessageAdding,
        unsettled: Unsettled,
    ) -> None:
        self._lane_of = lane_of
        self._route_wait = route_wait
        self._open = open_batches
        self._adding = adding
        self._unsettled = unsettled

    async def take_all(
        self, messages: Sequence[Message], demand: Demand | None = None
    ) -> Sequence[Outcome]:
        """Send messages, and wait for their outcomes."""
        outcomes: dict[int, Outcome] = {}
        parts: list[BatchPart] = []
        async with AsyncExitStack() as turns:
            try:
                shares = await self._shares(messages, outcomes, turns)
            except TYPE_ERRORS:
                # No message was sent yet.
                for message in messages:
                    check_types(message)
                raise
            for share in shares:
                await self._encode(messages, share, outcomes, parts, demand)
        for batch, first, positions in parts:
            if not positions:
                continue  # The batch got no message, and may never be sent.
            await batch.wait_settled()
            batch_outcomes = batch.outcomes_of(first, len(positions))
            outcomes.update(zip(positions, batch_outcomes, strict=True))
        return [outcomes[position] for position in range(len(messages))]

    async def _shares(
        self, messages: Sequence[Message], outcomes: dict[int, Outcome], turns: AsyncExitStack
    ) -> Sequence[Share]:
        """Sort messages by their batches; order is kept."""
        refused: dict[str, ArianeError] = {}
        grouped = {message.topic for message in messages if message.message_group}
        # Topics are sorted, so that two calls cannot wait for each other.
        for topic in sorted({message.topic for message in messages}):
            try:
                lane = self._lane_of(topic)
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
            lane = self._lane_of(topic)
            if message.message_group:
                try:
                    queue = lane.pinned_queue(message, NO_OPTIONS)
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
        demand: Demand | None,
    ) -> None:
        """Encode messages that share a queue; full batches are sent while others are encoded."""
        lane, queue, positions, kind = share
        batch: SinglesBatch | None = None
        for position in positions:
            message = messages[position]
            try:
                self._adding.check(message)
                fits = batch is not None and self._open.fits(batch, len(message.body))
                if batch is None or not fits or batch.count >= batch.cut_count:
                    if not fits:
                        # A full batch is sent now, and other sends have their turn.
                        await self._yield_for_room()
                    grouped = queue is not None
                    size = len(message.body)
                    batch = self._open.batch_for(lane, queue, size, kind, demand, grouped=grouped)
                    parts.append(BatchPart(batch, batch.next_place, []))
                self._adding.add(batch, message, None)
            except (ArianeError, *TYPE_ERRORS) as error:
                outcomes[position] = _refusal_of(message, error)
            else:
                parts[-1].positions.append(position)

    async def _yield_for_room(self) -> None:
        if self._unsettled.size_bytes:
            await asyncio.sleep(0)
            await self._unsettled.wait_for_room()


def _refusal_of(message: Message, error: Exception) -> ArianeError:
    """Turn an error into the outcome of the one message that caused it.

    Raises:
        Exception: The error itself, if the message did not cause it.
    """
    if isinstance(error, ArianeError):
        return error
    try:
        check_types(message)
    except MessageIllegal as refusal:
        return refusal
    raise error
