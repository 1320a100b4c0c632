"""Conflicts between members of a group with different subscriptions, for operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.broker.v1.client_service_pb2 import ListSubscriptionConflictsRequest
from ariane_record.names import retry_topic
from ariane_sdk.client.broker_calls import answer_of
from ariane_sdk.net.connections import Connections
from ariane_sdk.net.pages import all_pages
from ariane_sdk.net.timestamps import moment_from


@dataclass(frozen=True, slots=True)
class ConflictSide:
    """One side of a conflict."""

    client_id: str
    """The id under which brokers know it."""
    address: str
    """Its address as the broker sees it; empty if it only pulls."""
    subscriptions: Mapping[str, str]
    """Filter expressions by topic."""


@dataclass(frozen=True, slots=True)
class SubscriptionConflict:
    """Two members of a group with different subscriptions."""

    group: str
    """The group."""
    broker_name: str
    """The broker that found it."""
    member: ConflictSide
    """The earlier member."""
    newcomer: ConflictSide
    """The later member."""
    difference: str
    """The difference in words."""
    refused: bool
    """Whether the newcomer was refused; else both are members now."""
    count: int
    """How often the conflict occurred."""
    last_time: datetime
    """When it last occurred."""


async def conflicts_at(
    connections: Connections, broker_name: str, address: str, group: str, *, timeout_s: float
) -> list[SubscriptionConflict]:
    """The conflicts that a broker has recorded.

    Args:
        connections: Has the channels.
        broker_name: The broker.
        address: Its address.
        group: Only this group; all if empty.
        timeout_s: How long one call may take.

    Raises:
        CallError: The broker refused or did not answer.
    """
    clients = connections.clients(address)

    async def ask(
        page: ListSubscriptionConflictsRequest,
    ) -> client_pb.ListSubscriptionConflictsResponse:
        return await answer_of(
            clients.ListSubscriptionConflicts(page, timeout=timeout_s),
            f"broker {broker_name} at {address}",
        )

    request = ListSubscriptionConflictsRequest(consumer_group=group)
    found: list[client_pb.SubscriptionConflict] = await all_pages(
        ask, request, lambda page: page.conflicts
    )
    return [
        SubscriptionConflict(
            conflict.consumer_group,
            broker_name,
            _side(conflict.member),
            _side(conflict.newcomer),
            conflict.difference,
            conflict.refused,
            conflict.count,
            moment_from(conflict.last_time),
        )
        for conflict in found
    ]


def _side(member: client_pb.GroupMember) -> ConflictSide:
    return ConflictSide(member.client_id, member.address, subscriptions_of(member))


def subscriptions_of(member: client_pb.GroupMember) -> dict[str, str]:
    """The filter expression of each subscribed topic, without the retry topic that all have."""
    returning = retry_topic(member.membership.consumer_group)
    return {
        subscription.topic: subscription.filter.text
        for subscription in member.membership.subscriptions
        if subscription.topic != returning
    }
