"""The routes of a client: cached, refreshed, and kept while no name server answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from random import Random
from typing import Final

from ariane_record.names import TEMPLATE_TOPIC
from ariane_sdk.errors import CallError, RouteNotFound
from ariane_sdk.errors.calls import KNOWN_TO_EXIST
from ariane_sdk.routing.name_servers import NameServers
from ariane_sdk.routing.route import Route
from ariane_sdk.routing.route_doubts import RouteDoubts
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.runtime.log import logger
from ariane_sdk.runtime.tasks import loop_for_ever, start_task

REFRESH_INTERVAL_S: Final = 30.0
"""How often the routes in use are asked for again."""

BACKGROUND_QUERIES_AT_ONCE: Final = 32
"""How many queries of a client that no caller waits for are in flight: half of all, so that the
others find a turn."""

WATCH_INTERVAL_S_MIN: Final = 0.1
"""The delay of the first query for a route that does not exist yet."""

WATCH_INTERVAL_S: Final = 1.0
"""The interval of queries for it in the first minute: its first message waits for them."""

WATCH_AGE_PART: Final = 1 / 60
"""After the first minute, the interval is this part of the time that has passed."""

LOOKS_PER_S_MAX: Final = 500
"""How many queries a client makes in the mean for all its new topics together."""

YOUNG_LOOK_S: Final = 1.0
"""The delay before a new route is queried again; it doubles each time."""

REFRESH_GAP_S_MIN: Final = 0.2
"""Routing errors come in groups: one refresh of a topic in this time serves them all."""

KEPT_WARNED_MAX: Final = 10
"""How many topics are named in warnings, each once, because no name server has their routes any
longer."""

RECONSIDER_S_MAX: Final = 0.25
"""How long ``reconsider`` waits for a query: many times the duration of an answer."""


class Routes:
    """Routes by topic. A known route stays until a name server has a newer one.

    The answer of a name server that has just started adds to a route and removes nothing.
    """

    def __init__(self, name_servers: NameServers, clock: Clock, random: Random) -> None:
        self._name_servers = name_servers
        self._clock = clock
        self.known: dict[str, Route] = {}
        """The present routes by topic."""
        self._guessed: set[str] = set()
        self._places: dict[str, tuple[str, str]] = {}
        self._asked_s: dict[str, float] = {}
        self._confirmed_s: dict[str, float] = {}
        self._fetches: dict[str, asyncio.Task[Route]] = {}
        self._begun_s: dict[str, float] = {}
        self._background = asyncio.Semaphore(BACKGROUND_QUERIES_AT_ONCE)
        self._kept: set[str] = set()
        self._silence_warned = False
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._confirmations: dict[str, asyncio.Task[None]] = {}
        self._doubts = RouteDoubts(self._look, clock, random)
        self._listeners: list[Callable[[Route], None]] = []
        self._gone: set[str] = set()
        self._gone_listeners: list[Callable[[str], None]] = []
        self._loop_task: asyncio.Task[None] | None = None
        self._closed = False

    def start(self) -> None:
        """Start refreshing."""
        refresh = loop_for_ever(self._refresh_all, self._clock)
        self._loop_task = start_task(refresh, "routes")

    async def close(self) -> None:
        """Stop refreshing and asking."""
        # A client that is closed during its start runs a little longer.
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
        """Call a function with every new or changed route."""
        self._listeners.append(listener)

    def on_gone(self, listener: Callable[[str], None]) -> None:
        """Call a function with each topic that senders must take for one that was never there.

        Name servers deny it, and its known route has no queue to write, so that no broker would
        ever say that it was deleted. ``get_for_send`` begins anew with it.
        """
        self._gone_listeners.append(listener)

    def cached(self, topic: str) -> Route | None:
        """The present route, or None."""
        return self.known.get(topic)

    def latest_first(self, topics: Iterable[str]) -> list[Route]:
        """The known routes of topics, the ones last confirmed by a name server first.

        A route that is kept although no name server has it any longer, for example of a topic
        that a new primary lacks, may name old addresses of brokers.
        """
        known = list(filter(None, map(self.known.get, topics)))
        if len(known) > 1:
            known.sort(key=lambda each: -self._confirmed_s.get(each.topic, 0.0))
        return known

    def is_confirmed(self, topic: str) -> bool:
        """Whether name servers had the known route when they were last asked."""
        confirmed_s = self._confirmed_s.get(topic)
        return confirmed_s is not None and confirmed_s == self._asked_s.get(topic)

    @property
    def silent(self) -> bool:
        """Whether no name server answered when a known route was last asked for."""
        return self._silence_warned

    def forget(self, topic: str) -> None:
        """Ask for a topic's route no more, until somebody wants it again."""
        for tasks in (self._watches, self._confirmations):
            if topic in tasks:
                tasks[topic].cancel()
        for by_topic in (self.known, self._asked_s, self._confirmed_s):
            by_topic.pop(topic, None)
        self._guessed.discard(topic)
        self._kept.discard(topic)
        self._gone.discard(topic)
        self._doubts.forget(topic)

    async def get(self, topic: str) -> Route:
        """Return the known route, or ask name servers.

        Raises:
            RouteNotFound: No live broker has the topic.
            NameServersUnreachable: No name server answered, and no route was known.
        """
        route = self.known.get(topic)
        return route if route is not None else await self._fetch(topic)

    async def get_for_send(self, topic: str) -> Route:
        """Return the route like ``get``, or that of the topic which a send will create.

        The latter is the route of the template topic, and is replaced by the topic's own as soon as
        a name server has one.

        Raises:
            RouteNotFound: No live broker has the topic, and none would create it, or the topic is
                known to exist.
            NameServersUnreachable: No name server answered, and no route was known.
        """
        if topic in self._gone:
            self.forget(topic)
        try:
            return await self.get(topic)
        except RouteNotFound as unknown:
            if not KNOWN_TO_EXIST.isdisjoint(unknown.metadata):
                raise
            try:
                template = await self._fetch(TEMPLATE_TOPIC)
            except RouteNotFound:
                raise unknown from None
            route = template.as_template(topic, provisional=exists_perhaps(unknown))
            if not route.write_queues:
                raise
        self.watch(topic)
        # The topic's own route may have arrived meanwhile.
        if topic not in self.known:
            self.known[topic] = route
            self._guessed.add(topic)
        return self.known[topic]

    def watch(self, topic: str) -> None:
        """Query a topic's own route until a name server has it.

        Listeners of ``on_change`` get it.
        """
        if topic not in self._watches and not self._closed:
            watch = start_task(self._look_for(topic), f"watch-{topic}")
            self._watches[topic] = watch
            watch.add_done_callback(lambda _: self._watches.pop(topic, None))

    def confirm(self, topic: str) -> None:
        """Query a newly learnt route a few more times.

        A broker that was restarting is missing in it, and a client that never knew this broker does
        not miss it. Members of a group with different routes divide its queues differently, so that
        some queues belong to no member until all have the same route.
        """
        if topic not in self._confirmations and not self._closed:
            task = start_task(self._look_while_young(topic), f"confirm-{topic}")
            self._confirmations[topic] = task
            task.add_done_callback(lambda _: self._confirmations.pop(topic, None))

    @property
    def young(self) -> bool:
        """Whether a route is still being confirmed."""
        return bool(self._confirmations)

    def doubt(self, topic: str) -> None:
        """Query a route in the background, because it may be out of date; paced."""
        self._doubts.report(topic)

    async def reconsider(self, topic: str) -> None:
        """As ``doubt``, and wait for an immediate query, but not for a name server that hangs.

        A call that was refused for one topic stays in flight meanwhile, and others may wait for it.
        Without an answer, the next tries use the known route.
        """
        self._doubts.report(topic)
        await asyncio.sleep(0)
        fetch = self._fetches.get(topic)
        if fetch is not None:
            left_s = self._begun_s[topic] + RECONSIDER_S_MAX - self._clock.monotonic_s()
            await asyncio.wait((fetch,), timeout=max(0.0, left_s))

    def is_asking(self, topic: str) -> bool:
        """Whether a query is in progress, which may replace the route soon."""
        return topic in self._fetches

    async def refresh(self, topic: str) -> Route:
        """Query a route that turned out to be wrong; keep it if no name server has a better one.

        Raises:
            RouteNotFound: No live broker has the topic, and none had it before.
            NameServersUnreachable: No name server answered, and no route was known.
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
            # Brokers decide: a name server that has just started knows no topics, and brokers
            # refuse a deleted topic themselves, wherever their primaries are by now. Where none
            # would be asked, see ``on_gone``.
            self._log_kept(topic, error)
            return self.known.get(topic, known)

    def _log_kept(self, topic: str, error: CallError) -> None:
        """Log that a route is kept: once a topic, and once while no name server answers."""
        if isinstance(error, RouteNotFound):
            warned = topic in self._kept or len(self._kept) >= KEPT_WARNED_MAX
            self._kept.add(topic)
        else:
            warned, self._silence_warned = self._silence_warned, True
        level = logging.INFO if warned else logging.WARNING
        logger.log(level, "the route of %s is kept as it was: %s", topic, error)

    async def settle_groups(self, topic: str) -> Route:
        """Ask for the order of queues of a topic with a known route.

        Returns:
            The present route; its ``groups_wait`` says whether the order is still unknown.
        """
        try:
            return await self._fetch(topic)
        except RouteNotFound as unknown:
            known = self.known[topic]
            if known.provisional and not exists_perhaps(unknown):
                # The topic does not exist: the first send may create it.
                self._take(replace(known, provisional=False))
        except CallError as error:
            logger.info("where groups of %s belong is not known yet: %s", topic, error)
        return self.known[topic]

    async def _look(self, topic: str) -> None:
        try:
            async with self._background:
                await self._fetch(topic)
        except CallError as error:
            logger.info("the route of %s is not known: %s", topic, error)

    async def _fetch(self, topic: str) -> Route:
        """Query once for all callers at the same time."""
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
            task.exception()  # Mark it as retrieved, also when no caller waits any longer.

    async def _ask(self, topic: str) -> Route:
        try:
            route = await self._name_servers.get_route(topic)
        except RouteNotFound as unknown:
            self._silence_warned = False
            if KNOWN_TO_EXIST.isdisjoint(unknown.metadata):
                await self._follow_brokers(topic)
            self._note_denial(topic, unknown)
            raise
        finally:
            asked_s = self._clock.monotonic_s()
            if topic in self.known:  # Of names that there are not, there is no end.
                self._asked_s[topic] = asked_s
        self._silence_warned = False
        self._move(route.places)
        if topic == TEMPLATE_TOPIC:
            # It stands for topics that are yet to be created, and is no topic in use.
            return route
        self._confirmed_s[topic] = self._asked_s[topic] = asked_s
        self._kept.discard(topic)
        self._gone.discard(topic)
        known = self.known.get(topic)
        guessed = topic in self._guessed
        self._guessed.discard(topic)
        if known is not None and not guessed:
            if not route.complete:
                # Name servers that have just started: brokers that they lack are not gone.
                route = route.with_missing_of(known)
            elif route.groups_wait:
                # Nor is an order that they do not have.
                route = replace(route, queue_order=known.queue_order)
            if self._loop_task is not None:
                self._doubts.compare(known, route)
        return self._take(route)

    async def _follow_brokers(self, topic: str) -> None:
        """Have a kept route lead to the present primaries: they say what became of the topic.

        Name servers name none for a topic that was deleted, or that no send has created yet, and a
        primary that has stopped or stands still names no successor.
        """
        if topic not in self.known:
            return
        try:
            latest = await self._fetch(TEMPLATE_TOPIC)
        except CallError as error:
            logger.info("where the brokers of %s are now is not known: %s", topic, error)
            return
        known = self.known.get(topic)
        if known is not None:
            self._take(known.at_primaries_of(latest))

    def _note_denial(self, topic: str, unknown: RouteNotFound) -> None:
        """Tell senders that a topic is gone which they cannot write to."""
        known = self.known.get(topic)
        if known is None or known.write_queues or unknown.may_come_back:
            return
        if topic not in self._gone:
            logger.info("topic %s, which nobody could write to, is gone: %s", topic, unknown)
            self._gone.add(topic)
        for listener in self._gone_listeners:
            listener(topic)

    def _move(self, places: dict[str, tuple[str, str]]) -> None:
        """Learn who is at some addresses; routes that name others there are asked for again."""
        known = self._places
        moved = {at: now for at, now in places.items() if known.get(at, now) != now}
        known.update(places)
        if not moved:
            return
        for route in list(self.known.values()):
            rest = route.without(moved)
            if rest is not route:
                self._take(rest)
                self._doubts.report(route.topic)

    def _take(self, route: Route) -> Route:
        """Store a route, and notify listeners if it differs."""
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
            await self._clock.sleep(max(delay_s, len(self._confirmations) / LOOKS_PER_S_MAX))
            await self._look(topic)
            delay_s *= 2

    async def _look_for(self, topic: str) -> None:
        begun_s = self._clock.monotonic_s()
        while True:
            delay_s = watch_delay_s(self._clock.monotonic_s() - begun_s)
            await self._clock.sleep(max(delay_s, len(self._watches) / LOOKS_PER_S_MAX))
            try:
                async with self._background:
                    await self._fetch(topic)
            except CallError as error:
                logger.debug("topic %s has no route yet: %s", topic, error)
            else:
                # Brokers get a new topic one after the other.
                self.confirm(topic)
                return

    async def _refresh_all(self) -> None:
        await self._clock.sleep(REFRESH_INTERVAL_S)
        await asyncio.gather(*map(self._refresh_in_turn, list(self.known)))

    async def _refresh_in_turn(self, topic: str) -> None:
        async with self._background:
            if topic in self.known:  # It may be forgotten meanwhile.
                await self.refresh(topic)


def watch_delay_s(waited_s: float) -> float:
    """When to ask again for a topic for which a caller has waited this long."""
    delay_s = min(max(waited_s, WATCH_INTERVAL_S_MIN), WATCH_INTERVAL_S)
    return min(max(delay_s, WATCH_AGE_PART * waited_s), REFRESH_INTERVAL_S)


def exists_perhaps(error: RouteNotFound) -> bool:
    """Whether a topic without a route may exist nevertheless.

    It does not if a name server that would know it, or all of them, deny it: one that has just
    started has kept the orders of queues that it knew before.
    """
    fields = error.metadata.keys()
    return not KNOWN_TO_EXIST.isdisjoint(fields) or {"warming_up", "unreachable"} <= fields
