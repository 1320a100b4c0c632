"""Gateways, each asked by way of a broker that it is attached to.

Its own port is for clients: what it shows there may be any certificate.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ariane.broker.v1.client_service_pb2 import AttachedClient, GetClientStateRequest
from ariane.namesrv.v1.route_pb2 import BrokerIdentity
from ariane_admin.asking.cluster_doors import ClusterDoors, answer_from
from ariane_sdk.errors import CallError

GATEWAY_PREFIX: Final = "gateway@"
"""How the client ids of gateways begin, and no others': those of clients begin with a host."""


@dataclass(frozen=True, slots=True)
class GatewayFacts:
    """A gateway that brokers know."""

    gateway_id: str
    """The client id by which it is attached."""
    version: str
    """Its version."""
    attached_to: Sequence[str]
    """The names of the brokers that it is attached to."""
    error: str = ""
    """Why it did not answer; empty if it did."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """What it says of itself."""


async def ask_gateways(
    doors: ClusterDoors,
    brokers: Sequence[BrokerIdentity],
    attached: Sequence[Sequence[AttachedClient]],
) -> Sequence[GatewayFacts]:
    """Ask all gateways that are attached to some brokers, each once.

    Args:
        doors: The cluster.
        brokers: The brokers.
        attached: The clients of each.
    """
    versions: dict[str, str] = {}
    places: dict[str, list[BrokerIdentity]] = defaultdict(list)
    for broker, clients in zip(brokers, attached, strict=True):
        for client in clients:
            if client.hello.client_id.startswith(GATEWAY_PREFIX):
                versions[client.hello.client_id] = client.hello.sdk_version
                places[client.hello.client_id].append(broker)

    async def ask(gateway_id: str) -> GatewayFacts:
        at = places[gateway_id]
        names = sorted(each.broker_name for each in at)
        version, peer = versions[gateway_id], f"gateway {gateway_id} by way of {names[0]}"
        request = GetClientStateRequest(client_id=gateway_id)
        try:
            answer = await answer_from(peer, doors.clients(at[0].address).GetClientState, request)
        except CallError as error:
            return GatewayFacts(gateway_id, version, names, str(error))
        return GatewayFacts(gateway_id, version, names, "", dict(answer.state.facts))

    return await asyncio.gather(*map(ask, sorted(places)))
