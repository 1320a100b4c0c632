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
from ariane_sdk.producer.accumulator.topic_info import ParkedMessage, SendOptions, TopicInfo
from ariane_sdk.producer.sending.unsettled import Unsettled
from ariane_sdk.routing.routes import Routes
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.runtime.log import logger
from ariane_sdk.runtime.tasks import start_task

ROUTE_RETRY_S: Final = 0.2
"""How long to wait before asking name servers again if none knew the answer."""

Put: TypeAlias = Callable[
    [TopicInfo, Message, SendOptions, asyncio.Future[SendResult] | None], None
]
"""Puts a message into the open row of its queue."""


class RouteWait:
    """Asks name servers about a topic until they answer or time is up."""

    def __init__(
        self, routes: Routes, unsettled: Unsettled, *, clock: Clock, timeout_s: float, put: Put
    ) -> None:
        self._routes = routes
        self._unsettled = unsettled
        self._clock = clock
        self._timeout_s = timeout_s
        self._put = put

    def must_wait(self, info: TopicInfo, message: Message, options: SendOptions) -> bool:
        """Whether a message must be parked."""
        if info.route is None:
            return True
        return bool(message.message_group) and not options.names_queue and info.groups_wait

    def park(
        self,
        info: TopicInfo,
        message: Message,
        options: SendOptions,
        future: asyncio.Future[SendResult] | None,
    ) -> None:
        """Park a message, and ask name servers."""
        size_bytes = len(message.body)
        self._unsettled.size_bytes += size_bytes
        parked = ParkedMessage(message, options, future, size_bytes)
        if info.route is None:
            info.parked.append(parked)
            self._start_learning(info)
        else:
            info.parked_groups.append(parked)
            self._start_ordering(info)

    async def wait_for(self, info: TopicInfo, *, grouped: bool) -> None:
        """Wait until the route of a topic is known.

        Args:
            info: The topic.
            grouped: Whether to wait for the order of queues as well, which message groups need; at
                most until the time is up.

        Raises:
            SendError: The topic has no route.
        """
        try:
            if info.route is None:
                await asyncio.wait((self._start_learning(info),))
            if info.route is None and info.refusal is not None:
                raise info.refusal
            if grouped and info.groups_wait:
                await asyncio.wait((self._start_ordering(info),))
        except asyncio.CancelledError:
            _stop_asking(info)
            raise

    def withdraw(self, info: TopicInfo, future: asyncio.Future[SendResult]) -> bool:
        """Drop a message that waits here, and stop asking if no other message waits.

        Returns:
            Whether the message was here.
        """
        for parked in (info.parked, info.parked_groups):
            for position, each in enumerate(parked):
                if each.future is future:
                    del parked[position]
                    self._unsettled.release(each.size_bytes)
                    if not info.send_lock.locked():
                        _stop_asking(info)
                    return True
        return False

    async def wait_for_all(self, infos: Iterable[TopicInfo]) -> None:
        """Wait until no message is parked."""
        waiting = list(infos)
        # The end of a wait for a route may begin a wait for the order of queues.
        await _wait([info.route_task for info in waiting])
        await _wait([info.order_task for info in waiting])

    def _start_learning(self, info: TopicInfo) -> asyncio.Task[None]:
        if info.route_task is None:
            info.route_task = start_task(self._learn_route(info), f"route-{info.topic}")
        return info.route_task

    def _start_ordering(self, info: TopicInfo) -> asyncio.Task[None]:
        if info.order_task is None:
            info.order_task = start_task(self._learn_order(info), f"order-{info.topic}")
        return info.order_task

    async def _learn_route(self, info: TopicInfo) -> None:
        """Query a route until it is known or time is up; then send or refuse parked messages."""
        deadline_s = self._clock.monotonic_s() + self._timeout_s
        info.refusal = None
        while True:
            try:
                info.follow(await self._routes.get_for_send(info.topic))
                info.trouble = None
            except CallError as error:
                info.trouble = error
                if _may_pass(error) and self._clock.monotonic_s() < deadline_s:
                    await self._clock.sleep(ROUTE_RETRY_S)
                    continue
                info.refusal = error_copy(error, SendError)
                info.refusal.__cause__ = error
            break
        info.route_task = None
        parked, info.parked = info.parked, []
        self._release(info, parked, self._put_or_park)

    async def _learn_order(self, info: TopicInfo) -> None:
        """Ask for the order of queues; then send or refuse the messages that wait for it."""
        deadline_s = self._clock.monotonic_s() + self._timeout_s
        while True:
            route = await self._routes.settle_groups(info.topic)
            if not route.groups_wait or self._clock.monotonic_s() >= deadline_s:
                break
            await self._clock.sleep(ROUTE_RETRY_S)
        info.order_task = None
        parked, info.parked_groups = info.parked_groups, []
        self._release(info, parked, self._put)

    def _put_or_park(
        self,
        info: TopicInfo,
        message: Message,
        options: SendOptions,
        future: asyncio.Future[SendResult] | None,
    ) -> None:
        """Place a parked message, now that the route is known; its group may have to wait on."""
        if info.route is None and info.refusal is not None:
            raise info.refusal
        if self.must_wait(info, message, options):
            self.park(info, message, options, future)
        else:
            self._put(info, message, options, future)

    def _release(self, info: TopicInfo, parked: Iterable[ParkedMessage], put: Put) -> None:
        for message, options, future, size_bytes in parked:
            self._unsettled.release(size_bytes)
            if future is not None and future.done():
                continue
            try:
                put(info, message, options, future)
            except Exception as error:  # noqa: BLE001 - a selector may raise anything.
                if future is not None:
                    future.set_exception(error)
                elif not isinstance(error, ArianeError):
                    logger.warning("a message of %s is not sent", info.topic, exc_info=True)


def _may_pass(error: CallError) -> bool:
    if isinstance(error, RouteNotFound):
        return error.may_come_back
    return isinstance(error, NameServersUnreachable)


def _stop_asking(info: TopicInfo) -> None:
    """Stop asking about a topic for which no message and no call waits."""
    if info.route_task is not None and not info.parked:
        info.route_task.cancel()
        info.route_task = None
    if info.order_task is not None and not info.parked_groups:
        info.order_task.cancel()
        info.order_task = None


async def _wait(tasks: Iterable[asyncio.Task[None] | None]) -> None:
    running = [task for task in tasks if task is not None]
    if running:
        await asyncio.wait(running)
