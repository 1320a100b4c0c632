"""Targets of offsets of groups: conversion from the contract to requests to brokers, and back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from ariane.admin.v1 import group_service_pb2 as group_pb
from ariane.broker.v1 import offset_service_pb2 as offset_pb
from ariane_admin.servicers.times import moment_in
from ariane_sdk import LiveBroker, MessageQueue
from ariane_servicekit import field_invalid

Target: TypeAlias = offset_pb.ResetConsumerOffsetsRequest | dict[str, dict[int, int]]
"""A request to brokers, or offsets by broker and queue."""


def target_of(request: group_pb.ResetGroupOffsetsRequest) -> Target:
    """The target of a request: a request to brokers, or offsets by broker and queue."""
    asked = offset_pb.ResetConsumerOffsetsRequest()
    match request.WhichOneof("target"):
        case "earliest":
            asked.earliest = request.earliest
            return asked
        case "time":
            moment_in(request, "time")
            asked.time.CopyFrom(request.time)
            return asked
        case "queue_offsets":
            table: dict[str, dict[int, int]] = defaultdict(dict)
            for each in request.queue_offsets.offsets:
                table[each.broker_name][each.queue_id] = each.queue_offset
            if table:
                return dict(table)
    raise field_invalid("target", "is required")


def named(
    brokers: Sequence[LiveBroker], topic: str, table: Mapping[str, object]
) -> list[LiveBroker]:
    """The brokers that a table of offsets names.

    Raises:
        ServiceError: FIELD_INVALID when one of them does not carry the topic.
    """
    unknown = set(table) - {broker.broker_name for broker in brokers}
    if unknown:
        raise field_invalid(
            "queue_offsets", f"must be of brokers that carry topic {topic}", min(unknown)
        )
    return [broker for broker in brokers if broker.broker_name in table]


def reset_request(
    request: group_pb.ResetGroupOffsetsRequest, broker: LiveBroker, target: Target
) -> offset_pb.ResetConsumerOffsetsRequest:
    """The request to one broker."""
    asked = offset_pb.ResetConsumerOffsetsRequest()
    if isinstance(target, dict):
        asked.table.CopyFrom(offset_pb.OffsetTable(queue_offsets=target[broker.broker_name]))
    else:
        asked.CopyFrom(target)
    asked.consumer_group, asked.topic = request.consumer_group, request.topic
    asked.validate_only, asked.only_back = request.validate_only, request.only_back
    return asked


def group_queue_offsets(
    broker: LiveBroker, offsets: Iterable[offset_pb.QueueConsumerOffset], member_count: int
) -> list[group_pb.GroupQueueOffset]:
    """The offsets that a broker has set, as messages of the contract."""
    return [
        group_pb.GroupQueueOffset(
            broker_name=broker.broker_name,
            queue_id=each.queue_id,
            queue_offset=each.queue_offset,
            member_count=member_count,
        )
        for each in offsets
    ]


def offset_place(offset: group_pb.GroupQueueOffset) -> tuple[str, int]:
    """The sort key of offsets."""
    return offset.broker_name, offset.queue_id


def offset_messages(offsets: Mapping[MessageQueue, int]) -> list[group_pb.GroupQueueOffset]:
    """Offsets by queue, as messages of the contract."""
    return [
        group_pb.GroupQueueOffset(
            broker_name=queue.broker_name, queue_id=queue.queue_id, queue_offset=offsets[queue]
        )
        for queue in sorted(offsets)
    ]
