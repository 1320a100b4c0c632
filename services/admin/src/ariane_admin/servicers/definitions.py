"""``DefinitionService``: export and import of all topics and groups."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple

from grpc import aio

from ariane.admin.v1 import definition_service_pb2 as definition_pb
from ariane.admin.v1.definition_service_pb2_grpc import DefinitionServiceServicer
from ariane.broker.v1 import group_service_pb2 as group_pb
from ariane.broker.v1 import topic_service_pb2 as topic_pb
from ariane.common.v1.message_pb2 import MESSAGE_TYPE_FIFO
from ariane_admin.asking.cluster_doors import all_pages, changed_at
from ariane_admin.servicers.cluster_access import ClusterAccess
from ariane_admin.topic_attributes import set_attributes
from ariane_record.names import is_system_group, is_system_topic
from ariane_sdk import LiveBroker
from ariane_sdk.errors import ArianeError
from ariane_servicekit import field_invalid

_Context = aio.ServicerContext[Any, Any]


class _Held(NamedTuple):
    """The topics and groups of a broker."""

    broker: LiveBroker
    topics: dict[str, topic_pb.Topic]
    groups: dict[str, group_pb.ConsumerGroup]


class DefinitionServicer(DefinitionServiceServicer):
    """Reads the definitions of brokers, and changes them to match an import."""

    def __init__(self, cluster: ClusterAccess) -> None:
        self._cluster = cluster
        self._doors = cluster.doors

    async def before(
        self, method: str, request: definition_pb.ImportDefinitionsRequest
    ) -> definition_pb.Definitions:
        """The existing definitions that an import may change."""
        there, _ = await self._definitions(request.cluster_name)
        topics = {each.topic for each in request.definitions.topics}
        groups = {each.consumer_group for each in request.definitions.groups}
        return definition_pb.Definitions(
            topics=(each for each in there.topics if each.topic in topics),
            groups=(each for each in there.groups if each.consumer_group in groups),
        )

    async def ExportDefinitions(
        self, request: definition_pb.ExportDefinitionsRequest, context: _Context
    ) -> definition_pb.ExportDefinitionsResponse:
        """Read all definitions."""
        definitions, uneven = await self._definitions(request.cluster_name)
        return definition_pb.ExportDefinitionsResponse(definitions=definitions, uneven_names=uneven)

    async def ImportDefinitions(
        self, request: definition_pb.ImportDefinitionsRequest, context: _Context
    ) -> definition_pb.ImportDefinitionsResponse:
        """Create missing topics and groups, and change differing ones."""
        answers = await self._cluster.answers(cluster_name=request.cluster_name)
        _check_origin(request, answers.brokers)
        held = await answers.ask(self._held)
        # Each broker gets its changes one by one, all brokers at the same time.
        brought = await asyncio.gather(*(self._bring(each, request) for each in held))
        changes = [change for each in brought for change in each]
        if not request.validate_only:
            await self._keep_orders(request.definitions)
        return definition_pb.ImportDefinitionsResponse(
            changes=sorted(changes, key=lambda each: (each.subject, each.broker_name)),
            silent_brokers=self._cluster.silent(answers),
        )

    async def _definitions(self, cluster_name: str) -> tuple[definition_pb.Definitions, list[str]]:
        answers = await self._cluster.answers(cluster_name=cluster_name)
        held = await answers.ask(self._held)
        # An incomplete export would look complete.
        for error in answers.silent.values():
            raise error
        topics: dict[str, topic_pb.Topic] = {}
        groups: dict[str, group_pb.ConsumerGroup] = {}
        uneven: set[str] = set()
        for each in held:
            for name, topic in each.topics.items():
                if topic_settings(topics.setdefault(name, topic)) != topic_settings(topic):
                    uneven.add(f"topic {name}")
            for name, group in each.groups.items():
                if _group_settings(groups.setdefault(name, group)) != _group_settings(group):
                    uneven.add(f"group {name}")
        definitions = definition_pb.Definitions(
            topics=(topic_settings(topics[name]) for name in sorted(topics)),
            groups=(_group_settings(groups[name]) for name in sorted(groups)),
        )
        clusters = {broker.cluster_name for broker in answers.brokers}
        if len(clusters) == 1:
            definitions.cluster_name = clusters.pop()
        return definitions, sorted(uneven)

    async def _held(self, broker: LiveBroker) -> _Held:
        topics = await all_pages(
            broker,
            self._doors.topics(broker.address).ListTopics,
            topic_pb.ListTopicsRequest(),
            lambda page: page.topics,
        )
        groups = await all_pages(
            broker,
            self._doors.groups(broker.address).ListConsumerGroups,
            group_pb.ListConsumerGroupsRequest(),
            lambda page: page.groups,
        )
        return _Held(
            broker,
            {e.topic: e for e in topics if not e.system and not is_system_topic(e.topic)},
            {e.consumer_group: e for e in groups if not is_system_group(e.consumer_group)},
        )

    async def _bring(
        self, held: _Held, request: definition_pb.ImportDefinitionsRequest
    ) -> list[definition_pb.DefinitionChange]:
        changes = []
        for topic in request.definitions.topics:
            there = held.topics.get(topic.topic)
            if there is None or topic_settings(there) != topic_settings(topic):
                changes.append(await self._bring_topic(held, topic, request.validate_only))
        for group in request.definitions.groups:
            known = held.groups.get(group.consumer_group)
            if known is None or _group_settings(known) != _group_settings(group):
                changes.append(await self._bring_group(held, group, request.validate_only))
        return changes

    async def _bring_topic(
        self, held: _Held, topic: topic_pb.Topic, validate_only: bool
    ) -> definition_pb.DefinitionChange:
        broker, stub = held.broker, self._doors.topics(held.broker.address)
        there = held.topics.get(topic.topic)
        is_new = there is None

        async def bring() -> None:
            if there is None:
                made = topic_pb.CreateTopicRequest(topic=topic)
                await changed_at(broker, stub.CreateTopic, made)
                return
            changed = topic_pb.UpdateTopicRequest(
                topic=topic.topic,
                read_queue_count=topic.read_queue_count,
                write_queue_count=topic.write_queue_count,
                permission=topic.permission,
                message_type=topic.message_type,
                # An empty text removes one.
                attributes=dict.fromkeys(set_attributes(there), "") | set_attributes(topic),
            )
            await changed_at(broker, stub.UpdateTopic, changed)

        subject = f"topic {topic.topic}"
        return await _change(subject, broker, bring, is_new=is_new, validate_only=validate_only)

    async def _bring_group(
        self, held: _Held, group: group_pb.ConsumerGroup, validate_only: bool
    ) -> definition_pb.DefinitionChange:
        broker, stub = held.broker, self._doors.groups(held.broker.address)
        is_new = group.consumer_group not in held.groups

        async def bring() -> None:
            if is_new:
                made = group_pb.CreateConsumerGroupRequest(group=group)
                await changed_at(broker, stub.CreateConsumerGroup, made)
                return
            changed = group_pb.UpdateConsumerGroupRequest(group=_whole_change(group))
            await changed_at(broker, stub.UpdateConsumerGroup, changed)

        subject = f"group {group.consumer_group}"
        return await _change(subject, broker, bring, is_new=is_new, validate_only=validate_only)

    async def _keep_orders(self, definitions: definition_pb.Definitions) -> None:
        """Store the order of queues of ordered topics, as at their creation."""
        client = self._doors.client
        for topic in definitions.topics:
            if topic.message_type == MESSAGE_TYPE_FIFO:
                route = await client.route(topic.topic)
                if not route.queue_order:
                    await client.keep_queue_order(topic.topic)


def _check_origin(
    request: definition_pb.ImportDefinitionsRequest, brokers: Sequence[LiveBroker]
) -> None:
    """Refuse definitions of another cluster, unless the request allows them.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    origin = request.definitions.cluster_name
    here = {broker.cluster_name for broker in brokers}
    if origin and origin not in here and not request.allow_other_cluster:
        names = ", ".join(sorted(here))
        rule = f"must be this one, {names}, unless another is allowed (--other-cluster)"
        raise field_invalid("definitions.cluster_name", rule, origin)


async def _change(
    subject: str,
    broker: LiveBroker,
    bring: Callable[[], Awaitable[None]],
    *,
    is_new: bool,
    validate_only: bool,
) -> definition_pb.DefinitionChange:
    change = definition_pb.DefinitionChange(
        subject=subject,
        broker_name=broker.broker_name,
        action="created" if is_new else "changed",
    )
    if not validate_only:
        try:
            await bring()
        except ArianeError as error:
            change.failure = str(error)
    return change


def topic_settings(topic: topic_pb.Topic) -> topic_pb.Topic:
    """The settings of a topic."""
    return topic_pb.Topic(
        topic=topic.topic,
        read_queue_count=topic.read_queue_count,
        write_queue_count=topic.write_queue_count,
        permission=topic.permission,
        message_type=topic.message_type,
        attributes=set_attributes(topic),
    )


_UNLIMITED: Final = (1 << 31) - 1


def _whole_change(group: group_pb.ConsumerGroup) -> group_pb.ConsumerGroupChange:
    """The change that gives a group all the settings of another."""
    return group_pb.ConsumerGroupChange(
        consumer_group=group.consumer_group,
        consume_enabled=group.consume_enabled,
        broadcast_enabled=group.broadcast_enabled,
        attempts_max=group.attempts_max,
        ordered_attempts_max=(
            group.ordered_attempts_max if group.HasField("ordered_attempts_max") else _UNLIMITED
        ),
        retry_policy=group.retry_policy,
        subscription_conflict_policy=group.subscription_conflict_policy
        or group_pb.SUBSCRIPTION_CONFLICT_POLICY_REFUSE,
        receive_in_order=group.receive_in_order,
    )


def _group_settings(group: group_pb.ConsumerGroup) -> group_pb.ConsumerGroup:
    settings = group_pb.ConsumerGroup()
    settings.CopyFrom(group)
    settings.ClearField("version")
    return settings
