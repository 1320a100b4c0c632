"""The addresses of brokers' primaries, by the routes of a consumer's topics."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ariane_sdk.routing.routes import Routes


class Primaries:
    """Finds primaries.

    The routes of all topics are used: the retry topic is on the same brokers.
    """

    def __init__(self, routes: Routes, topics: Sequence[str]) -> None:
        """Use the routes of these topics."""
        self._routes = routes
        self._topics = topics

    def find(self, broker_name: str) -> str:
        """The address of a broker's primary; empty while none is known."""
        for route in self._routes.latest_first(self._topics):
            if broker_name in route.primary_addresses:
                return route.primary_addresses[broker_name]
        return ""

    def doubt(self) -> None:
        """Look routes up again: a broker did not answer, or is not a primary."""
        for topic in self._topics:
            self._routes.doubt(topic)

    async def look_again(self) -> None:
        """As ``doubt``, and wait for the routes that are looked up at once."""
        await asyncio.gather(*map(self._routes.reconsider, self._topics))
