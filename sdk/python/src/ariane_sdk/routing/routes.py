"""The routes that a client uses: cached, refreshed, and kept while no name server answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Final

from ariane_record.names import TEMPLATE_TOPIC
from ariane_sdk.errors import CallError, QueueNotFound, RouteNotFound, ServiceUnavailable
from ariane_sdk.message import MessageQueue
from ariane_sdk.routing.name_servers import NameServers
from ariane_sdk.routing.route import BrokerRoute, Route
from ariane_sdk.routing.route_doubts import RouteDoubts
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.runtime.log import logger
from ariane_sdk.runtime.tasks import loop_for_ever, start_task

REFRESH_INTERVAL_S: Final = 30.0
"""How often the routes in use are asked for again."""

WATCH_INTERVAL_S_MIN: Final = 0.1
"""When a route that does not exist yet is looked for first."""

WATCH_INTERVAL_S: Final = 1.0
"""How often it is looked for in the first minute: its first message waits for whoever looks."""

WATCH_AGE_PART: Final = 1 / 60
"""The part of the time that it was looked for already, after which it is looked for later on."""

YOUNG_LOOK_S: Final = 1.0
"""When a route that was just learnt is looked at again first; the time doubles each time."""

REFRESH_GAP_S_MIN: Final = 0.2
"""Routing errors come in swarms: one refresh of a topic in this time serves them all."""

RECONSIDER_S_MAX: Final = 0.25
"""How long a question may hold up who reconsiders a route: many times what an answer takes."""


class Routes:
    """Routes by topic. A route once known stays until a name server tells a newer one.

    A name server that has just started adds to what is known and takes nothing away.

    Attributes:
        known: By topic, as they are known now.
    """

    def __init__(self, name_servers: NameServers, clock: Clock, random: Random) -> None:
        self._name_servers = name_servers
        self._clock = clock
        self.known: dict[str, Route] = {}
        self._guessed: set[str] = set()
        self._asked_s: dict[str, float] = {}
        self._fetches: dict[str, asyncio.Task[Route]] = {}
        self._begun_s: dict[str, float] = {}
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._confirmations: dict[str, asyncio.Task[None]] = {}
        self._doubts = RouteDoubts(self._look, clock, random)
        self._listeners: list[Callable[[Route], None]] = []
        self._loop_task: asyncio.Task[None] | None = None
        self._closed = False

    def start(self) -> None:
        """Start refreshing."""
        refresh = loop_for_ever(self._refresh_all, self._clock)
        self._loop_task = start_task(refresh, "routes")

    async def close(self) -> None:
        """Stop refreshing, and look for no route from now on."""
        # A client that is closed while it starts takes some steps yet.
        self._closed = True
        await self._doubts.close()
        tasks = [
            *self._watches.values(),
            *self._confirmations.values(),
            *self._fetches.values(),
            *filter(None, (self._loop_task,)),
        ]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def on_change(self, listener: Callable[[Route], None]) -> None:
        """Have every new or changed route told."""
        self._listeners.append(listener)

    def cached(self, topic: str) -> Route | None:
        """The route as known now."""
        return self.known.get(topic)

    async def get(self, topic: str) -> Route:
        """The route as known, or else as a name server tells it.

        Raises:
            RouteNotFound: No live broker carries the topic.
            NameServersUnreachable: None answered, and no route is known from before.
        """
        route = self.known.get(topic)
        return route if route is not None else await self._fetch(topic)

    async def get_for_send(self, topic: str) -> Route:
        """The route as ``get`` has it, or else that of the topic which a send will create.

        The latter is that of the template topic, and gives way to the topic's own as soon as a name
        server tells one.

        Raises:
            RouteNotFound: No live broker carries the topic, and none would create it, or it is
                known to exist.
            NameServersUnreachable: None answered, and no route is known from before.
        """
        try:
            return await self.get(topic)
        except RouteNotFound as unknown:
            if "queue_order" in unknown.metadata:
                raise
            try:
                template = await self._name_servers.get_route(TEMPLATE_TOPIC)
            except RouteNotFound:
                raise unknown from None
            route = template.as_template(topic, provisional=exists_perhaps(unknown))
            if not route.write_queues:
                raise
        self.watch(topic)
        # Its own may have come meanwhile.
        if topic not in self.known:
            self.known[topic] = route
            self._guessed.add(topic)
        return self.known[topic]

    def watch(self, topic: str) -> None:
        """Look for the route of a topic that has none of its own, until it comes.

        Who has asked to be told of changes is told.
        """
        if topic not in self._watches and not self._closed:
            watch = start_task(self._look_for(topic), f"watch-{topic}")
            self._watches[topic] = watch
            watch.add_done_callback(lambda _: self._watches.pop(topic, None))

    def confirm(self, topic: str) -> None:
        """Look a few times more at a route that was just learnt.

        A broker that was restarting then is not in it, and who never knew it does not miss it.
        Members of a group that see different routes divide its queues differently, so that some
        belong to nobody until all see the same.
        """
        if topic not in self._confirmations and not self._closed:
            task = start_task(self._look_while_young(topic), f"confirm-{topic}")
            self._confirmations[topic] = task
            task.add_done_callback(lambda _: self._confirmations.pop(topic, None))

    @property
    def young(self) -> bool:
        """Whether a route is being confirmed."""
        return bool(self._confirmations)

    def doubt(self, topic: str) -> None:
        """Ask again in the background, because the route may be out of date; paced."""
        self._doubts.report(topic)

    async def reconsider(self, topic: str) -> None:
        """As ``doubt``, and wait for what is asked at once, but for no name server that hangs.

        A call that was refused for one topic is in flight until then, and others may have to wait
        for it: the next try will tell, and the next, until name servers have answered.
        """
        self._doubts.report(topic)
        await asyncio.sleep(0)
        fetch = self._fetches.get(topic)
        if fetch is not None:
            left_s = self._begun_s[topic] + RECONSIDER_S_MAX - self._clock.monotonic_s()
            await asyncio.wait((fetch,), timeout=max(0.0, left_s))

    def is_asking(self, topic: str) -> bool:
        """Whether name servers are being asked, so that a route may be known to be old soon."""
        return topic in self._fetches

    async def refresh(self, topic: str) -> Route:
        """Ask again, because the route turned out to be wrong; keep it if nobody knows better.

        Raises:
            RouteNotFound: No live broker carries the topic, and none did before.
            NameServersUnreachable: None answered, and no route is known from before.
        """
        known = self.known.get(topic)
        asked_s = self._asked_s.get(topic)
        recent = asked_s is not None and self._clock.monotonic_s() - asked_s < REFRESH_GAP_S_MIN
        if known is not None and recent and topic not in self._fetches:
            return known
        try:
            return await self._fetch(topic)
        except CallError as error:
            if known is None:
                raise
            # Brokers know best: a name server that has just started knows none of them, and a
            # topic that is gone is refused by the brokers themselves.
            logger.warning("the route of %s is kept as it was: %s", topic, error)
            return known

    async def settle_groups(self, topic: str) -> Route:
        """Ask where the message groups of a topic belong, of which a route is known.

        Returns:
            The route as known now; its ``groups_wait`` says whether that is still open.
        """
        known = self.known[topic]
        try:
            return await self._fetch(topic)
        except RouteNotFound as unknown:
            if known.provisional and not exists_perhaps(unknown):
                # There is no such topic: the first send may create it.
                self._take(replace(known, provisional=False))
        except CallError as error:
            logger.info("where groups of %s belong is not known yet: %s", topic, error)
        return self.known[topic]

    async def _look(self, topic: str) -> None:
        try:
            await self._fetch(topic)
        except CallError as error:
            logger.info("the route of %s is not known: %s", topic, error)

    async def _fetch(self, topic: str) -> Route:
        """Ask once for all that want to know at the same time."""
        task = self._fetches.get(topic)
        if task is None:
            task = asyncio.create_task(self._ask(topic), name=f"ariane-route-{topic}")
            self._fetches[topic] = task
            self._begun_s[topic] = self._clock.monotonic_s()
            task.add_done_callback(lambda task: self._forget(topic, task))
        return await asyncio.shield(task)

    def _forget(self, topic: str, task: asyncio.Task[Route]) -> None:
        self._fetches.pop(topic, None)
        self._begun_s.pop(topic, None)
        if not task.cancelled():
            task.exception()  # Seen, also when nobody waits for it any longer.

    async def _ask(self, topic: str) -> Route:
        try:
            route = await self._name_servers.get_route(topic)
        finally:
            self._asked_s[topic] = self._clock.monotonic_s()
        known = self.known.get(topic)
        guessed = topic in self._guessed
        self._guessed.discard(topic)
        if known is not None and not guessed:
            if not route.complete:
                # Name servers that have just started: what they lack is not gone.
                route = route.with_missing_of(known)
            elif route.groups_wait:
                # Nor is an order that they were never told.
                route = replace(route, queue_order=known.queue_order)
            if self._loop_task is not None:
                self._doubts.compare(known, route)
        return self._take(route)

    def _take(self, route: Route) -> Route:
        """Know a route from now on, and say so if it is another one."""
        known = self.known.get(route.topic)
        if known is not None and route == known and route.complete == known.complete:
            return known
        self.known[route.topic] = route
        if route != known:
            for listener in self._listeners:
                listener(route)
        return route

    async def _look_while_young(self, topic: str) -> None:
        delay_s = YOUNG_LOOK_S
        while delay_s < REFRESH_INTERVAL_S:
            await self._clock.sleep(delay_s)
            await self._look(topic)
            delay_s *= 2

    async def _look_for(self, topic: str) -> None:
        begun_s = self._clock.monotonic_s()
        while True:
            await self._clock.sleep(watch_delay_s(self._clock.monotonic_s() - begun_s))
            try:
                await self._fetch(topic)
            except CallError as error:
                logger.debug("topic %s has no route yet: %s", topic, error)
            else:
                # Brokers get a new topic one after the other.
                self.confirm(topic)
                return

    async def _refresh_all(self) -> None:
        await self._clock.sleep(REFRESH_INTERVAL_S)
        await asyncio.gather(*map(self.refresh, list(self.known)))


def watch_delay_s(waited_s: float) -> float:
    """When to look again for a topic that somebody has waited for so long."""
    delay_s = min(max(waited_s, WATCH_INTERVAL_S_MIN), WATCH_INTERVAL_S)
    return min(max(delay_s, WATCH_AGE_PART * waited_s), REFRESH_INTERVAL_S)


def exists_perhaps(error: RouteNotFound) -> bool:
    """Whether a topic without a route may exist nevertheless.

    It does not if a name server says so that would know, or if all say so: one that has just
    started kept the orders of queues that it was told before.
    """
    told = error.metadata.keys()
    return "queue_order" in told or {"warming_up", "unreachable"} <= told


def broker_of(routes: Routes, queue: MessageQueue) -> BrokerRoute:
    """The broker of a queue, by the route that is known here.

    Raises:
        ServiceUnavailable: It is in no route now.
    """
    route = routes.cached(queue.topic)
    broker = route.broker(queue.broker_name) if route is not None else None
    if broker is None:
        raise ServiceUnavailable(f"broker {queue.broker_name} is in no route now", retriable=True)
    return broker


async def find_broker(routes: Routes, queue: MessageQueue) -> BrokerRoute:
    """The broker of a queue; name servers are asked where no route here names it.

    Raises:
        QueueNotFound: It does not carry the topic.
        RouteNotFound: No live broker carries the topic.
        NameServersUnreachable: None answered.
    """
    broker = (await routes.get(queue.topic)).broker(queue.broker_name)
    if broker is None:
        broker = (await routes.refresh(queue.topic)).broker(queue.broker_name)
    if broker is None:
        raise QueueNotFound(
            f"broker {queue.broker_name!r} does not carry topic {queue.topic!r} now", retriable=True
        )
    return broker


async def address_for_send(routes: Routes, topic: str, broker_name: str) -> str:
    """Where a broker takes messages for a topic, also for one that a send will create.

    Raises:
        ServiceUnavailable: It does not carry the topic now.
        RouteNotFound: As ``Routes.get_for_send``; so with NameServersUnreachable.
    """
    broker = (await routes.get_for_send(topic)).broker(broker_name)
    if broker is None or not broker.primary_address:
        raise ServiceUnavailable(
            f"broker {broker_name} does not carry {topic!r} now", retriable=True
        )
    return broker.primary_address
