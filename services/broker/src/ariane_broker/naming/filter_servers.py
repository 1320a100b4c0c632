"""FilterServers beside the broker: registered ones are in its routes.

A FilterServer that unregisters leaves at once, one that dies after some silence. Consumers do not
wait for that: if one does not answer, they use the next.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ariane_broker.naming.announcement import BrokerAnnouncement
from ariane_servicekit import Address, Loop, field_invalid, get_logger
from ariane_servicekit.clock import Clock

FILTER_SERVERS_MAX: Final = 64
"""The limit of name servers."""

INCARNATION_LENGTH_MAX: Final = 64
HEARTBEATS: Final = 3
"""Heartbeats within the time of silence after which a FilterServer is removed."""

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Server:
    incarnation: str
    heard_s: float


class FilterServers:
    """The live FilterServers."""

    def __init__(
        self,
        announcement: BrokerAnnouncement,
        announce: Callable[[], Awaitable[None]],
        clock: Clock,
        *,
        silence_s: float,
    ) -> None:
        """Start without FilterServers; one that is silent for ``silence_s`` is removed."""
        self._announcement = announcement
        self._announce = announce
        self._clock = clock
        self.silence_s = silence_s
        """Seconds of silence after which one is removed."""
        self._servers: dict[str, _Server] = {}
        self.expiry = Loop("filter-servers", self.expire, interval_s=self.heartbeat_s, clock=clock)
        """The loop that removes silent ones; to be started."""

    @property
    def heartbeat_s(self) -> float:
        """Interval of heartbeats."""
        return self.silence_s / HEARTBEATS

    @property
    def addresses(self) -> Sequence[str]:
        """The addresses of live FilterServers, sorted."""
        return tuple(sorted(self._servers))

    async def register(self, address: str, incarnation: str) -> None:
        """Register a FilterServer; repeated calls are its heartbeat.

        Raises:
            ServiceError: FIELD_INVALID.
        """
        try:
            Address.parse(address)
        except ValueError as error:
            raise field_invalid("address", f"must be host:port: {error}", address) from error
        if not 1 <= len(incarnation) <= INCARNATION_LENGTH_MAX:
            raise field_invalid("incarnation", f"must be 1 to {INCARNATION_LENGTH_MAX} characters")
        known = self._servers.get(address)
        if known is None and len(self._servers) >= FILTER_SERVERS_MAX:
            rule = f"is one more than the {FILTER_SERVERS_MAX} FilterServers that a broker may have"
            raise field_invalid("address", rule)
        self._servers[address] = _Server(incarnation, self._clock.monotonic())
        if known is None:
            _log.info("filter_server_registered", address=address)
            await self._announce_all()

    async def unregister(self, address: str, incarnation: str) -> bool:
        """Remove a FilterServer. The goodbye of an earlier process at its address is ignored.

        Returns:
            Whether it was known.
        """
        known = self._servers.get(address)
        if known is None or known.incarnation != incarnation:
            return False
        del self._servers[address]
        _log.info("filter_server_unregistered", address=address)
        await self._announce_all()
        return True

    async def expire(self) -> None:
        """Remove FilterServers that were silent for too long."""
        since_s = self._clock.monotonic() - self.silence_s
        silent = [name for name, server in self._servers.items() if server.heard_s < since_s]
        for address in silent:
            del self._servers[address]
            _log.warning("filter_server_expired", address=address)
        if silent:
            await self._announce_all()

    async def _announce_all(self) -> None:
        self._announcement.filter_server_addresses = self.addresses
        await self._announce()
