"""PullRecords on the wire, to and from what the use case speaks; appends are in ``append_wire``."""

from __future__ import annotations

from collections.abc import Sequence

from ariane.broker.v1.pull_service_pb2 import (
    PULL_PROJECTION_BODIES,
    PullRecordsRequest,
    PullRecordsResponse,
)
from ariane_broker.groups.consumer_offsets import QueueKey
from ariane_broker.read.pull_order import Position, PulledQueue, PullOrder
from ariane_broker.rpc.wire.pull_wire import queue_head
from ariane_broker.rpc.wire.subscription_wire import filters_of
from ariane_broker.rpc.wire.wire_time import seconds_of


def pull_order(request: PullRecordsRequest, *, hold_seconds_max: float | None) -> PullOrder:
    """What a consumer asks for.

    Args:
        request: As it came.
        hold_seconds_max: What the call's deadline leaves for a hold.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    positions = tuple(
        Position(
            QueueKey(position.topic, position.queue_id),
            position.queue_offset,
            position.record_count_max,
            position.size_bytes_max,
            position.lock_epoch if position.HasField("lock_epoch") else None,
            position.log_epoch,
        )
        for position in request.positions
    )
    return PullOrder(
        consumer_group=request.consumer_group,
        client_id=request.client_id,
        positions=positions,
        filters=filters_of(request.subscriptions),
        record_count_max=request.record_count_max,
        size_bytes_max=request.size_bytes_max,
        hold_seconds=seconds_of(request.hold_duration, "hold_duration"),
        hold_seconds_max=hold_seconds_max,
        bodies_suffice=request.projection == PULL_PROJECTION_BODIES,
    )


def pull_response(pulled: Sequence[PulledQueue]) -> PullRecordsResponse:
    """The answer to a pull."""
    response = PullRecordsResponse()
    for queue in pulled:
        # Filled in its place: a message that is put into another one is copied, blocks and all.
        wire = response.queues.add()
        wire.CopyFrom(queue_head(queue))
        wire.records = queue.records
    return response
