"""Brokers that have left, undrained, and may come back.

Offsets of a group may be at such a broker and nowhere else, so routes of its topics name it: a
group that finds no offset of its own must not take itself for new. It is named for a day, until it
is back, or until an operator says that it does not come back.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from ariane_servicekit import Clock

AWAY_S: Final = 86_400.0
"""How long a broker that has left is named in the routes of its topics."""


@dataclass(frozen=True, slots=True)
class AwayBroker:
    """A broker that has left."""

    cluster_name: str
    broker_name: str
    topics: Collection[str]
    """What it had when it left."""

    zone: str
    """The zone that it stated; may be empty."""

    left_at_s: float
    """When it left, by monotonic time."""

    left_at_ms: int
    """When it left, by the wall clock."""


class AwayBrokers:
    """The brokers that have left within a day, in memory, and the index of their topics.

    Args:
        clock: Tells how long ago a broker has left.
        brokers_max: How many are remembered; the longest away is dropped if there are more.
    """

    def __init__(self, clock: Clock, *, brokers_max: int) -> None:
        self._clock = clock
        self._brokers_max = brokers_max
        # By cluster and broker name, in the order of leaving.
        self._brokers: dict[tuple[str, str], AwayBroker] = {}
        self._places_by_topic: dict[str, set[tuple[str, str]]] = {}

    def leave(
        self, cluster_name: str, broker_name: str, topics: Collection[str], zone: str = ""
    ) -> None:
        """Remember that a broker has left."""
        place = cluster_name, broker_name
        self._drop(place)
        left = AwayBroker(*place, topics, zone, self._clock.monotonic(), self._clock.now_ms())
        self._brokers[place] = left
        for topic in topics:
            self._places_by_topic.setdefault(topic, set()).add(place)
        if len(self._brokers) > self._brokers_max:
            self._drop(next(iter(self._brokers)))

    def come_back(self, cluster_name: str, broker_name: str) -> None:
        """Remember a broker no longer: it is registered."""
        self._drop((cluster_name, broker_name))

    def forget(self, broker_name: str, cluster_name: str = "") -> list[AwayBroker]:
        """Remember the brokers of a name no longer, in one cluster or in all; return them."""
        found = [one for one in self.all(cluster_name) if one.broker_name == broker_name]
        for one in found:
            self._drop((one.cluster_name, one.broker_name))
        return found

    def of(self, topic: str) -> dict[str, str]:
        """Return the zones of the brokers that had a topic when they left, by sorted names."""
        self._expire()
        places = sorted(self._places_by_topic.get(topic, ()), key=lambda place: place[1])
        return {place[1]: self._brokers[place].zone for place in places}

    def all(self, cluster_name: str = "") -> list[AwayBroker]:
        """Return the brokers of a cluster, or all, the longest away first."""
        self._expire()
        return [one for one in self._brokers.values() if cluster_name in {"", one.cluster_name}]

    def _expire(self) -> None:
        oldest_s = self._clock.monotonic() - AWAY_S
        while self._brokers:
            place, longest = next(iter(self._brokers.items()))
            if longest.left_at_s > oldest_s:
                return
            self._drop(place)

    def _drop(self, place: tuple[str, str]) -> None:
        left = self._brokers.pop(place, None)
        for topic in () if left is None else left.topics:
            places = self._places_by_topic[topic]
            places.discard(place)
            if not places:
                del self._places_by_topic[topic]
