"""Connections to name servers; each is made at its first use."""

from __future__ import annotations

from typing import Final

from ariane.namesrv.v1.registration_service_pb2_grpc import RegistrationServiceStub
from ariane_broker.naming.registration import Announcement, NameServer, NameServerLink
from ariane_servicekit import Address, Clock, open_channel

_OPTIONS: Final = (
    # A restarted name server is found within seconds, not after gRPC's two minutes.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    # Routes of all topics may be more than gRPC's 4 MiB.
    ("grpc.max_send_message_length", -1),
)


def name_server_link(
    address: Address, announcement: Announcement, clock: Clock, *, heartbeat_seconds: float
) -> NameServerLink:
    """The broker's registration with the name server at an address."""
    channel = open_channel(address, _OPTIONS)
    name_server = NameServer(str(address), RegistrationServiceStub(channel), channel.close)
    return NameServerLink(name_server, announcement, clock, heartbeat_seconds=heartbeat_seconds)
