"""``TopicService``: the topics of this broker."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from grpc import aio

from ariane.broker.v1 import topic_service_pb2 as topic_pb
from ariane.broker.v1.topic_service_pb2_grpc import TopicServiceServicer
from ariane.common.v1 import message_pb2 as message_pb
from ariane.namesrv.v1 import route_pb2 as route_pb
from ariane_broker.naming.announcement import PERMISSIONS, permission_value
from ariane_broker.read.queue_lookup import QueueLookup
from ariane_broker.rpc.translation.wire_time import time_of
from ariane_broker.topics.topic_changes import TopicChanges, check_topic_spelling
from ariane_broker.topics.topic_table import (
    MESSAGE_TYPE_ATTRIBUTE,
    Permission,
    TopicChange,
    TopicConfig,
    TopicMessageType,
    TopicTable,
)
from ariane_broker.topics.unread_queues import UnreadQueues
from ariane_servicekit import PageRequest, field_invalid, in_turns

_PERMISSION_VALUES: Final = {value: permission for permission, value in PERMISSIONS.items()}

_TYPES: Final = {
    message_pb.MESSAGE_TYPE_UNSPECIFIED: TopicMessageType.UNSPECIFIED,
    message_pb.MESSAGE_TYPE_NORMAL: TopicMessageType.NORMAL,
    message_pb.MESSAGE_TYPE_FIFO: TopicMessageType.FIFO,
    message_pb.MESSAGE_TYPE_DELAY: TopicMessageType.DELAY,
    message_pb.MESSAGE_TYPE_TRANSACTION: TopicMessageType.TRANSACTION,
}
_TYPE_VALUES: Final = {kind: value for value, kind in _TYPES.items()}


class TopicServicer(TopicServiceServicer):
    """Translates queries and changes of topics."""

    def __init__(
        self, table: TopicTable, changes: TopicChanges, lookup: QueueLookup, unread: UnreadQueues
    ) -> None:
        self._table = table
        self._changes = changes
        self._lookup = lookup
        self._unread = unread

    async def CreateTopic(
        self, request: topic_pb.CreateTopicRequest, context: aio.ServicerContext[Any, Any]
    ) -> topic_pb.CreateTopicResponse:
        """Create a topic."""
        wanted = request.topic
        change = TopicChange(
            read_queue_count=wanted.read_queue_count,
            write_queue_count=wanted.write_queue_count,
            permission=_permission(wanted.permission),
            message_type=_message_type(wanted.message_type),
            attributes=_attributes(wanted.attributes),
            allow_unread_queues=request.allow_unread_queues,
        )
        config = await self._changes.create(wanted.topic, change)
        return topic_pb.CreateTopicResponse(topic=await self._only(config))

    async def GetTopic(
        self, request: topic_pb.GetTopicRequest, context: aio.ServicerContext[Any, Any]
    ) -> topic_pb.GetTopicResponse:
        """Read one topic."""
        if self._table.find(request.topic) is None:
            check_topic_spelling(request.topic)
        return topic_pb.GetTopicResponse(topic=await self._only(self._table.get(request.topic)))

    async def ListTopics(
        self, request: topic_pb.ListTopicsRequest, context: aio.ServicerContext[Any, Any]
    ) -> topic_pb.ListTopicsResponse:
        """List topics by name."""
        wanted = PageRequest.of(
            page_size=request.page_size,
            page_token=request.page_token,
            scope=f"topics:{request.include_system}",
            kinds=(str,),
        )
        page = await wanted.page_in_turns(
            (
                config if request.include_system or not config.system else None
                for config in self._table.walk()
            ),
            lambda config: (config.topic,),
        )
        return topic_pb.ListTopicsResponse(
            topics=await self._topics(page.entries), next_page_token=page.next_page_token
        )

    async def UpdateTopic(
        self, request: topic_pb.UpdateTopicRequest, context: aio.ServicerContext[Any, Any]
    ) -> topic_pb.UpdateTopicResponse:
        """Change a topic."""
        reads, writes = request.read_queue_count, request.write_queue_count
        change = TopicChange(
            read_queue_count=reads if request.HasField("read_queue_count") else None,
            write_queue_count=writes if request.HasField("write_queue_count") else None,
            permission=_permission(request.permission),
            message_type=_message_type(request.message_type)
            if request.HasField("message_type")
            else None,
            attributes=_attributes(request.attributes),
            allow_unread_queues=request.allow_unread_queues,
        )
        config = await self._changes.update(request.topic, change)
        return topic_pb.UpdateTopicResponse(topic=await self._only(config))

    async def DeleteTopic(
        self, request: topic_pb.DeleteTopicRequest, context: aio.ServicerContext[Any, Any]
    ) -> topic_pb.DeleteTopicResponse:
        """Delete a topic."""
        await self._changes.delete(request.topic)
        return topic_pb.DeleteTopicResponse()

    async def _only(self, config: TopicConfig) -> topic_pb.Topic:
        (topic,) = await self._topics([config])
        return topic

    async def _topics(self, configs: Sequence[TopicConfig]) -> list[topic_pb.Topic]:
        unread_counts = await self._unread.message_counts()
        stored_ms = await self._lookup.last_store_timestamps_ms(configs)
        return await in_turns(
            self._topic(config, stored_ms.get(config.topic), unread_counts[config.topic])
            for config in configs
        )

    def _topic(
        self, config: TopicConfig, stored_ms: int | None, unread_message_count: int
    ) -> topic_pb.Topic:
        attributes = dict(config.attributes)
        attributes.pop(MESSAGE_TYPE_ATTRIBUTE, None)
        return topic_pb.Topic(
            topic=config.topic,
            read_queue_count=config.read_queue_count,
            write_queue_count=config.write_queue_count,
            permission=permission_value(config.permission),
            message_type=_TYPE_VALUES.get(config.message_type, message_pb.MESSAGE_TYPE_UNSPECIFIED),
            attributes=attributes,
            version=config.version,
            system=config.system,
            last_store_time=None if stored_ms is None else time_of(stored_ms),
            unread_message_count=unread_message_count,
        )


def _permission(value: route_pb.TopicPermission.ValueType) -> Permission | None:
    if value == route_pb.TOPIC_PERMISSION_UNSPECIFIED:
        return None
    permission = _PERMISSION_VALUES.get(value)
    if permission is None:
        raise field_invalid("permission", "is not known", value)
    return permission


def _message_type(value: message_pb.MessageType.ValueType) -> TopicMessageType:
    kind = _TYPES.get(value)
    if kind is None:
        raise field_invalid("message_type", "is not known", value)
    return kind


def _attributes(attributes: Mapping[str, str]) -> dict[str, str]:
    if MESSAGE_TYPE_ATTRIBUTE in attributes:
        raise field_invalid(
            "attributes", f"must not hold {MESSAGE_TYPE_ATTRIBUTE}: a field of its own"
        )
    return dict(attributes)
