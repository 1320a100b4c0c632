"""The members of consumer groups, each asked for what it is at."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ariane.broker.v1.client_question_pb2 import ClientQueueState
from ariane.broker.v1.client_service_pb2 import GetClientStateRequest, ListClientsRequest
from ariane_admin.asking.cluster_doors import (
    CALL_SECONDS_MAX,
    PAGE_SIZE,
    ClusterDoors,
    answer_to_question,
)
from ariane_sdk.errors import CallError

MEMBERS_MAX: Final = 1000
"""The most members that are asked: of a larger cluster, a part."""

ASKED_TOGETHER_MAX: Final = 32


@dataclass(frozen=True, slots=True)
class MemberFacts:
    """A member of consumer groups that has answered."""

    client_id: str
    groups: Sequence[str]
    queues: Sequence[ClientQueueState]


async def ask_members(doors: ClusterDoors, addresses: Sequence[str]) -> Sequence[MemberFacts]:
    """Ask the members that are attached to some brokers, each once.

    Brokers and members that do not answer are left out: other facts tell of brokers, and
    ``ariane group running`` of members.

    Args:
        doors: The cluster.
        addresses: The brokers.
    """
    groups: dict[str, Sequence[str]] = {}
    attached_to: dict[str, str] = {}
    attached = await asyncio.gather(*(_consumers(doors, address) for address in addresses))
    for address, consumers in zip(addresses, attached, strict=True):
        for client_id, consumed in consumers.items():
            groups[client_id], attached_to[client_id] = consumed, address
    turns = asyncio.Semaphore(ASKED_TOGETHER_MAX)

    async def ask(client_id: str) -> MemberFacts | None:
        request = GetClientStateRequest(client_id=client_id)
        try:
            async with turns:
                stub = doors.clients(attached_to[client_id])
                call = stub.GetClientState(request, timeout=CALL_SECONDS_MAX)
                answer = await answer_to_question(call, f"client {client_id}")
        except CallError:
            return None
        return MemberFacts(client_id, groups[client_id], answer.state.queues)

    told = await asyncio.gather(*map(ask, sorted(groups)[:MEMBERS_MAX]))
    return [member for member in told if member is not None]


async def _consumers(doors: ClusterDoors, address: str) -> dict[str, Sequence[str]]:
    """The groups of each consuming client of a broker; what it told, if it stops answering."""
    found: dict[str, Sequence[str]] = {}
    token = ""
    while True:
        request = ListClientsRequest(page_size=PAGE_SIZE, page_token=token)
        call = doors.clients(address).ListClients(request, timeout=CALL_SECONDS_MAX)
        try:
            page = await answer_to_question(call, f"broker at {address}")
        except CallError:
            return found
        for client in page.clients:
            if client.hello.memberships:
                consumed = [one.consumer_group for one in client.hello.memberships]
                found[client.hello.client_id] = consumed
        token = page.next_page_token
        if not token:
            return found
