"""Connections to name servers; each is made at its first use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Final

from ariane.namesrv.v1.registration_service_pb2_grpc import RegistrationServiceStub
from ariane_broker.naming.registration import Announcement, NameServer, NameServerLink
from ariane_servicekit import Address, Clock, get_logger, open_channel
from ariane_servicekit.security.caller import MemberKind
from ariane_wire import AddressSources, ChannelOptions

_log = get_logger(__name__)

# A restarted name server is found within seconds, not after two minutes.
_OPTIONS: Final = ChannelOptions(backoff_first_s=0.2, backoff_max_s=5.0, connect_timeout_s=1.0)


def name_server_link(
    address: Address,
    announcement: Announcement,
    clock: Clock,
    chance: Random,
    *,
    heartbeat_seconds: float,
) -> NameServerLink:
    """The broker's registration with the name server at an address."""
    channel = open_channel(address, _OPTIONS, chance, kinds=(MemberKind.NAME_SERVER,))
    name_server = NameServer(str(address), RegistrationServiceStub(channel), channel.close)
    return NameServerLink(name_server, announcement, clock, heartbeat_seconds=heartbeat_seconds)


class FoundNameServers:
    """Name servers by their addresses, and from sources that are read again."""

    def __init__(
        self, name_servers: Sequence[str], make_link: Callable[[Address], NameServerLink]
    ) -> None:
        """``make_link`` makes the link of an address."""
        self._sources = AddressSources(name_servers)
        self._make_link = make_link

    async def find(self) -> dict[str, Callable[[], NameServerLink]]:
        """Read the sources; how to make the link of each name server, by its address."""
        before = dict(self._sources.errors)
        found = await self._sources.read()
        for source, error in self._sources.errors.items():
            if before.get(source) != error:
                _log.warning("name_servers_unread", error=error)
        return {address: partial(self._make_link, Address.parse(address)) for address in found}
