"""Live members of a consumer group across brokers, and conflicts between them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from itertools import chain
from typing import Final

from ariane.admin.v1 import group_service_pb2 as group_pb
from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.common.v1.message_pb2 import MessageQueue as QueueMessage
from ariane_admin.asking.cluster_doors import PAGE_SIZE, ClusterDoors, all_pages, answer_from
from ariane_admin.servicers.cluster_access import ClusterAccess
from ariane_sdk import LiveBroker
from ariane_sdk.errors import CallError, GroupNotFound

LIVE_SECONDS_MAX: Final = 2.0
"""How long a broker may take to say who lives: it checks that itself before it deletes anything."""


async def live_member_ids(
    doors: ClusterDoors, brokers: Iterable[LiveBroker], group: str, *, topic: str = ""
) -> frozenset[str]:
    """The members of a group that live at any of some brokers, by client id.

    Brokers that do not know the group, or do not answer soon, add none.

    Args:
        doors: Connections to the brokers.
        brokers: The brokers.
        group: The group.
        topic: Only members that subscribe to it; empty: all.
    """

    async def at(broker: LiveBroker) -> Iterable[str]:
        asked = client_pb.ListGroupMembersRequest(consumer_group=group, page_size=PAGE_SIZE)
        stub = doors.clients(broker.address)
        try:
            answer = await answer_from(
                broker, stub.ListGroupMembers, asked, seconds_max=LIVE_SECONDS_MAX
            )
        except CallError:
            return ()
        return [
            member.client_id
            for member in answer.members
            if not member.away
            and (not topic or any(topic == s.topic for s in member.membership.subscriptions))
        ]

    return frozenset(chain.from_iterable(await asyncio.gather(*map(at, brokers))))


async def list_members(
    cluster: ClusterAccess, request: group_pb.ListGroupMembersRequest
) -> group_pb.ListGroupMembersResponse:
    """The live members of a group, with the queues that each owns."""
    name = request.consumer_group
    answers = await cluster.answers()

    async def at(broker: LiveBroker) -> tuple[str, list[client_pb.GroupMember]]:
        asked = client_pb.ListGroupMembersRequest(consumer_group=name)
        stub = cluster.doors.clients(broker.address)
        try:
            found = await all_pages(broker, stub.ListGroupMembers, asked, lambda p: p.members)
        except GroupNotFound:
            found = []
        return broker.broker_name, found

    members: dict[str, group_pb.ClusterGroupMember] = {}
    for broker_name, found in await answers.ask(at):
        for member in found:
            entry = members.get(member.client_id)
            if entry is None:
                entry = group_pb.ClusterGroupMember(member=member)
                members[member.client_id] = entry
            else:
                # Each broker knows what is held of its own queues, and what holds all.
                known = {hold.reason for hold in entry.member.holds if not hold.topic}
                entry.member.holds.extend(
                    hold for hold in member.holds if hold.topic or hold.reason not in known
                )
            entry.broker_names.append(broker_name)
    page = cluster.page(
        sorted(members),
        lambda client_id: (client_id,),
        request,
        scope=f"members:{name}",
    )
    shown = [members[client_id] for client_id in page.entries]
    if shown:
        queues = defaultdict(set)
        for queue, client_id in (await cluster.queue_owners(name, answers)).items():
            queues[client_id].add(queue)
        for entry in shown:
            entry.assignment.extend(
                QueueMessage(topic=q.topic, broker_name=q.broker_name, queue_id=q.queue_id)
                for q in sorted(queues[entry.member.client_id])
            )
    return group_pb.ListGroupMembersResponse(
        members=shown,
        next_page_token=page.next_page_token,
        silent_brokers=cluster.silent(answers),
    )


async def list_conflicts(
    cluster: ClusterAccess, request: group_pb.ListSubscriptionConflictsRequest
) -> group_pb.ListSubscriptionConflictsResponse:
    """Members of a group with different subscriptions."""
    answers = await cluster.answers()

    async def at(broker: LiveBroker) -> list[client_pb.SubscriptionConflict]:
        asked = client_pb.ListSubscriptionConflictsRequest(consumer_group=request.consumer_group)
        stub = cluster.doors.clients(broker.address)
        return await all_pages(
            broker, stub.ListSubscriptionConflicts, asked, lambda page: page.conflicts
        )

    # The same two members conflict on every broker of their topics.
    found = {
        (one.consumer_group, one.member.client_id, one.newcomer.client_id): one
        for conflicts in await answers.ask(at)
        for one in conflicts
    }
    page = cluster.page(
        sorted(found),
        lambda key: key,
        request,
        scope=f"conflicts:{request.consumer_group}",
    )
    return group_pb.ListSubscriptionConflictsResponse(
        conflicts=(found[key] for key in page.entries),
        next_page_token=page.next_page_token,
        silent_brokers=cluster.silent(answers),
    )
