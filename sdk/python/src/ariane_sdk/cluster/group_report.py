"""Reports of brokers about a consumer group: its members and its backlog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias

from ariane.broker.v1 import client_question_pb2, client_service_pb2, offset_service_pb2
from ariane_sdk.cluster.conflicts import subscriptions_of
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.net.timestamps import moment_from

MemberKind: TypeAlias = Literal["push", "pull", "receive", "broadcast"]
"""How a member gets messages: by a listener, by polling, without owning queues, or all of them."""

MembersByGroup: TypeAlias = dict[str, dict[str, MemberKind]]
"""How each member gets messages: by group, by client id."""


@dataclass(frozen=True, slots=True)
class QueueHold:
    """A queue of which a member hands out nothing."""

    message_queue: MessageQueue | None
    """The queue; None: all queues of the member."""
    reason: str
    """Why: "failed_in_order", a message failed and those behind it wait; "requested" by the
    listener; "paused" by the application; "breaker_open", too many calls failed."""
    queue_offset: int
    """The message that is tried again."""
    attempts: int
    """How often it has failed in its place."""
    age_s: float
    """How long it has lasted, in seconds, when the member reported it."""
    cause: str
    """Why, for people."""
    remaining_s: float | None = None
    """How long it lasted yet then, in seconds; None: until its cause is gone."""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A live member of a consumer group."""

    client_id: str
    """Its client id."""
    address: str
    """Its address, as a broker sees it."""
    subscriptions: Mapping[str, str]
    """The filter expressions by topic, without the group's retry topic."""
    model: str = "clustering"
    """How it consumes: "clustering" owns queues, "broadcasting" has all of them, "receiving" owns
    none."""
    holds: tuple[QueueHold, ...] = ()
    """The queues of which it hands out nothing, by its report of the last 30 s."""
    away: bool = False
    """Whether it has left for a moment, and its queues are kept for it."""
    polls: bool = False
    """Whether its application polls for messages, instead of a listener."""

    @property
    def kind(self) -> MemberKind:
        """How it gets messages."""
        return _kind(self.model, polls=self.polls)


@dataclass(frozen=True, slots=True)
class StreamQuery:
    """A query of a stream processor that shows its progress as a group's offsets."""

    engine: str
    """The stream processor, such as "Spark 4.3.0"."""
    address: str
    """Its address, as a broker sees it."""
    last_store_time: datetime
    """When it last stored offsets."""


@dataclass(frozen=True, slots=True)
class QueueLag:
    """The backlog of a group in one queue."""

    group: str
    """The group."""
    message_queue: MessageQueue
    """The queue."""
    consumer_offset: int
    """The next queue offset that the group will consume."""
    max_queue_offset: int
    """The end of readable records, exclusive."""
    message_count: int
    """The number of messages that are not consumed yet."""
    oldest_store_time: datetime | None
    """The store time of the oldest of them; None without a backlog."""
    suspected_count: int = 0
    """The number of messages from the consumer offset on, one of which may crash members."""
    death_count: int = 0
    """The number of members that crashed with the message at the consumer offset."""
    unread: bool = False
    """Whether the queue is not readable: no member gets its messages."""
    in_flight_count: int = 0
    """The number of these messages that receiving members have in hand."""
    delayed_count: int = 0
    """The number of these messages that failed and wait in the queue."""
    receiving: bool = False
    """Whether members receive from the queue without owning it."""
    expired_count: int = 0
    """The number of messages that the group was not given since the broker's process started,
    because they had expired."""
    stream_query: StreamQuery | None = None
    """The query that last stored the group's offsets, if one did within a day."""

    @property
    def ready_count(self) -> int | None:
        """The number of messages that are ready for receiving; None if no member receives."""
        if not self.receiving:
            return None
        return self.message_count - self.in_flight_count - self.delayed_count


_MODELS: Final = {
    client_service_pb2.CONSUME_MODEL_BROADCASTING: "broadcasting",
    client_service_pb2.CONSUME_MODEL_RECEIVING: "receiving",
}

_KINDS: Final[dict[str, MemberKind]] = {"broadcasting": "broadcast", "receiving": "receive"}


def _kind(model: str, *, polls: bool) -> MemberKind:
    return _KINDS.get(model) or ("pull" if polls else "push")


def note_members(members: MembersByGroup, hello: client_service_pb2.ClientHello) -> None:
    """Note the groups of a client, from the answer of a broker."""
    for each in hello.memberships:
        model = _MODELS.get(each.model, "clustering")
        kinds = members.setdefault(each.consumer_group, {})
        kinds[hello.client_id] = _kind(model, polls=each.polls)


def group_member_of(member: client_service_pb2.GroupMember) -> GroupMember:
    """A member from the answer of a broker."""
    return GroupMember(
        member.client_id,
        member.address,
        subscriptions_of(member),
        _MODELS.get(member.membership.model, "clustering"),
        tuple(map(queue_hold_of, member.holds)),
        member.away,
        member.membership.polls,
    )


def queue_hold_of(hold: client_question_pb2.QueueHold) -> QueueHold:
    """A hold from the answer of a broker."""
    queue = MessageQueue(hold.topic, hold.broker_name, hold.queue_id) if hold.topic else None
    reason = client_question_pb2.HoldReason.Name(hold.reason)
    return QueueHold(
        queue,
        reason.removeprefix("HOLD_REASON_").lower(),
        hold.queue_offset,
        hold.attempts,
        hold.age.ToMilliseconds() / 1000,
        hold.cause,
        hold.remaining.ToMilliseconds() / 1000 if hold.HasField("remaining") else None,
    )


def queue_lag_of(lag: offset_service_pb2.ConsumerLag, broker_name: str) -> QueueLag:
    """The backlog of a queue from the answer of its broker."""
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
        lag.expired_count,
        _stream_query(lag.stream_query) if lag.HasField("stream_query") else None,
    )


def _stream_query(query: offset_service_pb2.StreamQuery) -> StreamQuery:
    return StreamQuery(query.engine, query.address, moment_from(query.last_store_time))
