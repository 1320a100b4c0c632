"""The cluster behind the gateway: routes, and the primaries of brokers by their names."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from ariane_gateway.brokers.acting import ClusterTls, acting
from ariane_gateway.brokers.single_flight import SingleFlight
from ariane_gateway.refusal_kinds import Refusal
from ariane_gateway.refusals import Refused, refused_by
from ariane_sdk.client.session import Session
from ariane_sdk.errors import ArianeError, CallError, RouteNotFound
from ariane_sdk.net.connections import Connections
from ariane_sdk.routing.route import PRIMARY_ID, Route
from ariane_sdk.routing.routes import exists_perhaps
from ariane_sdk.runtime.clock import Clock, SystemClock, new_random
from ariane_sdk.security import BROKER_KINDS, Expected, access_of

BROKERS_KEPT_S: Final = 5.0
"""How long a list of all brokers is good, in seconds."""

AWAY_S: Final = 120.0
"""How long a broker is waited for that is gone, in seconds. One that is back sooner than a minute
goes on to keep the messages of living consumers: these must not have given them up."""

AWAY_KNOWN_S: Final = 1.0
"""How old the list of brokers may be that says so, in seconds."""

ROUTE_UNUSED_S: Final = 300.0
"""How long a route is kept that nobody uses, in seconds, as by RocketMQ's proxy: name servers are
asked for each of them every 30 s, also for those of topics that were deleted."""

CHECK_S: Final = 0.5
"""How long name servers may take to say that a topic is gone, in seconds."""


class Cluster:
    """Name servers and brokers."""

    def __init__(self, name_servers: Sequence[str], *, timeout_s: float, tls: ClusterTls) -> None:
        """Connect later: see ``open``.

        Args:
            name_servers: Addresses or sources of name servers.
            timeout_s: Longest time of a call, in seconds.
            tls: Certificates for connections to the cluster; False for plain text.
        """
        self._tls = tls
        self._acting: Connections | None = None
        self._name_servers = name_servers
        self._session: Session | None = None
        self._primaries: dict[str, str] = {}
        self._listed_s = -math.inf
        self._used_s: dict[str, float] = {}
        self._lived_s: dict[str, float] = {}
        self._listing = SingleFlight[None, None]()
        self.timeout_s = timeout_s
        """Longest time of a call, in seconds."""
        self.clock: Clock = SystemClock()
        """The clock of calls."""

    def open(self) -> None:
        """Start keeping routes; calls connect when they are made."""
        self._session = Session(
            self._name_servers,
            timeout_s=self.timeout_s,
            clock=self.clock,
            random=new_random(),
            access=access_of(self._tls),
        )
        self._session.routes.start()
        self._acting = Connections(new_random(), access_of(acting(self._tls)))

    async def close(self) -> None:
        """Disconnect."""
        self._listing.close()
        if self._acting is not None:
            await self._acting.close()
        if self._session is not None:
            await self._session.close()

    @property
    def connections(self) -> Connections:
        """Channels by address, for calls of the gateway itself."""
        return self._opened.connections

    @property
    def acting(self) -> Connections:
        """Channels by address, for calls that are made for the user of the call in work."""
        if self._acting is None:
            raise AssertionError("the cluster was not opened")
        return self._acting

    async def route(self, topic: str) -> Route:
        """The route of a topic that exists.

        Raises:
            Refused: No broker has the topic or no name server answered.
        """
        try:
            route = await self._opened.routes.get(topic)
        except ArianeError as error:
            raise refused_by(error) from error
        self._used_s[topic] = self.clock.monotonic_s()
        return route

    def forget_unused(self) -> None:
        """Forget routes that nobody has used for long, but while no name server answers."""
        if self.silent:
            return
        routes, now_s = self._opened.routes, self.clock.monotonic_s()
        for topic in list(routes.known):
            # One that has just come is used by who waits for it.
            if self._used_s.setdefault(topic, now_s) < now_s - ROUTE_UNUSED_S:
                routes.forget(topic)
        for topic in self._used_s.keys() - routes.known.keys():
            del self._used_s[topic]

    @property
    def silent(self) -> bool:
        """Whether no name server answers: what is forgotten now could not be learnt again."""
        return self._opened.routes.silent

    async def present_route(self, topic: str) -> Route:
        """The same, but not what is known of a topic that was deleted: brokers that had it live.

        Raises:
            Refused: As ``route``.
        """
        route = await self.route(topic)
        if self._opened.routes.is_confirmed(topic):
            return route
        # What is known holds while nobody says otherwise.
        with suppress(TimeoutError, ArianeError):
            async with asyncio.timeout(CHECK_S):
                await self._check_exists(route)
        return route

    async def _check_exists(self, route: Route) -> None:
        try:
            await self._opened.name_servers.get_route(route.topic)
        except RouteNotFound as error:
            live = await self.primaries()
            gone = all(broker.broker_name not in live for broker in route.brokers)
            if not (gone or exists_perhaps(error)):
                raise refused_by(error) from error

    async def primary(self, broker_name: str, topic: str) -> str:
        """The address of the process to call at a broker that has a topic.

        Raises:
            Refused: ``TOPIC_UNKNOWN`` when the broker has no such topic; ``UNAVAILABLE`` while it
                has no primary or is away for a moment, or no name server answers.
        """
        route = await self.route(topic)
        broker = route.broker(broker_name)
        if broker is None or not broker.primary_address:
            with refusing():
                route = await self._opened.routes.refresh(topic)
            broker = route.broker(broker_name)
        if broker is None and (
            broker_name in route.away_brokers or await self._is_away(broker_name)
        ):
            raise Refused(Refusal.UNAVAILABLE, f"broker {broker_name} is away")
        if broker is None:
            raise Refused(
                Refusal.TOPIC_UNKNOWN, f"no broker named {broker_name!r:.140} has topic {topic}"
            )
        if not broker.primary_address:
            raise Refused(Refusal.UNAVAILABLE, f"broker {broker_name} has no primary now")
        # Routes may lie, and addresses are used again.
        expected = Expected(BROKER_KINDS, broker_name, broker.cluster_name)
        self.acting.expect(broker.primary_address, expected)
        return broker.primary_address

    def doubt(self, error: CallError, topic: str) -> None:
        """Look the route of a topic up again if a failed call is a reason to."""
        self._opened.failover.note(error, (topic,))

    async def primaries(self, age_s_max: float = BROKERS_KEPT_S) -> dict[str, str]:
        """The addresses of all primaries, by the names of their brokers.

        While no name server answers, they are as they were.

        Args:
            age_s_max: How old an answer may be, in seconds.

        Raises:
            Refused: No name server answered yet.
        """
        if self._primaries and self.clock.monotonic_s() - self._listed_s < age_s_max:
            return self._primaries
        try:
            await self._listing.ask(None, self._list)
        except ArianeError as error:
            if not self._primaries:
                raise refused_by(error) from error
        return self._primaries

    async def _list(self) -> None:
        brokers = await self._opened.name_servers.list_brokers()
        self._primaries = {
            each.identity.broker_name: each.identity.address
            for each in brokers
            if each.identity.broker_id == PRIMARY_ID
        }
        self._listed_s = self.clock.monotonic_s()
        self._lived_s |= dict.fromkeys(self._primaries, self._listed_s)

    async def _is_away(self, broker_name: str) -> bool:
        """Whether a broker lived lately: it may come back with what it has handed out."""
        # Whatever a handle names, name servers are asked for brokers that there were.
        if broker_name not in self._lived_s:
            return False
        is_alive = broker_name in await self.primaries(AWAY_KNOWN_S)
        return not is_alive and self.lived_lately(broker_name)

    def lived_lately(self, broker_name: str) -> bool:
        """Whether a broker was seen alive so lately that it is waited for."""
        lived_s = self._lived_s.get(broker_name, -math.inf)
        return self.clock.monotonic_s() - lived_s < AWAY_S

    @property
    def _opened(self) -> Session:
        if self._session is None:
            raise AssertionError("the cluster was not opened")
        return self._session


@contextmanager
def refusing() -> Iterator[None]:
    """Turn errors of the client towards brokers into refusals."""
    try:
        yield
    except ArianeError as error:
        raise refused_by(error) from error
