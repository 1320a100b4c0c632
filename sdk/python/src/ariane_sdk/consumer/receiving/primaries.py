"""The addresses of brokers' primaries, by the routes of a consumer's topics."""

from __future__ import annotations

from collections.abc import Sequence

from ariane_sdk.routing.failover import Failover
from ariane_sdk.routing.routes import Routes
from ariane_sdk.runtime.clock import Clock


class Primaries:
    """Finds primaries.

    The routes of all topics are used: the retry topic is on the same brokers.
    """

    def __init__(self, routes: Routes, topics: Sequence[str], clock: Clock) -> None:
        """Use the routes of these topics."""
        self._routes = routes
        self.topics = topics
        """The topics."""
        self.failover = Failover(routes, clock)
        """Makes calls again while primaries change."""

    def find(self, broker_name: str) -> str:
        """The address of a broker's primary; empty while none is known."""
        for route in self._routes.latest_first(self.topics):
            if broker_name in route.primary_addresses:
                return route.primary_addresses[broker_name]
        return ""

    def doubt(self) -> None:
        """Look routes up again: a broker did not answer, or is not a primary."""
        for topic in self.topics:
            self._routes.doubt(topic)
