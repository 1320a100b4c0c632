"""Messages that wait for name servers: for a route, or for the queue order of message groups."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Final

from ariane_sdk.errors import (
    ArianeError,
    CallError,
    NameServersUnreachable,
    RouteNotFound,
    SendError,
)
from ariane_sdk.message import Message, SendResult
from ariane_sdk.net.error_copy import error_copy
from ariane_sdk.producer.accumulator.topic_info import (
    ParkedMessage,
    Parking,
    PutNow,
    SendOptions,
    TopicInfo,
)
from ariane_sdk.producer.sending.unsettled import ProducerParts
from ariane_sdk.runtime.log import logger
from ariane_sdk.runtime.tasks import start_task

ROUTE_RETRY_S: Final = 0.2
"""How long to wait before asking name servers again if none knew the answer."""


class RouteWait:
    """Asks name servers about a topic until they answer or time is up."""

    def __init__(self, parts: ProducerParts, put: PutNow) -> None:
        self._routes = parts.session.routes
        self._unsettled = parts.unsettled
        self._clock = parts.clock
        self._timeout_s = parts.settings.send_timeout_s
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
        parking = info.for_route if info.route is None else info.for_order
        parking.messages.append(ParkedMessage(message, options, future, size_bytes))
        self._ask(info, parking)

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
                await asyncio.wait((self._ask(info, info.for_route),))
            if info.route is None and info.refusal is not None:
                raise info.refusal
            if grouped and info.groups_wait:
                await asyncio.wait((self._ask(info, info.for_order),))
        except asyncio.CancelledError:
            _stop_asking(info)
            raise

    def withdraw(self, info: TopicInfo, future: asyncio.Future[SendResult]) -> bool:
        """Drop a message that waits here, and stop asking if no other message waits.

        Returns:
            Whether the message was here.
        """
        for parking in (info.for_route, info.for_order):
            for position, each in enumerate(parking.messages):
                if each.future is future:
                    del parking.messages[position]
                    self._unsettled.release(each.size_bytes)
                    if not info.send_lock.locked():
                        _stop_asking(info)
                    return True
        return False

    async def wait_for_all(self, infos: Iterable[TopicInfo]) -> None:
        """Wait until no message is parked."""
        waiting = list(infos)
        # The end of a wait for a route may begin a wait for the order of queues.
        for parking_of in (attrgetter("for_route"), attrgetter("for_order")):
            asking = [task for task in (parking_of(info).task for info in waiting) if task]
            if asking:
                await asyncio.wait(asking)

    def _ask(self, info: TopicInfo, parking: Parking) -> asyncio.Task[None]:
        """Ask for what messages wait for, unless that is asked already; returns the task."""
        if parking.task is None:
            for_route = parking is info.for_route
            learn = self._learn_route if for_route else self._learn_order
            name = "route" if for_route else "order"
            parking.task = start_task(learn(info), f"{name}-{info.topic}")
        return parking.task

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
        self._release(info, info.for_route, self._put_or_park)

    async def _learn_order(self, info: TopicInfo) -> None:
        """Ask for the order of queues; then send or refuse the messages that wait for it."""
        deadline_s = self._clock.monotonic_s() + self._timeout_s
        while True:
            route = await self._routes.settle_groups(info.topic)
            if not route.groups_wait or self._clock.monotonic_s() >= deadline_s:
                break
            await self._clock.sleep(ROUTE_RETRY_S)
        self._release(info, info.for_order, self._put)

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

    def _release(self, info: TopicInfo, parking: Parking, put: Callable[..., object]) -> None:
        parked, parking.messages, parking.task = parking.messages, [], None
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
    for parking in (info.for_route, info.for_order):
        if parking.task is not None and not parking.messages:
            parking.task.cancel()
            parking.task = None
