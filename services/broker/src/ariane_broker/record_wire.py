"""The packed calls on the wire: AppendRecords and PullRecords, to and from what use cases speak.

Everything that touches the bytes of these two calls is in this file. Protocol Buffers copies a
block once when it parses a request and twice when it builds a response; a handler of raw bytes
that spares those copies would replace the functions here and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane.broker.v1.pull_service_pb2 import (
    PullRecordsRequest,
    PullRecordsResponse,
)
from ariane.broker.v1.send_service_pb2 import (
    AppendBatch,
    AppendRecordsRequest,
    AppendRecordsResponse,
    AppendResult,
)
from ariane.broker.v1.send_service_pb2 import ProducerSequence as WireSequence
from ariane.common.v1.message_pb2 import (
    ACKNOWLEDGED_LEVEL_FLUSHED,
    ACKNOWLEDGED_LEVEL_MEMORY,
    ACKNOWLEDGED_LEVEL_UNSPECIFIED,
)
from ariane_broker.append import AcknowledgedLevel, BatchOutcome
from ariane_broker.batch_check import Batch
from ariane_broker.consumer_offsets import QueueKey
from ariane_broker.delay.delay import Delay, DelayLevel, DeliveryTimes
from ariane_broker.errors import block_corrupted
from ariane_broker.pull import Position, PulledQueue, PullOrder
from ariane_broker.pull_wire import queue_head
from ariane_broker.subscription_wire import filters_of
from ariane_broker.wire_time import seconds_of, time_of
from ariane_record import ProducerSequence, RecordBlock
from ariane_servicekit.error_status import status_of

LEVELS: Final = {
    None: ACKNOWLEDGED_LEVEL_UNSPECIFIED,
    AcknowledgedLevel.MEMORY: ACKNOWLEDGED_LEVEL_MEMORY,
    AcknowledgedLevel.FLUSHED: ACKNOWLEDGED_LEVEL_FLUSHED,
}

_INT32: Final = np.dtype("<i4")
_INT64: Final = np.dtype("<i8")
_UINT32: Final = np.dtype("<u4")


def batches_of(request: AppendRecordsRequest) -> list[Batch]:
    """The batches of a request; one whose columns make no sense carries its error."""
    return list(map(_batch_of, request.batches))


def _batch_of(batch: AppendBatch) -> Batch:
    sequence = sequence_of(batch.sequence) if batch.HasField("sequence") else None
    delay: Delay | None = None
    try:
        delay = _delay_of(batch)
        block = RecordBlock(
            topic=batch.topic,
            records=batch.records,
            sizes=_int32_column(batch.record_sizes, "record sizes"),
            tag_codes=_int32_column(batch.tag_codes, "tag codes"),
            key_counts=np.frombuffer(batch.key_counts, np.uint8),
            key_hashes=_int32_column(batch.key_hashes, "key hashes"),
            crc32=batch.records_crc32,
            record_crcs=_int32_column(batch.record_crc32s, "record checksums").view(_UINT32)
            if batch.record_crc32s
            else None,
        )
    except ValueError as error:
        refusal = block_corrupted(-1, str(error))
        return Batch(None, batch.topic, batch.queue_id, refusal, sequence)
    return Batch(block, batch.topic, batch.queue_id, sequence=sequence, delay=delay)


def _delay_of(batch: AppendBatch) -> Delay | None:
    """When its records are to be delivered."""
    if not batch.delivery_times_ms:
        return DelayLevel(batch.delay_level) if batch.delay_level else None
    if batch.delay_level:
        raise ValueError("it has a delay level, and delivery times")
    if len(batch.delivery_times_ms) % _INT64.itemsize:
        raise ValueError("the column of delivery times is no multiple of 8 bytes")
    return DeliveryTimes(np.frombuffer(batch.delivery_times_ms, _INT64))


def sequence_of(sequence: WireSequence) -> ProducerSequence:
    """Where a batch stands in the stream of its producer."""
    return ProducerSequence(sequence.producer_id, sequence.producer_epoch, sequence.first_sequence)


def _int32_column(column: bytes, name: str) -> NDArray[np.int32]:
    if len(column) % _INT32.itemsize:
        raise ValueError(f"the column of {name} has {len(column)} bytes, no multiple of 4")
    return np.frombuffer(column, _INT32)


def append_response(outcomes: Iterable[BatchOutcome]) -> AppendRecordsResponse:
    """The answer to an append."""
    return AppendRecordsResponse(results=map(_append_result, outcomes))


def _append_result(outcome: BatchOutcome) -> AppendResult:
    error = None if outcome.error is None else status_of(outcome.error)
    appended = outcome.appended
    if appended is None:
        return AppendResult(error=error)
    return AppendResult(
        error=error,
        first_queue_offset=appended.first_queue_offset,
        first_commit_log_offset=appended.first_commit_log_offset,
        record_count=appended.count,
        acknowledged_level=LEVELS[outcome.level],
        store_time=time_of(appended.store_timestamp_ms),
        duplicate=outcome.duplicate,
    )


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
