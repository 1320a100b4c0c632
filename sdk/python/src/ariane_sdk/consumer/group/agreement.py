"""Checks that members of a group agree across brokers.

A broker compares only its own members. Two members with different topics may be attached to
different brokers. So a member that joins checks the members of all other brokers too, once it is
attached: of two that join at the same time at least one sees the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Final

from ariane.broker.v1.client_service_pb2 import (
    CONSUME_MODEL_BROADCASTING,
    GroupMember,
    Membership,
)
from ariane.broker.v1.group_service_pb2 import (
    SUBSCRIPTION_CONFLICT_POLICY_FLAG,
    GetConsumerGroupRequest,
)
from ariane.common.v1.subscription_pb2 import FILTER_KIND_TAG, FILTER_KIND_UNSPECIFIED
from ariane.namesrv.v1.route_pb2 import BrokerLiveness
from ariane_record.names import retry_topic
from ariane_sdk.checks.tag_filter import TagFilter
from ariane_sdk.client.broker_calls import answer_of, peer_name
from ariane_sdk.client.session import Session
from ariane_sdk.errors import ArianeError, FilterIllegal, GroupRefused
from ariane_sdk.routing.route import PRIMARY_ID, BrokerRoute
from ariane_sdk.runtime.log import logger

_TAG_KINDS: Final = (FILTER_KIND_TAG, FILTER_KIND_UNSPECIFIED)


async def check_agreement(
    session: Session, client_id: str, membership: Membership, attached: Collection[str]
) -> None:
    """Refuse to join a group whose members on other brokers have other subscriptions.

    Brokers that do not answer are passed over: they do not serve this member's topics.

    Args:
        session: Calls name servers and brokers.
        client_id: This member.
        membership: Its part in the group.
        attached: Names of the brokers that have compared it already.

    Raises:
        GroupRefused: A member has other subscriptions, and the group does not allow that.
    """
    try:
        brokers = await session.name_servers.list_brokers()
    except ArianeError as error:
        logger.info("other brokers are not asked for members: %s", error)
        return
    others = [
        broker
        for broker in map(_as_route, brokers)
        if broker.read_address and broker.broker_name not in attached
    ]
    await asyncio.gather(*(_check_at(session, b, client_id, membership) for b in others))


async def _check_at(
    session: Session, broker: BrokerRoute, client_id: str, membership: Membership
) -> None:
    group = membership.consumer_group
    try:
        members = await session.calls.group_members(broker, group)
        different = [m for m in members if _differs(m, client_id, membership)]
        if not different or await _lets_in(session, broker, group):
            return
    except ArianeError as error:
        logger.info("broker %s is not asked for members: %s", broker.broker_name, error)
        return
    member = different[0].client_id
    raise GroupRefused(
        f"group {group!r}: member {member!r} of {peer_name(broker)} has other subscriptions",
        reason="SUBSCRIPTION_CONFLICT",
        metadata={"consumer_group": group, "member": member},
    )


def _differs(member: GroupMember, client_id: str, membership: Membership) -> bool:
    return member.client_id != client_id and _meaning(member.membership) != _meaning(membership)


async def _lets_in(session: Session, broker: BrokerRoute, group: str) -> bool:
    call = session.connections.groups(broker.read_address).GetConsumerGroup(
        GetConsumerGroupRequest(consumer_group=group)
    )
    policy = (await answer_of(call, peer_name(broker))).group.subscription_conflict_policy
    if policy != SUBSCRIPTION_CONFLICT_POLICY_FLAG:
        return False
    logger.warning("members of group %s on broker %s differ", group, broker.broker_name)
    return True


def _meaning(membership: Membership) -> tuple[object, ...]:
    """What all members of a group must agree on, in a form that can be compared."""
    filters: Mapping[str, object] = {
        subscription.topic: _filter_meaning(subscription.filter.kind, subscription.filter.text)
        for subscription in membership.subscriptions
        if subscription.topic != retry_topic(membership.consumer_group)
    }
    broadcasting = membership.model == CONSUME_MODEL_BROADCASTING
    return broadcasting, membership.ordered, membership.strategy, filters


def _filter_meaning(kind: int, text: str) -> object:
    if kind not in _TAG_KINDS:
        return kind, text
    try:
        return TagFilter.parse(text)
    except FilterIllegal:
        return text


def _as_route(broker: BrokerLiveness) -> BrokerRoute:
    identity = broker.identity
    addresses = {PRIMARY_ID: identity.address} if identity.broker_id == PRIMARY_ID else {}
    return BrokerRoute(identity.cluster_name, identity.broker_name, addresses, 0, 0)
