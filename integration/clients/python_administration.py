"""What the Python program asks of admin: by stubs, since the Python SDK changes brokers itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from grpc.aio import AioRpcError

from ariane.admin.v1 import group_service_pb2 as groups_pb
from ariane.admin.v1 import lag_service_pb2 as lags_pb
from ariane.admin.v1 import topic_service_pb2 as topics_pb
from ariane.admin.v1.group_service_pb2_grpc import GroupServiceStub
from ariane.admin.v1.lag_service_pb2_grpc import LagServiceStub
from ariane.admin.v1.topic_service_pb2_grpc import TopicServiceStub
from ariane.broker.v1.group_service_pb2 import ConsumerGroup
from ariane.broker.v1.topic_service_pb2 import Topic
from ariane_sdk import ClusterClient
from ariane_sdk.translation import error_from_rpc

PAGE_SIZE = 1000


class Administration:
    """One act each."""

    def __init__(self, channel: Any) -> None:
        self.topics_stub = TopicServiceStub(channel)
        self.groups_stub = GroupServiceStub(channel)
        self.lags_stub = LagServiceStub(channel)

    async def create_topic(self, asked: dict[str, Any]) -> Any:
        queues = asked["queues"]
        topic = Topic(topic=asked["topic"], read_queue_count=queues, write_queue_count=queues)
        await self.topics_stub.CreateTopic(topics_pb.CreateTopicRequest(topic=topic))
        return {}

    async def update_topic(self, asked: dict[str, Any]) -> Any:
        queues = asked["queues"]
        change = topics_pb.UpdateTopicRequest(
            topic=asked["topic"], read_queue_count=queues, write_queue_count=queues
        )
        await self.topics_stub.UpdateTopic(change)
        return {}

    async def delete_topic(self, asked: dict[str, Any]) -> Any:
        await self.topics_stub.DeleteTopic(topics_pb.DeleteTopicRequest(topic=asked["topic"]))
        return {}

    async def topics(self, _: dict[str, Any]) -> Any:
        request = topics_pb.ListTopicsRequest(page_size=PAGE_SIZE)
        listed = await self.topics_stub.ListTopics(request)
        return {"topics": [each.topic for each in listed.topics]}

    async def create_group(self, asked: dict[str, Any]) -> Any:
        group = ConsumerGroup(consumer_group=asked["group"])
        await self.groups_stub.CreateGroup(groups_pb.CreateGroupRequest(group=group))
        return {}

    async def delete_group(self, asked: dict[str, Any]) -> Any:
        request = groups_pb.DeleteGroupRequest(consumer_group=asked["group"])
        await self.groups_stub.DeleteGroup(request)
        return {}

    async def groups(self, _: dict[str, Any]) -> Any:
        request = groups_pb.ListGroupsRequest(page_size=PAGE_SIZE)
        listed = await self.groups_stub.ListGroups(request)
        return {"groups": [each.consumer_group for each in listed.groups]}

    async def lag(self, asked: dict[str, Any]) -> Any:
        request = lags_pb.ListGroupLagsRequest(consumer_group=asked["group"], topic=asked["topic"])
        listed = await self.lags_stub.ListGroupLags(request)
        return {"lag": sum(each.message_count for each in listed.lags)}

    async def reset(self, asked: dict[str, Any]) -> Any:
        time = Timestamp()
        time.FromMilliseconds(asked["to_ms"])
        request = groups_pb.ResetGroupOffsetsRequest(
            consumer_group=asked["group"], topic=asked["topic"], time=time
        )
        await self.groups_stub.ResetGroupOffsets(request)
        return {}


async def administer(name_servers: Sequence[str], asked: dict[str, Any]) -> Any:
    """Do what a command says.

    Raises:
        CallError: Admin has refused it.
    """
    async with ClusterClient(name_servers) as client:
        administration = Administration(client.channel(asked["address"]))
        try:
            return await getattr(administration, asked["act"])(asked)
        except AioRpcError as error:
            raise error_from_rpc(error, peer="admin") from error
