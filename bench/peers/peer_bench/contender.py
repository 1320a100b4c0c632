"""Somebody who is measured: servers and a client, ours or a peer's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from peer_bench.bodies import expected_digest
from peer_bench.drivers import Driver
from peer_bench.loads import Leg, Load
from peer_bench.usage import between, usage_of


class Contender(Protocol):
    """Servers that run and a client that is connected, within the context of whoever made it."""

    name: str
    """As it stands in results."""

    settings: dict[str, Any]
    """What was set, of servers and client."""

    versions: dict[str, str]
    """Of servers and client."""

    def produce(self, load: Load) -> Leg:
        """Send; the topic is new."""

    def consume(self, load: Load) -> Leg:
        """Consume all of a topic, by a group of its own."""


class DriverContender:
    """A contender whose client is a driver that knows ``produce`` and ``consume``.

    Args:
        name: As it stands in results.
        driver: The client.
        server_pids: The servers.
        settings: What was set.
        versions: Of servers and client.
    """

    def __init__(
        self,
        name: str,
        driver: Driver,
        server_pids: Sequence[int],
        *,
        settings: dict[str, Any],
        versions: dict[str, str],
    ) -> None:
        self.name = name
        self.settings = settings
        self.versions = versions
        self._driver = driver
        self._server_pids = tuple(server_pids)

    def produce(self, load: Load) -> Leg:
        """Send."""
        return self._run("produce", load)

    def consume(self, load: Load) -> Leg:
        """Consume, and compare what came with what was sent."""
        leg = self._run("consume", load)
        return replace(leg, lost=lost_of(leg, load))

    def _run(self, what: str, load: Load) -> Leg:
        # A first question makes the topic and the bodies; it is not timed.
        self._driver.ask(f"prepare_{what}", **load.asked())
        client = usage_of([self._driver.pid])
        server = usage_of(self._server_pids)
        answer = self._driver.ask(what, **load.asked())
        return Leg(
            count=answer["count"],
            seconds=answer["seconds"],
            failures=answer.get("failures", 0),
            digest=answer.get("digest"),
            client=between(client, usage_of([self._driver.pid])),
            server=between(server, usage_of(self._server_pids)),
        )


def lost_of(leg: Leg, load: Load) -> int:
    """How many messages a consumed leg lacks; at least 1 when they are not as they were sent."""
    missing = load.count - leg.count
    if missing != 0 or leg.digest is None:
        return abs(missing)
    return 0 if leg.digest == expected_digest(load.body_bytes, load.count) else 1
