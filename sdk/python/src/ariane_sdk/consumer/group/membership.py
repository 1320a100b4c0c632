"""The members of a group, and the queues of each of them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from ariane.broker.v1.client_service_pb2 import (
    CONSUME_MODEL_BROADCASTING,
    CONSUME_MODEL_CLUSTERING,
    Membership,
    OwnedQueues,
)
from ariane_record.names import retry_topic
from ariane_sdk.client.broker_calls import BrokerCalls, read_address
from ariane_sdk.consumer.group.allocation import Averaging, GroupFacts, InformedStrategy
from ariane_sdk.consumer.group.consumer_plan import ConsumerPlan
from ariane_sdk.errors import ArianeError, CallError
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.net.timestamps import duration_from
from ariane_sdk.routing.route import BrokerRoute, Route

BROKERS_ASKED_MAX: Final = 3
"""Brokers of a topic that are asked for members: every member is attached to all brokers of the
topic, but a broker that has just restarted knows only some members."""


MembersByTopic: TypeAlias = dict[str, dict[str, Membership]]
"""Memberships by client id, by each topic that they subscribe to."""


class Share(NamedTuple):
    """One member's part of one topic."""

    queues: Sequence[MessageQueue]
    """Its queues."""
    member_count: int
    """Members that share the topic."""


def membership_of(plan: ConsumerPlan, owned: Collection[MessageQueue] = ()) -> Membership:
    """The membership that a consumer reports to brokers."""
    broadcasting, filters = plan.model == "broadcasting", plan.filters
    by_broker: dict[tuple[str, str], list[int]] = defaultdict(list)
    for queue in sorted(owned):
        by_broker[queue.topic, queue.broker_name].append(queue.queue_id)
    settings = plan.settings
    return Membership(
        consumer_group=plan.group,
        model=CONSUME_MODEL_BROADCASTING if broadcasting else CONSUME_MODEL_CLUSTERING,
        subscriptions=[filters[topic].to_wire(topic) for topic in sorted(filters)],
        ordered=plan.ordered,
        strategy=plan.strategy.name,
        polls=plan.polls,
        zone=settings.zone,
        keep=duration_from(settings.member_absence_s) if settings.member_name else None,
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
        self._returning = retry_topic(plan.group)

    async def shares(self, routes: Sequence[Route]) -> list[Share] | None:
        """This member's part of each topic; None while brokers do not know it as a member yet.

        Each broker is asked once, whatever the number of topics: its answer has the subscriptions
        of all members.

        Raises:
            CallError: No broker of a topic returned its members.
        """
        asked = {read_address(broker): broker for route in routes for broker in _asked(route)}
        answers = dict(
            zip(asked, await asyncio.gather(*map(self._answer, asked.values())), strict=True)
        )
        shares: list[Share] = []
        for route in routes:
            # Of this member, too, only the facts that brokers have: others divide by them.
            members = _members(route, answers)
            if self._client_id not in members:
                return None
            shares.append(self._share_of(route, members))
        return shares

    def _share_of(self, route: Route, members: Mapping[str, Membership]) -> Share:
        client_ids = sorted(members)
        # A strategy may leave queues without an owner; what a member failed on must come again.
        strategy = Averaging() if route.topic == self._returning else self._strategy
        if isinstance(strategy, InformedStrategy):
            facts = facts_of(route, members)
            queues = strategy.allocate_among(self._client_id, facts)
        else:
            queues = strategy.allocate(self._client_id, route.read_queues, client_ids)
        return Share(queues, len(client_ids))

    async def _answer(self, broker: BrokerRoute) -> MembersByTopic | ArianeError:
        """The members that a broker knows, or why it returned none."""
        try:
            members = await self._calls.group_members(broker, self._group)
        except ArianeError as error:
            return error
        by_topic: MembersByTopic = defaultdict(dict)
        for member in members:
            for subscription in member.membership.subscriptions:
                by_topic[subscription.topic][member.client_id] = member.membership
        return by_topic


def _asked(route: Route) -> list[BrokerRoute]:
    return [broker for broker in route.brokers if broker.read_address][:BROKERS_ASKED_MAX]


def _members(
    route: Route, answers: Mapping[str, MembersByTopic | ArianeError]
) -> dict[str, Membership]:
    """The members that subscribe to a topic, by client id."""
    members: dict[str, Membership] = {}
    error: ArianeError = CallError(
        f"no broker of topic {route.topic!r} is known to live", retriable=True
    )
    failed = True
    for broker in _asked(route):
        answer = answers[read_address(broker)]
        if isinstance(answer, ArianeError):
            error = answer
        else:
            failed = False
            members |= answer.get(route.topic, {})
    if failed:
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
        away_zones={name: route.away_zones.get(name, "") for name in route.away_brokers},
        member_zones={client_id: m.zone for client_id, m in members.items() if m.zone},
        owners=owners,
    )
