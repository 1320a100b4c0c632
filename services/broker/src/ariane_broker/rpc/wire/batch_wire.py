"""Batch transactions on the wire."""

from __future__ import annotations

from typing import Final

import numpy as np

from ariane.broker.v1.transaction_service_pb2 import StageBatchRecordsRequest
from ariane_broker.errors import block_corrupted
from ariane_broker.spark_batches.batch_records import AttemptKey, BatchKey, StageWish
from ariane_broker.spark_batches.stage_format import StagedBlock
from ariane_record import RecordBlock

_INT32: Final = np.dtype("<i4")
_INT64: Final = np.dtype("<i8")


def stage_wish(request: StageBatchRecordsRequest) -> StageWish:
    """What a call wants staged; its columns are not compared with its records yet.

    Raises:
        ServiceError: BLOCK_CORRUPTED.
    """
    return StageWish(
        BatchKey(request.query_id, request.batch_id),
        AttemptKey(request.partition_id, request.attempt_token),
        _staged_block(request),
        request.record_count_before if request.HasField("record_count_before") else None,
    )


def _staged_block(request: StageBatchRecordsRequest) -> StagedBlock:
    columns = (request.record_sizes, request.tag_codes, request.key_hashes, request.queue_ids)
    if any(len(column) % _INT32.itemsize for column in columns):
        raise block_corrupted(-1, "a column of numbers is no multiple of 4 bytes")
    if len(request.delivery_times_ms) % _INT64.itemsize:
        raise block_corrupted(-1, "the column of delivery times is no multiple of 8 bytes")
    sizes, tag_codes, key_hashes, queue_ids = (
        np.frombuffer(column, _INT32).astype(np.int32, copy=False) for column in columns
    )
    times_ms = np.frombuffer(request.delivery_times_ms, _INT64).astype(np.int64, copy=False)
    if not request.delivery_times_ms:
        times_ms = np.zeros(len(sizes), np.int64)
    if not len(queue_ids) == len(times_ms) == len(sizes):
        raise block_corrupted(-1, "its columns differ in length")
    block = RecordBlock(
        topic=request.topic,
        records=request.records,
        sizes=sizes,
        tag_codes=tag_codes,
        key_counts=np.frombuffer(request.key_counts, np.uint8),
        key_hashes=key_hashes,
        crc32=request.records_crc32,
    )
    return StagedBlock(block, queue_ids, times_ms)
