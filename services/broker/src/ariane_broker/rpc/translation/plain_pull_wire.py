"""Pulls of plain messages on the wire: each message becomes fields one by one.

The counterpart of ``pull_wire``, for clients that cannot read records.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ariane.broker.v1.pull_service_pb2 import (
    PullMessagesRequest,
    QueueMessages,
    ReplicaHint,
)
from ariane.common.v1.message_pb2 import Message
from ariane_broker.read.pull_order import PulledQueue, PullOrder
from ariane_broker.rpc.translation.pull_wire import lost_runs, order_of
from ariane_broker.rpc.translation.stored_message import message_of
from ariane_record.decoding.columns import decode_columns
from ariane_servicekit import in_turns
from ariane_servicekit.rpc.error_status import status_of


async def plain_order(request: PullMessagesRequest, *, hold_seconds_max: float | None) -> PullOrder:
    """The order of a client of plain messages.

    Args:
        request: Its request.
        hold_seconds_max: The hold time that the call's deadline allows.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    return await order_of(
        request,
        record_count_max=request.message_count_max,
        hold_seconds_max=hold_seconds_max,
        exact=True,
    )


async def queue_messages(pulled: PulledQueue, broker_name: str) -> QueueMessages:
    """The messages of one queue."""
    return QueueMessages(
        topic=pulled.queue.topic,
        queue_id=pulled.queue.queue_id,
        error=None if pulled.error is None else status_of(pulled.error),
        next_queue_offset=pulled.next_queue_offset,
        min_queue_offset=pulled.min_queue_offset,
        max_queue_offset=pulled.max_queue_offset,
        log_epoch=pulled.log_epoch,
        replica=None if pulled.replica is None else ReplicaHint(**pulled.replica._asdict()),
        lost=lost_runs(pulled.lost_offsets),
        messages=await _messages(pulled.records, pulled.sizes, broker_name),
    )


async def _messages(records: bytes, sizes: NDArray[np.int32], broker_name: str) -> list[Message]:
    columns = decode_columns(records, sizes)
    return await in_turns(
        message_of(columns.message(position), broker_name) for position in range(len(columns))
    )
