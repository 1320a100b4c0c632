"""Somebody who is measured: servers and a client, ours or a peer's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from peer_bench.bodies import expected_digest
from peer_bench.drivers import Driver
from peer_bench.loads import Leg, Load
from peer_bench.processes.usage import between, usage_of
from peer_bench.readings import acknowledged


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

    def exchange(self, load: Load) -> Leg:
        """Send on a schedule while a listener listens; the topic is new."""


class DriverContender:
    """A contender whose client is a driver that knows what it is asked for.

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

    def exchange(self, load: Load) -> Leg:
        """Listen, send on a schedule, and hear how long each message took."""
        self._driver.ask("prepare_produce", **load.asked())
        return self._exchange(self._driver, load, [self._driver.pid])

    def _exchange(self, listener: Driver, load: Load, client_pids: Sequence[int]) -> Leg:
        asked = load.asked()
        listener.ask("listen", **asked)
        client, server = usage_of(client_pids), usage_of(self._server_pids)
        sent = self._driver.ask("send_scheduled", **asked)
        heard = listener.ask("heard", **asked)
        return Leg(
            count=heard["count"],
            seconds=sent["seconds"],
            failures=sent["failures"],
            # What was refused is told as that, and not lost as well.
            lost=max(load.count - sent["failures"] - heard["count"], heard["altered"]),
            client=between(client, usage_of(client_pids)),
            server=between(server, usage_of(self._server_pids)),
            notes={
                **heard["percentiles"],
                **{acknowledged(name): ms for name, ms in sent["acknowledged"].items()},
                "sender late at most": sent["late_ms"],
            },
        )

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
            ready_s=answer.get("ready_s", 0.0),
            digest=answer.get("digest"),
            client=between(client, usage_of([self._driver.pid])),
            server=between(server, usage_of(self._server_pids)),
        )


def lost_of(leg: Leg, load: Load) -> int:
    """How many messages a consumed leg lacks; at least 1 when they are not as they were sent."""
    missing = load.count * load.groups - leg.count
    if missing != 0 or leg.digest is None:
        return abs(missing)
    expected = load.groups * expected_digest(load.body_bytes, load.count)
    return 0 if leg.digest == expected % (1 << 64) else 1
