"""The members of a group, and the queues of each of them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from ariane.broker.v1.client_service_pb2 import (
    CONSUME_MODEL_BROADCASTING,
    CONSUME_MODEL_CLUSTERING,
    GroupMember,
    Membership,
    OwnedQueues,
)
from ariane_sdk.client.broker_calls import BrokerCalls
from ariane_sdk.consumer.group.allocation import GroupFacts, InformedStrategy
from ariane_sdk.consumer.group.consumer_plan import ConsumerPlan
from ariane_sdk.errors import ArianeError, CallError
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.routing.route import Route

BROKERS_ASKED_MAX: Final = 3
"""Brokers of a topic that are asked for members: every member is attached to all brokers of the
topic, but a broker that has just restarted knows only some members."""


class Share(NamedTuple):
    """One member's part of one topic.

    Attributes:
        queues: Its queues.
        member_count: Members that share the topic.
    """

    queues: Sequence[MessageQueue]
    member_count: int


def membership_of(plan: ConsumerPlan, owned: Collection[MessageQueue] = ()) -> Membership:
    """The membership that a consumer reports to brokers."""
    broadcasting, filters = plan.model == "broadcasting", plan.filters
    by_broker: dict[tuple[str, str], list[int]] = defaultdict(list)
    for queue in sorted(owned):
        by_broker[queue.topic, queue.broker_name].append(queue.queue_id)
    return Membership(
        consumer_group=plan.group,
        model=CONSUME_MODEL_BROADCASTING if broadcasting else CONSUME_MODEL_CLUSTERING,
        subscriptions=[filters[topic].to_wire(topic) for topic in sorted(filters)],
        ordered=plan.ordered,
        strategy=plan.strategy.name,
        zone=plan.settings.zone,
        owned_queues=[
            OwnedQueues(topic=topic, broker_name=broker_name, queue_ids=queue_ids)
            for (topic, broker_name), queue_ids in by_broker.items()
        ],
    )


class GroupView:
    """The members of one group, by the answers of brokers."""

    def __init__(self, calls: BrokerCalls, plan: ConsumerPlan) -> None:
        self._calls = calls
        self._group = plan.group
        self._client_id = plan.client_id
        self._strategy = plan.strategy

    async def share_of(self, route: Route) -> Share | None:
        """This member's part of a topic; None while brokers do not know it as a member yet.

        Raises:
            CallError: No broker of the topic returned its members.
        """
        # Of this member, too, only the facts that brokers have: the other members divide by them.
        members = await self._members(route)
        client_ids = sorted(members)
        if self._client_id not in members:
            return None
        if isinstance(self._strategy, InformedStrategy):
            facts = facts_of(route, members)
            queues = self._strategy.allocate_among(self._client_id, facts)
        else:
            queues = self._strategy.allocate(self._client_id, route.read_queues, client_ids)
        return Share(queues, len(client_ids))

    async def _members(self, route: Route) -> dict[str, Membership]:
        """The members that subscribe to the topic, by client id."""
        brokers = [broker for broker in route.brokers if broker.read_address]
        answers = await asyncio.gather(
            *(
                self._calls.group_members(broker, self._group)
                for broker in brokers[:BROKERS_ASKED_MAX]
            ),
            return_exceptions=True,
        )
        members: dict[str, Membership] = {}
        error: BaseException = CallError(
            f"no broker of topic {route.topic!r} is known to live", retriable=True
        )
        failure_count = 0
        for answer in answers:
            if isinstance(answer, BaseException):
                if not isinstance(answer, ArianeError):
                    raise answer
                error = answer
                failure_count += 1
            else:
                members |= {m.client_id: m.membership for m in answer if _wants(m, route.topic)}
        if failure_count == len(answers):
            raise error
        return members


def facts_of(route: Route, members: Mapping[str, Membership]) -> GroupFacts:
    """The facts for a strategy: of a topic and the members that subscribe to it.

    Args:
        route: The topic's route.
        members: Memberships by client id.
    """
    owners: dict[MessageQueue, str] = {}
    for client_id in sorted(members):
        for owned in members[client_id].owned_queues:
            for queue_id in owned.queue_ids:
                # If two members report a queue, all take the first one as its owner.
                owners.setdefault(MessageQueue(owned.topic, owned.broker_name, queue_id), client_id)
    return GroupFacts(
        queues=route.read_queues,
        client_ids=sorted(members),
        broker_zones={b.broker_name: b.zone for b in route.brokers if b.zone},
        member_zones={client_id: m.zone for client_id, m in members.items() if m.zone},
        owners=owners,
    )


def _wants(member: GroupMember, topic: str) -> bool:
    membership = member.membership
    return any(subscription.topic == topic for subscription in membership.subscriptions)
