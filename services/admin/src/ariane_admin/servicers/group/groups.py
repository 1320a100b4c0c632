"""``GroupService``: consumer groups across brokers."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

from grpc import aio

from ariane.admin.v1 import group_service_pb2 as group_pb
from ariane.admin.v1.cluster_service_pb2 import BrokerOutcome
from ariane.admin.v1.group_service_pb2_grpc import GroupServiceServicer
from ariane.broker.v1 import group_service_pb2 as broker_pb
from ariane.broker.v1 import offset_service_pb2 as offset_pb
from ariane_admin.asking.answers import Answers
from ariane_admin.asking.broker_readings import queue_bounds
from ariane_admin.asking.cluster_doors import all_pages, answer_from, changed_at
from ariane_admin.servicers.cluster_access import (
    ClusterAccess,
    group_in_use,
    group_not_found,
)
from ariane_admin.servicers.group.group_facts import (
    TOPICS_MAX,
    cluster_group,
    facts_of,
    placement_of,
)
from ariane_admin.servicers.group.group_members import (
    list_conflicts,
    list_members,
    live_member_ids,
)
from ariane_admin.servicers.group.group_offsets import (
    group_queue_offsets,
    named,
    offset_messages,
    offset_place,
    reset_request,
    target_of,
)
from ariane_record.names import dead_letter_topic, is_system_group
from ariane_sdk import LiveBroker, MessageQueue
from ariane_sdk.errors import CallError, GroupNotFound, TopicNotFound
from ariane_servicekit import field_invalid

_Context = aio.ServicerContext[Any, Any]

_GROUP_EXISTS: Final = "GROUP_EXISTS"


class GroupServicer(GroupServiceServicer):
    """Calls every broker that a group concerns."""

    asked_methods: Final = frozenset({"UpdateGroup"})
    """Methods that ask for the rights on what their handles touch."""

    def __init__(self, cluster: ClusterAccess) -> None:
        self._cluster = cluster
        self._doors = cluster.doors
        topics_max = None if cluster.whole_lists else TOPICS_MAX
        self._cluster_group = partial(cluster_group, topics_max=topics_max)

    async def before(self, method: str, request: Any) -> Any:
        """The group, or its offsets, as they are before they are changed."""
        if method == "CreateGroup":
            return None
        if method in {"ResetGroupOffsets", "CloneGroupOffsets"}:
            group = request.consumer_group
            if method == "CloneGroupOffsets":
                group = request.target_consumer_group
            offsets = await (await self._cluster.reader()).stored_offsets(group, request.topic)
            return group_pb.QueueOffsets(offsets=offset_messages(offsets))
        if method == "DeleteGroupOffsets":
            brokers = await self._doors.primaries()
            known, _ = await self._delete_offsets(request, brokers, validate_only=True)
            return group_pb.QueueOffsets(offsets=known)
        name = request.group.consumer_group if method == "UpdateGroup" else request.consumer_group
        answers = await self._cluster.answers()
        return group_pb.ClusterGroup(
            consumer_group=name, placements=await self._placements(name, answers)
        )

    async def CreateGroup(
        self, request: group_pb.CreateGroupRequest, context: _Context
    ) -> group_pb.CreateGroupResponse:
        """Create a group. A broker that has it already counts as done."""
        wanted = request.group
        if not wanted.consumer_group:
            raise field_invalid("group.consumer_group", "is required")
        brokers = await self._doors.primaries(cluster_name=request.cluster_name)
        standing: list[CallError] = []

        async def at(broker: LiveBroker) -> None:
            asked = broker_pb.CreateConsumerGroupRequest(group=wanted)
            stub = self._doors.groups(broker.address)
            try:
                await changed_at(broker, stub.CreateConsumerGroup, asked)
            except CallError as error:
                if error.reason != _GROUP_EXISTS:
                    raise
                standing.append(error)

        outcomes = await self._cluster.change_each(brokers, at)
        if len(standing) == len(brokers):
            raise standing[0]
        group = await self._settings_now(wanted.consumer_group, brokers)
        return group_pb.CreateGroupResponse(group=group, outcomes=outcomes)

    async def GetGroup(
        self, request: group_pb.GetGroupRequest, context: _Context
    ) -> group_pb.GetGroupResponse:
        """Read one group."""
        name = request.consumer_group
        answers = await self._cluster.answers()
        placements = await self._placements(name, answers)
        lags, members = await facts_of(self._doors.client, answers, name)
        if not placements and not lags and not members[name]:
            raise group_not_found(name)
        group = self._cluster_group(name, placements, lags[name], members[name])
        group.dead_letter_count = await self._dead_letter_count(name, answers)
        return group_pb.GetGroupResponse(group=group, silent_brokers=self._cluster.silent(answers))

    async def ListGroups(
        self, request: group_pb.ListGroupsRequest, context: _Context
    ) -> group_pb.ListGroupsResponse:
        """List groups by name."""
        answers = await self._cluster.answers(cluster_name=request.cluster_name)

        async def at(broker: LiveBroker) -> tuple[LiveBroker, list[broker_pb.ConsumerGroup]]:
            stub = self._doors.groups(broker.address)
            asked = broker_pb.ListConsumerGroupsRequest()
            groups = await all_pages(broker, stub.ListConsumerGroups, asked, lambda p: p.groups)
            return broker, groups

        placed: dict[str, list[group_pb.GroupPlacement]] = defaultdict(list)
        for broker, groups in await answers.ask(at):
            for group in groups:
                placed[group.consumer_group].append(placement_of(broker, group))
        lags, members = await facts_of(self._doors.client, answers, "")
        names = {
            name
            for name in {*placed, *lags, *members}
            if name.startswith(request.name_prefix)
            and (request.include_system or not is_system_group(name))
        }
        page = self._cluster.page(
            sorted(names),
            lambda name: (name,),
            request,
            scope=f"groups:{request.cluster_name}:{request.name_prefix}:{request.include_system}",
        )
        return group_pb.ListGroupsResponse(
            groups=(
                self._cluster_group(name, placed[name], lags[name], members[name])
                for name in page.entries
            ),
            next_page_token=page.next_page_token,
            silent_brokers=self._cluster.silent(answers),
        )

    async def UpdateGroup(
        self, request: group_pb.UpdateGroupRequest, context: _Context
    ) -> group_pb.UpdateGroupResponse:
        """Change settings of a group, on brokers that know it or may create it."""
        name = request.group.consumer_group
        brokers = await self._doors.primaries()
        asked = broker_pb.UpdateConsumerGroupRequest(
            group=request.group, allow_missing=request.allow_missing
        )

        async def at(broker: LiveBroker) -> object:
            stub = self._doors.groups(broker.address)
            return await changed_at(broker, stub.UpdateConsumerGroup, asked)

        outcomes = await self._at_those_that_know(name, brokers, at)
        group = await self._settings_now(name, brokers)
        return group_pb.UpdateGroupResponse(group=group, outcomes=outcomes)

    async def DeleteGroup(
        self, request: group_pb.DeleteGroupRequest, context: _Context
    ) -> group_pb.DeleteGroupResponse:
        """Delete a group with its offsets."""
        gone: list[broker_pb.DeleteConsumerGroupResponse] = []

        async def at(broker: LiveBroker) -> None:
            asked = broker_pb.DeleteConsumerGroupRequest(
                consumer_group=request.consumer_group,
                keep_dead_letters=request.keep_dead_letters,
            )
            stub = self._doors.groups(broker.address)
            gone.append(await changed_at(broker, stub.DeleteConsumerGroup, asked))

        brokers = await self._doors.primaries()
        await self._refuse_in_use(request.consumer_group, brokers)
        outcomes = await self._at_those_that_know(request.consumer_group, brokers, at)
        return group_pb.DeleteGroupResponse(
            outcomes=outcomes,
            retry_message_count=sum(each.retry_message_count for each in gone),
            dead_letter_count=sum(each.dead_letter_count for each in gone),
        )

    async def ListGroupMembers(
        self, request: group_pb.ListGroupMembersRequest, context: _Context
    ) -> group_pb.ListGroupMembersResponse:
        """List the live members of a group, with the queues that each owns."""
        return await list_members(self._cluster, request)

    async def ListSubscriptionConflicts(
        self, request: group_pb.ListSubscriptionConflictsRequest, context: _Context
    ) -> group_pb.ListSubscriptionConflictsResponse:
        """List conflicts between members."""
        return await list_conflicts(self._cluster, request)

    async def ResetGroupOffsets(
        self, request: group_pb.ResetGroupOffsetsRequest, context: _Context
    ) -> group_pb.ResetGroupOffsetsResponse:
        """Reset a group's offsets."""
        wanted = target_of(request)
        brokers = await self._carriers(request.topic)
        if isinstance(wanted, dict):
            brokers = named(brokers, request.topic, wanted)
        reader = await self._cluster.reader()
        before = await reader.stored_offsets(request.consumer_group, request.topic)
        offsets: list[group_pb.GroupQueueOffset] = []

        async def at(broker: LiveBroker) -> None:
            asked = reset_request(request, broker, wanted)
            stub = self._doors.offsets(broker.address)
            answer = await changed_at(broker, stub.ResetConsumerOffsets, asked)
            offsets.extend(group_queue_offsets(broker, answer.offsets, answer.member_count))

        outcomes = await self._cluster.change_each(brokers, at)
        for each in offsets:
            queue = MessageQueue(request.topic, each.broker_name, each.queue_id)
            if queue in before:
                each.previous_queue_offset = before[queue]
        return group_pb.ResetGroupOffsetsResponse(
            offsets=sorted(offsets, key=offset_place), outcomes=outcomes
        )

    async def CloneGroupOffsets(
        self, request: group_pb.CloneGroupOffsetsRequest, context: _Context
    ) -> group_pb.CloneGroupOffsetsResponse:
        """Copy a group's offsets to another."""
        asked = offset_pb.CloneConsumerOffsetsRequest(
            consumer_group=request.consumer_group,
            target_consumer_group=request.target_consumer_group,
            topic=request.topic,
        )
        offsets: list[group_pb.GroupQueueOffset] = []

        async def at(broker: LiveBroker) -> None:
            stub = self._doors.offsets(broker.address)
            answer = await changed_at(broker, stub.CloneConsumerOffsets, asked)
            offsets.extend(group_queue_offsets(broker, answer.offsets, answer.member_count))

        outcomes = await self._cluster.change_each(await self._carriers(request.topic), at)
        return group_pb.CloneGroupOffsetsResponse(
            offsets=sorted(offsets, key=offset_place), outcomes=outcomes
        )

    async def DeleteGroupOffsets(
        self, request: group_pb.DeleteGroupOffsetsRequest, context: _Context
    ) -> group_pb.DeleteGroupOffsetsResponse:
        """Delete a group's offsets of one topic. All brokers are called: it may be deleted."""
        brokers = await self._doors.primaries()
        await self._refuse_in_use(request.consumer_group, brokers, topic=request.topic)
        offsets, outcomes = await self._delete_offsets(
            request, brokers, validate_only=request.validate_only
        )
        return group_pb.DeleteGroupOffsetsResponse(offsets=offsets, outcomes=outcomes)

    async def _delete_offsets(
        self,
        request: group_pb.DeleteGroupOffsetsRequest,
        brokers: Sequence[LiveBroker],
        *,
        validate_only: bool,
    ) -> tuple[list[group_pb.GroupQueueOffset], list[BrokerOutcome]]:
        asked = offset_pb.DeleteConsumerOffsetsRequest(
            consumer_group=request.consumer_group,
            topic=request.topic,
            validate_only=validate_only,
        )
        offsets: list[group_pb.GroupQueueOffset] = []

        async def at(broker: LiveBroker) -> None:
            stub = self._doors.offsets(broker.address)
            answer = await changed_at(broker, stub.DeleteConsumerOffsets, asked)
            offsets.extend(group_queue_offsets(broker, answer.offsets, 0))

        outcomes = await self._at_those_that_know(request.consumer_group, brokers, at)
        return sorted(offsets, key=offset_place), outcomes

    async def _refuse_in_use(
        self, group: str, brokers: Sequence[LiveBroker], *, topic: str = ""
    ) -> None:
        """Refuse where anybody consumes: brokers without that member would do their part.

        Raises:
            ServiceError: GROUP_IN_USE.
        """
        live = await live_member_ids(self._doors, brokers, group, topic=topic)
        if live:
            raise group_in_use(group, len(live))

    async def _at_those_that_know(
        self,
        group: str,
        brokers: Sequence[LiveBroker],
        change: Callable[[LiveBroker], Awaitable[object]],
    ) -> list[BrokerOutcome]:
        """The outcomes of a change on brokers that know a group, or did not answer.

        Raises:
            ServiceError: GROUP_NOT_FOUND if none knows it.
            ArianeError: All failed: the first failure.
        """
        without: set[str] = set()

        async def at(broker: LiveBroker) -> None:
            try:
                await change(broker)
            except GroupNotFound:
                without.add(broker.broker_name)

        outcomes = await self._cluster.change_each(brokers, at)
        known = [each for each in outcomes if each.broker_name not in without]
        if not known:
            raise group_not_found(group)
        return known

    async def _carriers(self, topic: str) -> Sequence[LiveBroker]:
        return (await self._cluster.carriers(topic)).brokers

    async def _dead_letter_count(self, name: str, answers: Answers) -> int:
        async def at(broker: LiveBroker) -> int:
            try:
                bounds = await queue_bounds(self._doors, broker, dead_letter_topic(name))
            except TopicNotFound:
                return 0  # The broker has no dead letters of the group.
            return sum(each.max_queue_offset - each.min_queue_offset for each in bounds)

        return sum(await answers.ask(at))

    async def _settings_now(
        self, name: str, brokers: Sequence[LiveBroker]
    ) -> group_pb.ClusterGroup:
        placements = await self._placements(name, self._cluster.asking(brokers))
        return cluster_group(name, placements, (), {})

    async def _placements(self, name: str, answers: Answers) -> list[group_pb.GroupPlacement]:
        async def at(broker: LiveBroker) -> group_pb.GroupPlacement | None:
            asked = broker_pb.GetConsumerGroupRequest(consumer_group=name)
            stub = self._doors.groups(broker.address)
            try:
                answer = await answer_from(broker, stub.GetConsumerGroup, asked)
            except GroupNotFound:
                return None
            return placement_of(broker, answer.group)

        return [each for each in await answers.ask(at) if each is not None]
