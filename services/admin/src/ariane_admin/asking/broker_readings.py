"""What one broker answers to questions that several parts ask."""

from __future__ import annotations

from collections.abc import Sequence

from ariane.broker.v1.broker_service_pb2 import GetBrokerStateRequest, GetBrokerStateResponse
from ariane.broker.v1.offset_service_pb2 import ConsumerLag, ListConsumerLagsRequest
from ariane.broker.v1.pull_service_pb2 import (
    ListQueueBoundsRequest,
    ListQueueBoundsResponse,
    QueueBounds,
)
from ariane.replication.v1.replica_set_service_pb2 import (
    GetReplicaSetRequest,
    GetReplicaSetResponse,
)
from ariane_admin.asking.cluster_doors import ClusterDoors, NamedBroker, all_pages, answer_from
from ariane_sdk.errors import CallError


async def broker_state(doors: ClusterDoors, broker: NamedBroker) -> GetBrokerStateResponse:
    """What a broker says of itself.

    Raises:
        CallError: It refused or did not answer.
    """
    return await answer_from(
        broker, doors.brokers(broker.address).GetBrokerState, GetBrokerStateRequest()
    )


async def replica_set_of(doors: ClusterDoors, broker: NamedBroker) -> GetReplicaSetResponse | None:
    """A broker's state of its replica set; None without replicas.

    Raises:
        CallError: It refused or did not answer.
    """
    try:
        return await answer_from(
            broker, doors.replica_sets(broker.address).GetReplicaSet, GetReplicaSetRequest()
        )
    except CallError as error:
        if error.reason == "FEATURE_NOT_AVAILABLE":
            return None
        raise


async def queue_bounds(
    doors: ClusterDoors, broker: NamedBroker, topic: str
) -> Sequence[QueueBounds]:
    """The queues that a broker has of a topic, each with its first and its next queue offset.

    Raises:
        TopicNotFound: It does not carry the topic.
        CallError: It refused or did not answer.
    """
    answer: ListQueueBoundsResponse = await answer_from(
        broker, doors.pulls(broker.address).ListQueueBounds, ListQueueBoundsRequest(topic=topic)
    )
    return answer.queues


async def consumer_lags(
    doors: ClusterDoors, broker: NamedBroker, *, group: str = "", topic: str = ""
) -> list[ConsumerLag]:
    """How far groups are behind in queues of a broker.

    Args:
        doors: The cluster.
        broker: The broker.
        group: Only this group; empty for all.
        topic: Only this topic; empty for all.

    Raises:
        CallError: It refused or did not answer.
    """
    request = ListConsumerLagsRequest(consumer_group=group, topic=topic)
    stub = doors.offsets(broker.address)
    return await all_pages(broker, stub.ListConsumerLags, request, lambda page: page.lags)
