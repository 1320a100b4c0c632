"""FilterServers beside the broker: those that announce themselves here stand in its routes.

One that says goodbye leaves at once, one that dies leaves after some silence. Consumers do not wait
for that: they go on to the next when one does not answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ariane_broker.naming.announcement import BrokerAnnouncement
from ariane_servicekit import Address, Loop, field_invalid, get_logger
from ariane_servicekit.clock import Clock

FILTER_SERVERS_MAX: Final = 64
"""As many as name servers take."""

INCARNATION_LENGTH_MAX: Final = 64
HEARTBEATS: Final = 3
"""So many fit into the silence that is borne."""

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Server:
    incarnation: str
    heard_s: float


class FilterServers:
    """The FilterServers that live.

    Attributes:
        silence_s: Seconds of silence after which one is forgotten.
        expiry: Forgets who is silent; to be started.
    """

    def __init__(
        self,
        announcement: BrokerAnnouncement,
        announce: Callable[[], Awaitable[None]],
        clock: Clock,
        *,
        silence_s: float,
    ) -> None:
        """Know nobody.

        Args:
            announcement: What routes say.
            announce: Tells the name servers at once.
            clock: Tells how long somebody is silent.
            silence_s: Seconds of silence after which one is forgotten.
        """
        self._announcement = announcement
        self._announce = announce
        self._clock = clock
        self.silence_s = silence_s
        self._servers: dict[str, _Server] = {}
        self.expiry = Loop("filter-servers", self.expire, interval_s=self.heartbeat_s, clock=clock)

    @property
    def heartbeat_s(self) -> float:
        """How often one says that it lives."""
        return self.silence_s / HEARTBEATS

    @property
    def addresses(self) -> Sequence[str]:
        """Where those that live are reached, sorted."""
        return tuple(sorted(self._servers))

    async def register(self, address: str, incarnation: str) -> None:
        """One lives at an address; its repetition is the heartbeat.

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
            await self._tell()

    async def unregister(self, address: str, incarnation: str) -> bool:
        """One stops. A goodbye of an earlier process at the same address is ignored.

        Returns:
            Whether it was known.
        """
        known = self._servers.get(address)
        if known is None or known.incarnation != incarnation:
            return False
        del self._servers[address]
        _log.info("filter_server_unregistered", address=address)
        await self._tell()
        return True

    async def expire(self) -> None:
        """Forget who was silent for too long."""
        since_s = self._clock.monotonic() - self.silence_s
        silent = [name for name, server in self._servers.items() if server.heard_s < since_s]
        for address in silent:
            del self._servers[address]
            _log.warning("filter_server_expired", address=address)
        if silent:
            await self._tell()

    async def _tell(self) -> None:
        self._announcement.filter_server_addresses = self.addresses
        await self._announce()
