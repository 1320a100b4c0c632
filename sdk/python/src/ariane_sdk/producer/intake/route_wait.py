"""Messages that wait for name servers: for a route, or for the queue order of message groups."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from ariane_sdk.errors import (
    ArianeError,
    CallError,
    NameServersUnreachable,
    RouteNotFound,
    SendError,
)
from ariane_sdk.message import Message, SendResult
from ariane_sdk.net.error_copy import error_copy
from ariane_sdk.producer.accumulator.topic_lane import ParkedMessage, SendOptions, TopicLane
from ariane_sdk.producer.sending.unsettled import Unsettled
from ariane_sdk.routing.routes import Routes
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.runtime.log import logger
from ariane_sdk.runtime.tasks import start_task

ROUTE_RETRY_S: Final = 0.2
"""How long to wait before asking name servers again if none knew the answer."""

Place: TypeAlias = Callable[
    [TopicLane, Message, SendOptions, asyncio.Future[SendResult] | None], None
]
"""Puts a message into the open row of its queue."""


class RouteWait:
    """Asks name servers about a topic until they answer or time is up."""

    def __init__(
        self, routes: Routes, unsettled: Unsettled, *, clock: Clock, timeout_s: float, place: Place
    ) -> None:
        self._routes = routes
        self._unsettled = unsettled
        self._clock = clock
        self._timeout_s = timeout_s
        self._place = place

    def must_wait(self, lane: TopicLane, message: Message, options: SendOptions) -> bool:
        """Whether a message must be parked."""
        if lane.route is None:
            return True
        return bool(message.message_group) and not options.names_queue and lane.groups_wait

    def park(
        self,
        lane: TopicLane,
        message: Message,
        options: SendOptions,
        future: asyncio.Future[SendResult] | None,
    ) -> None:
        """Park a message, and ask name servers."""
        size_bytes = len(message.body)
        self._unsettled.size_bytes += size_bytes
        parked = ParkedMessage(message, options, future, size_bytes)
        if lane.route is None:
            lane.parked.append(parked)
            self._start_learning(lane)
        else:
            lane.parked_groups.append(parked)
            self._start_ordering(lane)

    async def wait_for(self, lane: TopicLane, *, grouped: bool) -> None:
        """Wait until the route of a topic is known.

        Args:
            lane: The topic.
            grouped: Whether to wait for the order of queues as well, which message groups need; at
                most until the time is up.

        Raises:
            SendError: The topic has no route.
        """
        try:
            if lane.route is None:
                await asyncio.wait((self._start_learning(lane),))
            if lane.route is None and lane.refusal is not None:
                raise lane.refusal
            if grouped and lane.groups_wait:
                await asyncio.wait((self._start_ordering(lane),))
        except asyncio.CancelledError:
            _stop_asking(lane)
            raise

    def withdraw(self, lane: TopicLane, future: asyncio.Future[SendResult]) -> bool:
        """Drop a message that waits here, and stop asking if no other message waits.

        Returns:
            Whether the message was here.
        """
        for parked in (lane.parked, lane.parked_groups):
            for position, each in enumerate(parked):
                if each.future is future:
                    del parked[position]
                    self._unsettled.release(each.size_bytes)
                    if not lane.turn.locked():
                        _stop_asking(lane)
                    return True
        return False

    async def wait_for_all(self, lanes: Iterable[TopicLane]) -> None:
        """Wait until no message is parked."""
        waiting = list(lanes)
        # The end of a wait for a route may begin a wait for the order of queues.
        await _wait([lane.route_task for lane in waiting])
        await _wait([lane.order_task for lane in waiting])

    def _start_learning(self, lane: TopicLane) -> asyncio.Task[None]:
        if lane.route_task is None:
            lane.route_task = start_task(self._learn_route(lane), f"route-{lane.topic}")
        return lane.route_task

    def _start_ordering(self, lane: TopicLane) -> asyncio.Task[None]:
        if lane.order_task is None:
            lane.order_task = start_task(self._learn_order(lane), f"order-{lane.topic}")
        return lane.order_task

    async def _learn_route(self, lane: TopicLane) -> None:
        """Query a route until it is known or time is up; then send or refuse parked messages."""
        deadline_s = self._clock.monotonic_s() + self._timeout_s
        lane.refusal = None
        while True:
            try:
                lane.follow(await self._routes.get_for_send(lane.topic))
            except CallError as error:
                if _may_pass(error) and self._clock.monotonic_s() < deadline_s:
                    await self._clock.sleep(ROUTE_RETRY_S)
                    continue
                lane.refusal = error_copy(error, SendError)
                lane.refusal.__cause__ = error
            break
        lane.route_task = None
        parked, lane.parked = lane.parked, []
        self._release(lane, parked, self._place_or_park)

    async def _learn_order(self, lane: TopicLane) -> None:
        """Ask for the order of queues; then send or refuse the messages that wait for it."""
        deadline_s = self._clock.monotonic_s() + self._timeout_s
        while True:
            route = await self._routes.settle_groups(lane.topic)
            if not route.groups_wait or self._clock.monotonic_s() >= deadline_s:
                break
            await self._clock.sleep(ROUTE_RETRY_S)
        lane.order_task = None
        parked, lane.parked_groups = lane.parked_groups, []
        self._release(lane, parked, self._place)

    def _place_or_park(
        self,
        lane: TopicLane,
        message: Message,
        options: SendOptions,
        future: asyncio.Future[SendResult] | None,
    ) -> None:
        """Place a parked message, now that the route is known; its group may have to wait on."""
        if lane.route is None and lane.refusal is not None:
            raise lane.refusal
        if self.must_wait(lane, message, options):
            self.park(lane, message, options, future)
        else:
            self._place(lane, message, options, future)

    def _release(self, lane: TopicLane, parked: Iterable[ParkedMessage], place: Place) -> None:
        for message, options, future, size_bytes in parked:
            self._unsettled.release(size_bytes)
            if future is not None and future.done():
                continue
            try:
                place(lane, message, options, future)
            except Exception as error:  # noqa: BLE001 - a selector may raise anything.
                if future is not None:
                    future.set_exception(error)
                elif not isinstance(error, ArianeError):
                    logger.warning("a message of %s is not sent", lane.topic, exc_info=True)


def _may_pass(error: CallError) -> bool:
    if isinstance(error, RouteNotFound):
        return "warming_up" in error.metadata or "queue_order" in error.metadata
    return isinstance(error, NameServersUnreachable)


def _stop_asking(lane: TopicLane) -> None:
    """Stop asking about a topic for which no message and no call waits."""
    if lane.route_task is not None and not lane.parked:
        lane.route_task.cancel()
        lane.route_task = None
    if lane.order_task is not None and not lane.parked_groups:
        lane.order_task.cancel()
        lane.order_task = None


async def _wait(tasks: Iterable[asyncio.Task[None] | None]) -> None:
    running = [task for task in tasks if task is not None]
    if running:
        await asyncio.wait(running)
