"""Whose primary is killed: two brokers of one name, and a client that sends on."""

from __future__ import annotations

import time
from typing import Any, Final, Protocol

from peer_bench.drivers import Driver
from peer_bench.loads import Leg, Load

TOPIC: Final = "bench-failover"
"""Made by the first message, as both sides do by default."""


class Brokers(Protocol):
    """Two brokers, of which one is primary."""

    def wait_in_sync(self) -> None:
        """Wait until both run and either may be primary."""

    def kill_primary(self) -> None:
        """End the primary by SIGKILL; returns at once."""

    def restart_killed(self) -> None:
        """Start the killed one again, with its store."""


class Failovers:
    """A contender each of whose legs is one kill.

    Args:
        name: As it stands in results.
        driver: The client, with its default settings.
        brokers: The brokers.
        settings: What was set.
        versions: Of servers and client.
    """

    def __init__(
        self,
        name: str,
        driver: Driver,
        brokers: Brokers,
        *,
        settings: dict[str, Any],
        versions: dict[str, str],
    ) -> None:
        self.name = name
        self.settings = settings
        self.versions = versions
        self._driver = driver
        self._brokers = brokers

    def produce(self, load: Load) -> Leg:
        """It only fails over."""
        raise NotImplementedError

    def consume(self, load: Load) -> Leg:
        """It only fails over."""
        raise NotImplementedError

    def exchange(self, load: Load) -> Leg:
        """Kill the primary, and send until a message is acknowledged."""
        self._brokers.wait_in_sync()
        # The client is connected to who will be killed, and knows no other.
        self._send(load)
        begin = time.monotonic()
        self._brokers.kill_primary()
        self._send(load)
        seconds = time.monotonic() - begin
        self._brokers.restart_killed()
        return Leg(count=1, seconds=seconds)

    def _send(self, load: Load) -> None:
        self._driver.ask("send_until_stored", topic=TOPIC, body_bytes=load.body_bytes)
