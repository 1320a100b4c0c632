"""When a route is queried again, because it may be wrong or lacks a broker that it had.

A broker that restarts is away for seconds and may come back at another address; its messages wait
until all clients know it. So a route in doubt is queried again and again: at once, and then
after a quarter of the time that the trouble has lasted, 30 s at most, and half a second at most
while a replica may be about to take over. A client that cannot reach a broker for an hour asks
every 30 s in the end, however often it fails meanwhile.

* **A call failed**: the route may be out of date. Each failure is a reason for one query.
* **A broker has left the routes**, as brokers do that stop in order: it is queried without any
further reason, first after a second, and until the queries are as rare as the refresh of all
routes. A broker that never comes back costs some twenty calls.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final

from ariane_sdk.routing.route import Route
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.runtime.tasks import start_task

LOOK_INTERVAL_S_MIN: Final = 0.2
"""Failures come in groups: one query in this time serves them all."""

LOOK_INTERVAL_S_MAX: Final = 30.0
"""The longest time between a failure and its query."""

MISSING_LOOK_S: Final = 1.0
"""The delay of the first query for a broker that left."""

AGE_PART: Final = 0.25
"""The interval of queries, as a part of the age of the trouble."""

TAKEOVER_S: Final = 15.0
"""For how long after the beginning of the trouble a replica may take over: three leases."""

TAKEOVER_LOOK_S: Final = 0.5
"""The longest interval of queries meanwhile: messages for the new primary wait for them."""

QUIET_S: Final = 30.0
"""Trouble that pauses for so long is over: later failures are new trouble."""

JITTER_PART: Final = 0.2
"""Queries are up to this part earlier, so that the clients of a broker do not query all at once."""


class Doubt:
    """The trouble with the route of one topic."""

    __slots__ = ("began_s", "due_s", "missing", "reported_s", "task", "wanted")

    def __init__(self, now_s: float) -> None:
        """Doubt a route from now on."""
        self.began_s = now_s
        """When it began."""
        self.reported_s = now_s
        """Time of the last reason to ask."""
        self.due_s = now_s
        """When the next query is allowed."""
        self.wanted = False
        """Whether there was a reason since the last query."""
        self.missing: frozenset[tuple[str, str]] = frozenset()
        """Brokers that have left the route, by cluster and name."""
        self.task: asyncio.Task[None] | None = None
        """The task that queries, while there is a reason to."""


class RouteDoubts:
    """Queries doubtful routes again, at a limited rate."""

    def __init__(
        self, look: Callable[[str], Awaitable[object]], clock: Clock, random: Random
    ) -> None:
        """Doubt nothing.

        ``look`` queries the route of a topic, and has ``compare`` called with the result; it raises
        nothing. ``random`` spreads the queries.
        """
        self._look = look
        self._clock = clock
        self._random = random
        self._doubts: dict[str, Doubt] = {}
        self._closed = False

    def report(self, topic: str) -> None:
        """Note a failed call that a newer route may repair: ask as soon as allowed."""
        now_s = self._clock.monotonic_s()
        doubt = self._doubt(topic)
        if now_s - doubt.reported_s > QUIET_S:
            doubt.began_s = now_s
            doubt.due_s = min(doubt.due_s, now_s + LOOK_INTERVAL_S_MIN)
        doubt.reported_s = now_s
        doubt.wanted = True
        self._start(topic, doubt)

    def compare(self, before: Route, now: Route) -> None:
        """Begin to look for brokers that have left, and stop for those that are back.

        Args:
            before: The earlier route.
            now: The present route of the same topic.
        """
        known = self._doubts.get(now.topic)
        missed = known.missing if known is not None else frozenset()
        missing = (missed | _names(before)) - _names(now)
        if known is None and not missing:
            return
        doubt = self._doubt(now.topic)
        doubt.missing = missing
        in_trouble = missed | _names(before)
        if any(place[0] in in_trouble for place in _places(now) - _places(before)):
            # A broker that came back ends the trouble; later trouble is new, however soon it comes.
            # Other changes end nothing: a broker that joins or leaves, or has more queues.
            doubt.reported_s = -math.inf
            doubt.due_s = min(doubt.due_s, self._clock.monotonic_s() + LOOK_INTERVAL_S_MIN)
        if missing - missed:
            # However long there was trouble with others, queries for this one start as often.
            doubt.began_s = doubt.reported_s = self._clock.monotonic_s()
            doubt.due_s = doubt.began_s + MISSING_LOOK_S * self._early()
            self._start(now.topic, doubt)

    def forget(self, topic: str) -> None:
        """Doubt a route no more."""
        doubt = self._doubts.pop(topic, None)
        if doubt is not None and doubt.task is not None:
            doubt.task.cancel()

    async def close(self) -> None:
        """Stop all queries; later reports start none."""
        # Calls of a closed client may still fail, and each is a reason to ask.
        self._closed = True
        tasks = [doubt.task for doubt in self._doubts.values() if doubt.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _doubt(self, topic: str) -> Doubt:
        doubt = self._doubts.get(topic)
        if doubt is None:
            doubt = self._doubts[topic] = Doubt(self._clock.monotonic_s())
        return doubt

    def _start(self, topic: str, doubt: Doubt) -> None:
        if doubt.task is None and not self._closed:
            doubt.task = start_task(self._look_when_due(topic, doubt), f"doubt-{topic}")

    async def _look_when_due(self, topic: str, doubt: Doubt) -> None:
        """Query while there is a reason to."""
        try:
            while doubt.wanted or doubt.missing:
                wait_s = doubt.due_s - self._clock.monotonic_s()
                if wait_s > 0:
                    # Not to the end: a broker that leaves meanwhile needs an earlier query.
                    await self._clock.sleep(min(wait_s, MISSING_LOOK_S))
                    continue
                doubt.wanted = False
                self._put_off(doubt)
                await self._look(topic)
        finally:
            doubt.task = None

    def _put_off(self, doubt: Doubt) -> None:
        """Set when the next query is allowed; gives up brokers that are missing for long."""
        now_s = self._clock.monotonic_s()
        age_s = now_s - doubt.began_s
        delay_s = AGE_PART * age_s
        if age_s < TAKEOVER_S:
            delay_s = min(delay_s, TAKEOVER_LOOK_S)
        if delay_s >= LOOK_INTERVAL_S_MAX:
            doubt.missing = frozenset()
        least_s = MISSING_LOOK_S if doubt.missing else LOOK_INTERVAL_S_MIN
        delay_s = min(max(delay_s, least_s), LOOK_INTERVAL_S_MAX)
        doubt.due_s = now_s + delay_s * self._early()

    def _early(self) -> float:
        return 1.0 - JITTER_PART * self._random.random()


def _names(route: Route) -> frozenset[tuple[str, str]]:
    return frozenset((broker.cluster_name, broker.broker_name) for broker in route.brokers)


def _places(route: Route) -> set[tuple[tuple[str, str], str, str]]:
    """The read and write addresses of each broker of a route, as far as it has them."""
    return {
        ((broker.cluster_name, broker.broker_name), which, address)
        for broker in route.brokers
        for which, address in (("write", broker.primary_address), ("read", broker.read_address))
        if address
    }
