"""Message groups that move to other queues because their queues are gone.

When a topic gets fewer queues to write, its message groups are divided among the remaining ones.
The broker refuses batches in flight to the other queues, or has stored them just before. No later
message of a group may overtake an earlier one, so groups move in three steps:

1. The new route is known, but some batches of groups for lost queues are **in flight**. Later
messages of the groups still go to the old queues, and wait there behind these batches.
2. When none is in flight any more, and none is repeated because it may be stored, the other batches
are taken back: those that were refused, and those that wait behind them.
3. Their messages are put into batches anew, in their order. From then on groups follow the route.

A queue is lost if its broker is in the route without it. A broker that is missing from the route
may come back with its queues: its batches wait for it, and other groups go on. Messages whose
sender named the queue do not move.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from ariane_sdk.checks.demand import Demand
from ariane_sdk.errors import ArianeError, SendError
from ariane_sdk.message import Message, SendResult
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer.batches.grouped_batch import GroupedBatch
from ariane_sdk.producer.batches.send_batch import SendBatch
from ariane_sdk.producer.batches.topic_lane import TopicLane
from ariane_sdk.producer.sending.sending import Sending
from ariane_sdk.routing.route import Route

PlaceAnew: TypeAlias = Callable[
    [TopicLane, Message, asyncio.Future[SendResult], Demand | None], SendBatch
]
"""Puts a checked message into the open batch of its group's queue; returns the batch's queue."""


class GroupMoves:
    """Makes message groups follow the routes of their topics."""

    def __init__(self, sending: Sending, place_anew: PlaceAnew) -> None:
        self._sending = sending
        self._place_anew = place_anew
        # For each topic the one batch that it waits for, and the route: batches that land meanwhile
        # cost one comparison, and no search through everything in flight.
        self._awaited: dict[str, tuple[SendBatch, Route | None]] = {}

    def follow(self, lane: TopicLane, route: Route) -> None:
        """Make a topic follow a route; its message groups follow as soon as none is overtaken."""
        lane.groups_held = True
        lane.follow(route)
        self._move(lane)

    def take_over(self, lane: TopicLane, batch: SendBatch) -> bool:
        """Move a batch that was refused, or keep it until others in flight have landed.

        Returns:
            Whether the batch's queue is lost; for other batches the caller decides.
        """
        if batch.maybe_stored or not _is_homeless(batch, lane.route):
            return False
        self._look_again(lane)
        return True

    def _look_again(self, lane: TopicLane) -> None:
        """Move batches, unless the awaited batch is still in flight."""
        batch, route = self._awaited.get(lane.topic, (None, None))
        if batch is None or batch.settled or lane.route is not route or not _is_away(batch):
            self._move(lane)

    def _move(self, lane: TopicLane) -> None:
        """Move the batches of lost queues, now or when none of them is in flight."""
        grouped = [
            batch
            for batch in self._sending.unsettled.of_topic(lane.topic)
            if isinstance(batch, GroupedBatch)
        ]
        homeless = [batch for batch in grouped if _is_homeless(batch, lane.route)]
        self._sending.release(set(grouped).difference(homeless))
        # The batch sent last mostly lands last.
        away = next(filter(_is_away, reversed(homeless)), None)
        if away is not None:
            self._awaited[lane.topic] = away, lane.route
            self._sending.unsettled.await_landing(lane.topic, partial(self._look_again, lane))
            return
        self._awaited.pop(lane.topic, None)
        self._sending.unsettled.await_landing(lane.topic, None)
        lane.follow_groups()
        if homeless:
            self._sending.take_out(homeless)
            lane.close_pinned()
            for batch in homeless:
                self._send_anew(lane, batch)
            # Later messages have later deadlines than these.
            lane.close_pinned()

    def _send_anew(self, lane: TopicLane, gone: GroupedBatch) -> None:
        deadline_s = gone.deadline_s
        for message, future in gone.take_apart():
            try:
                batch = self._place_anew(lane, message, future, gone.demand)
            except ArianeError as error:
                if not future.done():
                    future.set_exception(_refusal(error))
            else:
                batch.deadline_s = min(batch.deadline_s, deadline_s)


def _is_away(batch: SendBatch) -> bool:
    """Whether a batch may be stored in its queue by now, or soon."""
    return batch.in_flight or batch.maybe_stored


def _is_homeless(batch: SendBatch, route: Route | None) -> bool:
    """Whether a batch is of message groups that the route puts into other queues."""
    if route is None or not isinstance(batch, GroupedBatch):
        return False
    return _is_gone(batch.queue, route.group_queues, route)


def _is_gone(queue: MessageQueue, group_queues: Sequence[MessageQueue], route: Route) -> bool:
    broker = route.broker(queue.broker_name)
    is_there = broker is not None and bool(broker.primary_address)
    return is_there and bool(group_queues) and queue not in group_queues


def _refusal(error: ArianeError) -> SendError:
    """The error for messages that no queue takes any more."""
    said = str(error).removesuffix(".")
    refusal = SendError(f"{said}; it was not stored", reason=error.reason, retriable=True)
    refusal.__cause__ = error
    return refusal
