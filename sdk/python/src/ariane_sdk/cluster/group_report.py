"""What brokers tell of a consumer group: who its members are, and how far it is behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ariane.broker.v1 import client_service_pb2, offset_service_pb2
from ariane_sdk.client.conflicts import subscriptions_of
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.net.timestamps import moment_from


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A live member of a consumer group.

    Attributes:
        client_id: The id under which brokers know it.
        address: Where a broker sees it.
        subscriptions: By topic, the filter expression; without the group's retry topic.
        model: How it consumes: "clustering" owns queues, "broadcasting" has all of them,
            "receiving" owns none.
    """

    client_id: str
    address: str
    subscriptions: Mapping[str, str]
    model: str = "clustering"


@dataclass(frozen=True, slots=True)
class QueueLag:
    """How far a group is behind in one queue.

    Attributes:
        group: The group.
        message_queue: The queue.
        consumer_offset: The next queue offset that the group will consume.
        max_queue_offset: Readable end, exclusive.
        message_count: Messages that are not consumed yet.
        oldest_store_time: When the oldest of them was stored; nothing without a backlog.
        suspected_count: Messages from the consumer offset on among which one is that members may
            die of.
        death_count: How many died of the message at the consumer offset, in order.
        unread: Whether the queue is not among those that are read: nobody gets its messages.
        in_flight_count: Of the messages, those that members who own no queues have in hand.
        delayed_count: Of the messages, those that failed and wait in the queue.
        receiving: Whether members receive from the queue without owning it.
    """

    group: str
    message_queue: MessageQueue
    consumer_offset: int
    max_queue_offset: int
    message_count: int
    oldest_store_time: datetime | None
    suspected_count: int = 0
    death_count: int = 0
    unread: bool = False
    in_flight_count: int = 0
    delayed_count: int = 0
    receiving: bool = False

    @property
    def ready_count(self) -> int | None:
        """Messages that a receiving member gets with its next call; nothing where none receives."""
        if not self.receiving:
            return None
        return self.message_count - self.in_flight_count - self.delayed_count


_MODELS: Final = {
    client_service_pb2.CONSUME_MODEL_BROADCASTING: "broadcasting",
    client_service_pb2.CONSUME_MODEL_RECEIVING: "receiving",
}


def group_member_of(member: client_service_pb2.GroupMember) -> GroupMember:
    """A member as a broker says it."""
    return GroupMember(
        member.client_id,
        member.address,
        subscriptions_of(member),
        _MODELS.get(member.membership.model, "clustering"),
    )


def queue_lag_of(lag: offset_service_pb2.ConsumerLag, broker_name: str) -> QueueLag:
    """The backlog of a queue as its broker says it."""
    has_oldest = lag.HasField("oldest_store_time")
    return QueueLag(
        lag.consumer_group,
        MessageQueue(lag.topic, broker_name, lag.queue_id),
        lag.consumer_offset,
        lag.max_queue_offset,
        lag.message_count,
        moment_from(lag.oldest_store_time) if has_oldest else None,
        lag.suspected_count,
        lag.death_count,
        lag.unread,
        lag.in_flight_count,
        lag.delayed_count,
        lag.receiving,
    )
