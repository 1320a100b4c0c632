"""The members of consumer groups, each asked for what it is at."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ariane.broker.v1.client_question_pb2 import ClientQueueState, QueueHold
from ariane.broker.v1.client_service_pb2 import (
    CONSUME_MODEL_CLUSTERING,
    CONSUME_MODEL_UNSPECIFIED,
    AttachedClient,
    GetClientStateRequest,
    ListClientsRequest,
)
from ariane_admin.asking.cluster_doors import ClusterDoors, all_pages, answer_from
from ariane_sdk.errors import CallError

MEMBERS_MAX: Final = 1000
"""The most members that are asked: of a larger cluster, a part."""

ASKED_TOGETHER_MAX: Final = 32

SHARING_MODELS: Final = frozenset({CONSUME_MODEL_UNSPECIFIED, CONSUME_MODEL_CLUSTERING})
"""By these, each queue has one owner."""


@dataclass(frozen=True, slots=True)
class MemberFacts:
    """A member of consumer groups that has answered."""

    client_id: str
    groups: Sequence[str]
    queues: Sequence[ClientQueueState]
    holds: Sequence[QueueHold] = ()
    """What it hands out nothing of, as brokers know it."""
    sharing: Sequence[str] = ()
    """Those of its groups whose members share the queues: each has one owner."""


async def ask_members(
    doors: ClusterDoors, addresses: Sequence[str], attached: Sequence[Sequence[AttachedClient]]
) -> Sequence[MemberFacts]:
    """Ask the members that are attached to some brokers, each once.

    Brokers and members that do not answer are left out: other facts tell of brokers, and
    ``ariane group running`` of members.

    Args:
        doors: The cluster.
        addresses: The brokers.
        attached: The clients of each.
    """
    groups: dict[str, Sequence[str]] = {}
    sharing: dict[str, Sequence[str]] = {}
    holds: dict[str, list[QueueHold]] = defaultdict(list)
    attached_to: dict[str, str] = {}
    for address, clients in zip(addresses, attached, strict=True):
        for client in clients:
            if not client.hello.memberships:
                continue
            client_id = client.hello.client_id
            groups[client_id] = [one.consumer_group for one in client.hello.memberships]
            sharing[client_id] = [
                one.consumer_group
                for one in client.hello.memberships
                if one.model in SHARING_MODELS
            ]
            attached_to[client_id] = address
            # Each broker knows those of its own queues, and what holds all.
            known = {hold.reason for hold in holds[client_id] if not hold.topic}
            holds[client_id] += [
                hold for hold in client.holds if hold.topic or hold.reason not in known
            ]
    turns = asyncio.Semaphore(ASKED_TOGETHER_MAX)

    async def ask(client_id: str) -> MemberFacts | None:
        request = GetClientStateRequest(client_id=client_id)
        try:
            async with turns:
                stub = doors.clients(attached_to[client_id])
                answer = await answer_from(f"client {client_id}", stub.GetClientState, request)
        except CallError:
            return None
        return MemberFacts(
            client_id,
            groups[client_id],
            answer.state.queues,
            holds[client_id],
            sharing[client_id],
        )

    members = await asyncio.gather(*map(ask, sorted(groups)[:MEMBERS_MAX]))
    return [member for member in members if member is not None]


async def attached_clients(doors: ClusterDoors, address: str) -> Sequence[AttachedClient]:
    """The clients of a broker; none if it does not answer."""
    stub = doors.clients(address)
    peer = f"broker at {address}"
    try:
        return await all_pages(peer, stub.ListClients, ListClientsRequest(), lambda p: p.clients)
    except CallError:
        return ()
