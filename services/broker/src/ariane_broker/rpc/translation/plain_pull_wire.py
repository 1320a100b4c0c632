"""Pulls of plain messages on the wire: each message becomes fields one by one.

The counterpart of ``pull_wire``, for clients that cannot read records.
"""

from __future__ import annotations

from collections.abc import Iterator

from ariane.broker.v1.pull_service_pb2 import (
    PullMessagesRequest,
    QueueMessages,
    ReplicaHint,
)
from ariane_broker.read.pull_order import PulledQueue, PullOrder
from ariane_broker.rpc.translation.pull_wire import lost_runs, order_of
from ariane_broker.rpc.translation.stored_message import message_of
from ariane_record.decoding.columns import decode_columns
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


def queue_messages(pulled: PulledQueue, broker_name: str) -> Iterator[QueueMessages | None]:
    """The messages of one queue, all together; yields None for each of them before."""
    columns = decode_columns(pulled.records, pulled.sizes)
    messages = []
    for position in range(len(columns)):
        messages.append(message_of(columns.message(position), broker_name))
        yield None
    yield QueueMessages(
        topic=pulled.queue.topic,
        queue_id=pulled.queue.queue_id,
        error=None if pulled.error is None else status_of(pulled.error),
        next_queue_offset=pulled.next_queue_offset,
        min_queue_offset=pulled.min_queue_offset,
        max_queue_offset=pulled.max_queue_offset,
        log_epoch=pulled.log_epoch,
        replica=None if pulled.replica is None else ReplicaHint(**pulled.replica._asdict()),
        lost=lost_runs(pulled.lost_offsets),
        messages=messages,
    )
