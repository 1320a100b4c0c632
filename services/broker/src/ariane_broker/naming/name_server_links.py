"""Connections to name servers; each is made at its first use."""

from __future__ import annotations

from random import Random
from typing import Final

from ariane.namesrv.v1.registration_service_pb2_grpc import RegistrationServiceStub
from ariane_broker.naming.registration import Announcement, NameServer, NameServerLink
from ariane_servicekit import Address, Clock, open_channel
from ariane_servicekit.security.caller import MemberKind
from ariane_wire import ChannelOptions

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
