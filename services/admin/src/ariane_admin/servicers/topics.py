"""``TopicService``: topics across brokers."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from grpc import aio

from ariane.admin.v1 import topic_service_pb2 as topic_pb
from ariane.admin.v1.cluster_service_pb2 import BrokerOutcome
from ariane.admin.v1.topic_service_pb2_grpc import TopicServiceServicer
from ariane.broker.v1 import offset_service_pb2 as offset_pb
from ariane.broker.v1 import topic_service_pb2 as broker_pb
from ariane.broker.v1.pull_service_pb2 import QueueBounds
from ariane.common.v1.message_pb2 import MESSAGE_TYPE_FIFO
from ariane.namesrv.v1.route_pb2 import TOPIC_PERMISSION_READ_WRITE as READ_WRITE
from ariane_admin.asking.answers import Answers
from ariane_admin.asking.broker_readings import consumer_lags, queue_bounds
from ariane_admin.asking.cluster_doors import all_pages, answer_from, broker_peer, changed_at
from ariane_admin.servicers.cluster_access import ClusterAccess, topic_not_found
from ariane_admin.servicers.topic_purge import check_purge, purged
from ariane_admin.topic_attributes import set_attributes
from ariane_record.names import reply_topic
from ariane_sdk import LiveBroker
from ariane_sdk.errors import CallError, RouteNotFound, TopicExists, TopicNotFound
from ariane_servicekit import field_invalid

_Context = aio.ServicerContext[Any, Any]

GROUPS_MAX = 100
"""The most consumer groups in the answer for one topic."""

_QUEUES_DEFAULT = 4
_QUEUES_PAGE = 1000


class _Standing(NamedTuple):
    """Where a topic is."""

    carriers: frozenset[str]
    """The brokers that have it."""
    away: frozenset[str]
    """Brokers that had it when they left, and may come back with it."""
    order: str
    """The order of its queues, which may outlive it."""
    unknown: RouteNotFound | None
    """Says who may come back with it, where nobody has it now."""


class TopicServicer(TopicServiceServicer):
    """Calls every broker that a topic concerns."""

    def __init__(self, cluster: ClusterAccess) -> None:
        self._cluster = cluster
        self._doors = cluster.doors

    async def before(self, method: str, request: Any) -> topic_pb.ClusterTopic | None:
        """The topic as it is before it is changed."""
        if method == "CreateTopic":
            return None
        answers = await self._cluster.carriers(request.topic)
        topic = _cluster_topic(request.topic, await self._placements(request.topic, answers))
        topic.queue_order = (await self._doors.client.route(request.topic)).queue_order
        return topic

    async def CreateTopic(
        self, request: topic_pb.CreateTopicRequest, context: _Context
    ) -> topic_pb.CreateTopicResponse:
        """Create a topic."""
        wanted = broker_pb.Topic()
        wanted.CopyFrom(request.topic)
        if not wanted.topic:
            raise field_invalid("topic.topic", "is required")
        wanted.read_queue_count = wanted.read_queue_count or _QUEUES_DEFAULT
        wanted.write_queue_count = wanted.write_queue_count or wanted.read_queue_count
        brokers = await self._doors.primaries(
            tuple(request.broker_names), cluster_name=request.cluster_name
        )
        exists_ok = request.exists_ok
        if wanted.message_type == MESSAGE_TYPE_FIFO:
            outcomes = await self._create_ordered(wanted, brokers, exists_ok=exists_ok)
        else:
            outcomes = await self._create(wanted, brokers, exists_ok=exists_ok)
        # Name servers may learn of it a moment later, but the brokers have it.
        placements = await self._placements(wanted.topic, self._cluster.asking(brokers))
        return topic_pb.CreateTopicResponse(
            topic=_cluster_topic(wanted.topic, placements), outcomes=outcomes
        )

    async def GetTopic(
        self, request: topic_pb.GetTopicRequest, context: _Context
    ) -> topic_pb.GetTopicResponse:
        """Read one topic."""
        answers = await self._cluster.carriers(request.topic)
        topic = _cluster_topic(request.topic, await self._placements(request.topic, answers))
        bounds = [each for _, each in await self._bounds(request.topic, answers)]
        topic.message_count = sum(e.max_queue_offset - e.min_queue_offset for e in bounds)
        topic.size_bytes = sum(each.size_bytes for each in bounds)
        topic.consumer_groups.extend(await self._groups(request.topic, answers))
        try:
            topic.queue_order = (await self._doors.client.route(request.topic)).queue_order
        except RouteNotFound as error:
            if error.may_come_back:
                raise
            raise topic_not_found(request.topic) from error
        return topic_pb.GetTopicResponse(topic=topic, silent_brokers=self._cluster.silent(answers))

    async def ListTopics(
        self, request: topic_pb.ListTopicsRequest, context: _Context
    ) -> topic_pb.ListTopicsResponse:
        """List topics by name."""
        answers = await self._cluster.answers(cluster_name=request.cluster_name)

        async def at(broker: LiveBroker) -> tuple[LiveBroker, list[broker_pb.Topic]]:
            asked = broker_pb.ListTopicsRequest(include_system=request.include_system)
            stub = self._doors.topics(broker.address)
            return broker, await all_pages(broker, stub.ListTopics, asked, lambda p: p.topics)

        placed: dict[str, list[topic_pb.TopicPlacement]] = defaultdict(list)
        if not request.cluster_name:
            # Name servers know topics of brokers that do not answer; where they lie is not known.
            names = await self._doors.client.list_topics(include_system=request.include_system)
            placed |= {name: [] for name in names if name.startswith(request.name_prefix)}
        replies = {reply_topic(broker.cluster_name) for broker in answers.brokers}
        hidden = frozenset() if request.include_system else replies
        for broker, topics in await answers.ask(at, nobody_ok=True):
            for topic in topics:
                if topic.topic.startswith(request.name_prefix) and topic.topic not in hidden:
                    placed[topic.topic].append(_placement(broker, topic))
        page = self._cluster.page(
            sorted(placed),
            lambda name: (name,),
            request,
            scope=f"topics:{request.cluster_name}:{request.name_prefix}:{request.include_system}",
        )
        return topic_pb.ListTopicsResponse(
            topics=(_cluster_topic(name, placed[name]) for name in page.entries),
            next_page_token=page.next_page_token,
            silent_brokers=self._cluster.silent(answers),
        )

    async def UpdateTopic(
        self, request: topic_pb.UpdateTopicRequest, context: _Context
    ) -> topic_pb.UpdateTopicResponse:
        """Change a topic."""
        change = broker_pb.UpdateTopicRequest(
            topic=request.topic,
            permission=request.permission,
            attributes=request.attributes,
            allow_unread_queues=request.allow_unread_queues,
        )
        for field in ("read_queue_count", "write_queue_count", "message_type"):
            if request.HasField(field):
                setattr(change, field, getattr(request, field))
        brokers = await self._concerned(request.topic, request.broker_names)

        async def at(broker: LiveBroker) -> object:
            return await changed_at(broker, self._doors.topics(broker.address).UpdateTopic, change)

        outcomes = await self._cluster.change_each(brokers, at)
        placements = await self._placements(request.topic, self._cluster.asking(brokers))
        return topic_pb.UpdateTopicResponse(
            topic=_cluster_topic(request.topic, placements), outcomes=outcomes
        )

    async def DeleteTopic(
        self, request: topic_pb.DeleteTopicRequest, context: _Context
    ) -> topic_pb.DeleteTopicResponse:
        """Delete a topic. All brokers are called, since routes may lack some that have it."""
        name = request.topic
        standing = await self._standing(name)
        brokers = await self._doors.primaries(tuple(request.broker_names))
        without: set[str] = set()

        async def at(broker: LiveBroker) -> None:
            wanted = broker_pb.DeleteTopicRequest(topic=name)
            try:
                await changed_at(broker, self._doors.topics(broker.address).DeleteTopic, wanted)
            except TopicNotFound:
                without.add(broker.broker_name)

        outcomes = [
            each
            for each in await self._cluster.change_each(brokers, at)
            if each.broker_name not in without
        ]
        failed = {each.broker_name for each in outcomes if each.HasField("error")}
        asked = {broker.broker_name for broker in brokers}
        away = () if request.broker_names else sorted(standing.away)
        if standing.unknown is not None and not outcomes:
            raise standing.unknown
        failures = []
        if not (standing.carriers | standing.away) - (asked - failed):
            failures = await self._forget_order(name, standing.order)
        if not outcomes:
            raise topic_not_found(name)
        for each in away:
            error = self._cluster.translator.status(RouteNotFound.still_at(name, [each]))
            outcomes.append(BrokerOutcome(broker_name=each, error=error))
        return topic_pb.DeleteTopicResponse(outcomes=outcomes, name_server_failures=failures)

    async def PurgeTopic(
        self, request: topic_pb.PurgeTopicRequest, context: _Context
    ) -> topic_pb.PurgeTopicResponse:
        """Hide the messages of a topic, or show them again."""
        check_purge(request)
        brokers = (await self._cluster.carriers(request.topic)).brokers
        hidden: list[topic_pb.HiddenMessages] = []

        async def at(broker: LiveBroker) -> None:
            hidden.append(await purged(self._doors, request, broker))

        outcomes = await self._cluster.change_each(brokers, at)
        hidden.sort(key=lambda each: each.broker_name)
        return topic_pb.PurgeTopicResponse(hidden=hidden, outcomes=outcomes)

    async def UpdateTopicQueueOrder(
        self, request: topic_pb.UpdateTopicQueueOrderRequest, context: _Context
    ) -> topic_pb.UpdateTopicQueueOrderResponse:
        """Store the order of a topic's queues, or delete it."""
        client = self._doors.client
        try:
            if request.clear:
                await client.forget_queue_order(request.topic)
                route = await client.route(request.topic)
            else:
                route = await client.keep_queue_order(request.topic)
        except RouteNotFound as error:
            if error.may_come_back:
                raise
            raise topic_not_found(request.topic) from error
        return topic_pb.UpdateTopicQueueOrderResponse(queue_order=route.queue_order)

    async def ListTopicQueues(
        self, request: topic_pb.ListTopicQueuesRequest, context: _Context
    ) -> topic_pb.ListTopicQueuesResponse:
        """List the queues of a topic."""
        answers = await self._cluster.carriers(request.topic)
        queues = [
            topic_pb.TopicQueue(
                cluster_name=broker.cluster_name, broker_name=broker.broker_name, bounds=bounds
            )
            for broker, bounds in await self._bounds(request.topic, answers)
        ]

        def key(queue: topic_pb.TopicQueue) -> tuple[str, str, int]:
            return queue.cluster_name, queue.broker_name, queue.bounds.queue_id

        page = self._cluster.page(
            sorted(queues, key=key),
            key,
            request,
            scope=f"queues:{request.topic}",
            page_size=_QUEUES_PAGE,
        )
        return topic_pb.ListTopicQueuesResponse(
            queues=page.entries,
            next_page_token=page.next_page_token,
            silent_brokers=self._cluster.silent(answers),
        )

    async def _create(
        self, wanted: broker_pb.Topic, brokers: Sequence[LiveBroker], *, exists_ok: bool
    ) -> list[BrokerOutcome]:
        """Create a topic; a broker that has it already, with the same settings, counts as done.

        Raises:
            TopicExists: All brokers have it, and the request does not allow that.
        """
        standing: list[TopicExists] = []

        async def at(broker: LiveBroker) -> None:
            stub = self._doors.topics(broker.address)
            request = broker_pb.CreateTopicRequest(topic=wanted)
            peer = broker_peer(broker)
            try:
                await changed_at(peer, stub.CreateTopic, request)
            except TopicExists as exists:
                if exists_ok:
                    return
                standing.append(exists)
                asked = broker_pb.GetTopicRequest(topic=wanted.topic)
                answer = await answer_from(peer, stub.GetTopic, asked)
                if not _alike(answer.topic, wanted):
                    raise

        outcomes = await self._cluster.change_each(brokers, at)
        if standing and len(standing) == len(brokers):
            raise standing[0]
        return outcomes

    async def _create_ordered(
        self, wanted: broker_pb.Topic, brokers: Sequence[LiveBroker], *, exists_ok: bool
    ) -> list[BrokerOutcome]:
        """Create an ordered topic, after its order of queues.

        So name servers that cannot store the order refuse before the topic is created.
        """
        client = self._doors.client
        counts = {broker.broker_name: wanted.write_queue_count for broker in brokers}
        async with client.queue_order_first(wanted.topic, counts):
            outcomes = await self._create(wanted, brokers, exists_ok=exists_ok)
        # Name servers may learn of the topic a moment later, but they return its order now.
        if not (await self._standing(wanted.topic)).order:
            try:
                await client.keep_queue_order(wanted.topic)
            except CallError as error:
                error.add_note(
                    "the topic is there, but not every name server keeps the order of its"
                    f" queues: say ariane topic order {shlex.quote(wanted.topic)} --set when they"
                    " answer"
                )
                raise
        return outcomes

    async def _standing(self, topic: str) -> _Standing:
        try:
            route = await self._doors.client.route(topic)
        except RouteNotFound as unknown:
            away, order = unknown.away_brokers, unknown.metadata.get("queue_order", "")
            return _Standing(frozenset(), away, order, unknown if away else None)
        carriers = frozenset(broker.broker_name for broker in route.brokers)
        return _Standing(carriers, route.away_brokers, route.queue_order, None)

    async def _forget_order(self, topic: str, order: str) -> list[str]:
        """Delete the order of a topic that no broker has any more from name servers.

        Args:
            topic: The topic.
            order: The order in one of them; empty if that has none, though another may have one.

        Returns:
            Why the deletion failed, if no order was known.
        """
        try:
            await self._doors.client.forget_queue_order(topic)
        except CallError as error:
            if order:
                error.add_note(
                    "its brokers have deleted the topic, but not every name server has forgotten"
                    " the order of its queues: repeat it when they answer"
                )
                raise
            return [str(error)]
        return []

    async def _concerned(self, topic: str, names: Sequence[str]) -> Sequence[LiveBroker]:
        if names:
            return await self._doors.primaries(tuple(names))
        return (await self._cluster.carriers(topic)).brokers

    async def _placements(self, topic: str, answers: Answers) -> list[topic_pb.TopicPlacement]:
        async def at(broker: LiveBroker) -> topic_pb.TopicPlacement | None:
            asked = broker_pb.GetTopicRequest(topic=topic)
            try:
                answer = await answer_from(
                    broker, self._doors.topics(broker.address).GetTopic, asked
                )
            except TopicNotFound:
                return None
            return _placement(broker, answer.topic)

        return [each for each in await answers.ask(at) if each is not None]

    async def _bounds(self, topic: str, answers: Answers) -> list[tuple[LiveBroker, QueueBounds]]:
        async def at(broker: LiveBroker) -> list[tuple[LiveBroker, QueueBounds]]:
            return [(broker, one) for one in await queue_bounds(self._doors, broker, topic)]

        return [pair for pairs in await answers.ask(at) for pair in pairs]

    async def _groups(self, topic: str, answers: Answers) -> list[str]:
        async def at(broker: LiveBroker) -> list[offset_pb.ConsumerLag]:
            return await consumer_lags(self._doors, broker, topic=topic)

        lags = [lag for found in await answers.ask(at) for lag in found]
        return sorted({lag.consumer_group for lag in lags})[:GROUPS_MAX]


def _placement(broker: LiveBroker, topic: broker_pb.Topic) -> topic_pb.TopicPlacement:
    return topic_pb.TopicPlacement(
        cluster_name=broker.cluster_name,
        broker_name=broker.broker_name,
        address=broker.address,
        topic=topic,
    )


def _cluster_topic(
    name: str, placements: Sequence[topic_pb.TopicPlacement]
) -> topic_pb.ClusterTopic:
    ordered = sorted(placements, key=lambda each: (each.cluster_name, each.broker_name))
    first = ordered[0].topic if ordered else None
    return topic_pb.ClusterTopic(
        topic=name,
        placements=ordered,
        uneven=any(first is not None and not _alike(each.topic, first) for each in ordered),
    )


def _alike(topic: broker_pb.Topic, other: broker_pb.Topic) -> bool:
    """Whether two parts of a topic have the same settings."""

    def settings(each: broker_pb.Topic) -> tuple[object, ...]:
        return (
            each.read_queue_count,
            each.write_queue_count,
            each.permission or READ_WRITE,
            each.message_type,
            set_attributes(each),
        )

    return settings(topic) == settings(other)
