"""The public errors for errors of the store."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_broker.errors.public_errors import (
    block_corrupted,
    broker_draining,
    message_not_found,
    queue_offset_out_of_range,
    store_poisoned,
)
from ariane_servicekit.errors import ServiceError, field_invalid, refusal
from ariane_servicekit.rpc.error_status import ErrorRules
from ariane_storage import errors as storage
from ariane_storage.disk.disk import is_exhausted


@refusal(ErrorReason.ERROR_REASON_STORE_FULL)
def _store_full(cause: str) -> str:
    return f"the store takes no messages: {cause}"


@refusal(ErrorReason.ERROR_REASON_STORE_FULL)
def _nothing_saved(cause: str) -> str:
    """A change could not be saved, and is as if it had not been asked for."""
    return f"nothing was changed, because it cannot be saved: {cause}"


@refusal(ErrorReason.ERROR_REASON_QUEUE_UNDER_REPAIR, without=("text",))
def _under_repair(topic: str, queue_id: int, queue_offset: int, text: str) -> str:
    return text


@refusal(ErrorReason.ERROR_REASON_RECORD_CORRUPTED, without=("cause",))
def _record_corrupted(commit_log_offset: int, cause: str) -> str:
    return f"the record at commit-log offset {commit_log_offset} is damaged: {cause}"


def _of_disk(error: OSError) -> ServiceError | None:
    return _nothing_saved(error.strerror or "") if is_exhausted(error) else None


STORAGE_RULES: Final[ErrorRules] = MappingProxyType(
    {
        storage.BlockRejected: lambda error: block_corrupted(error.position, error.reason),
        storage.IllegalQueue: lambda error: field_invalid("queue_id", str(error)),
        storage.QueueOffsetOutOfRange: lambda error: queue_offset_out_of_range(
            error.topic,
            error.queue_id,
            error.queue_offset,
            error.min_queue_offset,
            error.max_queue_offset,
        ),
        storage.QueueUnderRepair: lambda error: _under_repair(
            error.topic, error.queue_id, error.queue_offset, str(error)
        ),
        storage.RecordCorrupted: lambda error: _record_corrupted(
            error.commit_log_offset, error.reason
        ),
        storage.RecordNotFound: lambda error: message_not_found(
            f"commit-log offset {error.commit_log_offset}"
        ),
        storage.StoreClosed: lambda _: broker_draining(),
        storage.StoreFull: lambda error: _store_full(error.reason),
        storage.StorePoisoned: lambda _: store_poisoned(),
        OSError: _of_disk,
    }
)
"""The public error for each error of the store and its disk. Others are faults."""
