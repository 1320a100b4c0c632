"""Rows of consumer groups, their members and backlogs, from messages of the contract."""

from __future__ import annotations

from typing import Any, Final

from ariane.admin.v1.group_service_pb2 import ClusterGroup
from ariane.admin.v1.lag_service_pb2 import QueueLag
from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.broker.v1.client_question_pb2 import HoldReason, QueueHold
from ariane_admin.group_texts import kind_texts, paused_on, subscriptions_of
from ariane_admin.times import moment_text

_MODELS: Final = {
    client_pb.CONSUME_MODEL_BROADCASTING: "broadcasting",
    client_pb.CONSUME_MODEL_RECEIVING: "receiving",
}


def group_row(group: ClusterGroup) -> dict[str, Any]:
    """A group over all brokers. What receiving members have is not known where they own queues."""
    receiving = group.receiving if group.HasField("receiving") else None
    return {
        "group": group.consumer_group,
        "kind": kind_texts(group),
        "members": group.member_count,
        "topics": list(group.topics),
        "lag": group.lag_message_count,
        "in_flight": None if receiving is None else receiving.in_flight_count,
        "ready": None if receiving is None else receiving.ready_count,
        "expired": group.expired_count,
        "oldest": moment_text(group, "oldest_store_time"),
        "paused": paused_on(group),
    }


def lag_row(entry: QueueLag) -> dict[str, Any]:
    """The backlog of a group in a queue, and the member that has the queue in work."""
    lag = entry.lag
    ready = lag.message_count - lag.in_flight_count - lag.delayed_count
    return {
        "topic": lag.topic,
        "broker": entry.broker_name,
        "queue_id": lag.queue_id,
        "consumer_offset": lag.consumer_offset,
        "max_offset": lag.max_queue_offset,
        "lag": lag.message_count,
        "oldest": moment_text(lag, "oldest_store_time"),
        "owner": entry.client_id or None,
        "suspected": lag.suspected_count,
        "deaths": lag.death_count,
        "unread": lag.unread,
        "in_flight": lag.in_flight_count,
        "delayed": lag.delayed_count,
        "ready": ready if lag.receiving else None,
        "expired": lag.expired_count,
    }


def member_row(member: client_pb.GroupMember) -> dict[str, Any]:
    """A live member."""
    return {
        "client_id": member.client_id,
        "address": member.address,
        "model": _MODELS.get(member.membership.model, "clustering"),
        "away": member.away,
        "subscriptions": subscriptions_of(member.membership),
    }


def hold_row(member: client_pb.GroupMember, hold: QueueHold) -> dict[str, Any]:
    """A queue, or all queues, of which a member hands out nothing."""
    is_queue, is_tried = bool(hold.topic), hold.attempts > 0
    remaining = hold.HasField("remaining")
    return {
        "topic": hold.topic if is_queue else "(all)",
        "broker": hold.broker_name if is_queue else None,
        "queue_id": hold.queue_id if is_queue else None,
        "reason": HoldReason.Name(hold.reason).removeprefix("HOLD_REASON_").lower(),
        "queue_offset": hold.queue_offset if is_tried else None,
        "attempts": hold.attempts if is_tried else None,
        "seconds": round(hold.age.ToMilliseconds() / 1000),
        "seconds_left": round(hold.remaining.ToMilliseconds() / 1000) if remaining else None,
        "cause": hold.cause,
        "client_id": member.client_id,
    }


def conflict_row(conflict: client_pb.SubscriptionConflict) -> dict[str, Any]:
    """Two members whose subscriptions do not agree."""
    return {
        "member": f"{conflict.member.client_id} at {conflict.member.address}",
        "newcomer": f"{conflict.newcomer.client_id} at {conflict.newcomer.address}",
        "difference": conflict.difference,
        "refused": conflict.refused,
        "count": conflict.count,
        "last_time": moment_text(conflict, "last_time"),
    }
