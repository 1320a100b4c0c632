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
from ariane_servicekit.errors import ServiceError, field_invalid
from ariane_servicekit.rpc.error_status import ErrorRules
from ariane_storage import errors as storage
from ariane_storage.disk.disk import is_exhausted


def _store_full(error: storage.StoreFull) -> ServiceError:
    return ServiceError(
        ErrorReason.ERROR_REASON_STORE_FULL,
        f"the store takes no messages: {error.reason}",
        {"cause": error.reason},
    )


def _disk_exhausted(error: OSError) -> ServiceError | None:
    """For a change that could not be saved, and is as if it had not been asked for."""
    if not is_exhausted(error):
        return None
    return ServiceError(
        ErrorReason.ERROR_REASON_STORE_FULL,
        f"nothing was changed, because it cannot be saved: {error.strerror}",
        {"cause": error.strerror or ""},
    )


def _block_rejected(error: storage.BlockRejected) -> ServiceError:
    return block_corrupted(error.position, error.reason)


def _out_of_range(error: storage.QueueOffsetOutOfRange) -> ServiceError:
    return queue_offset_out_of_range(
        error.topic,
        error.queue_id,
        error.queue_offset,
        error.min_queue_offset,
        error.max_queue_offset,
    )


def _under_repair(error: storage.QueueUnderRepair) -> ServiceError:
    return ServiceError(
        ErrorReason.ERROR_REASON_QUEUE_UNDER_REPAIR,
        str(error),
        {
            "topic": error.topic,
            "queue_id": error.queue_id,
            "queue_offset": error.queue_offset,
        },
    )


def _record_corrupted(error: storage.RecordCorrupted) -> ServiceError:
    return ServiceError(
        ErrorReason.ERROR_REASON_RECORD_CORRUPTED,
        f"the record at commit-log offset {error.commit_log_offset} is damaged: {error.reason}",
        {"commit_log_offset": error.commit_log_offset},
    )


def _record_not_found(error: storage.RecordNotFound) -> ServiceError:
    return message_not_found(f"commit-log offset {error.commit_log_offset}")


STORAGE_RULES: Final[ErrorRules] = MappingProxyType(
    {
        storage.BlockRejected: _block_rejected,
        storage.IllegalQueue: lambda error: field_invalid("queue_id", str(error)),
        storage.QueueOffsetOutOfRange: _out_of_range,
        storage.QueueUnderRepair: _under_repair,
        storage.RecordCorrupted: _record_corrupted,
        storage.RecordNotFound: _record_not_found,
        storage.StoreClosed: lambda _: broker_draining(),
        storage.StoreFull: _store_full,
        storage.StorePoisoned: lambda _: store_poisoned(),
        OSError: _disk_exhausted,
    }
)
"""The public error for each error of the store and its disk. Others are faults."""
