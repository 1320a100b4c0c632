"""Errors of this package from the status of a call: the inverse of the services' error table.

A service gives its reason in ``google.rpc.ErrorInfo``, and the contract says what each means for
the caller (``reason_options.proto``). Without one, the status does not come from a service of ours
but from gRPC itself, and only its code is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from google.protobuf.descriptor import EnumValueDescriptor
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from grpc import StatusCode
from grpc.aio import AioRpcError

from ariane.common.v1 import reason_options_pb2 as reason_options
from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_sdk.errors import (
    AccessDenied,
    BatchDiffers,
    CallError,
    DeadlinePassed,
    FeatureNotAvailable,
    FilterFailed,
    FilterRefused,
    GroupNotFound,
    GroupRefused,
    MessageNotFound,
    NameServersUnreachable,
    QueueNotFound,
    QueueOffsetOutOfRange,
    ReceiptExpired,
    RecordDamaged,
    RequestTooLarge,
    RouteNotFound,
    ServiceUnavailable,
    SinkNotFound,
    TopicExists,
    TopicNotFound,
    TopicRefused,
    TransactionDecided,
    TransactionForeign,
    TransactionNotFound,
)
from ariane_sdk.errors.calls import MAY_COME_BACK
from ariane_wire import CallFailed

ERROR_DOMAIN: Final = "ariane.mq"

_DETAILS_KEY: Final = "grpc-status-details-bin"


class ReasonRow(NamedTuple):
    """The meaning of a reason for the caller."""

    error: type[CallError]
    """The class of the error."""
    retriable: bool = False
    """Whether the same call may succeed later, or at another broker."""
    outcome_unknown: bool = False
    """Whether the call may have taken effect."""


_CLASSES: Final[Mapping[str, type[CallError]]] = {
    "FEATURE_NOT_AVAILABLE": FeatureNotAvailable,
    "DEADLINE_PASSED": DeadlinePassed,
    "CREDENTIALS_INVALID": AccessDenied,
    "ACCESS_DENIED": AccessDenied,
    "TOPIC_NOT_FOUND": TopicNotFound,
    "TOPIC_EXISTS": TopicExists,
    "TOPIC_RESERVED": TopicRefused,
    "TOPIC_NOT_WRITABLE": TopicRefused,
    "TOPIC_NOT_READABLE": TopicRefused,
    "QUEUE_NOT_FOUND": QueueNotFound,
    "TOPIC_LIMIT_REACHED": TopicRefused,
    "QUEUE_OFFSET_OUT_OF_RANGE": QueueOffsetOutOfRange,
    "RECORD_CORRUPTED": RecordDamaged,
    "MESSAGE_NOT_FOUND": MessageNotFound,
    "GROUP_NOT_FOUND": GroupNotFound,
    "SUBSCRIPTION_CONFLICT": GroupRefused,
    "CLIENT_NOT_ATTACHED": GroupRefused,
    "GROUP_LIMIT_REACHED": GroupRefused,
    "QUEUES_UNREAD": TopicRefused,
    "CLIENT_SILENT": DeadlinePassed,
    "TRANSACTION_DECIDED": TransactionDecided,
    "TRANSACTION_NOT_FOUND": TransactionNotFound,
    "TRANSACTION_FOREIGN": TransactionForeign,
    "BATCH_DIFFERS": BatchDiffers,
    "SINK_NOT_FOUND": SinkNotFound,
    "RECEIPT_HANDLE_EXPIRED": ReceiptExpired,
    "GROUP_OWNS_QUEUES": GroupRefused,
    "ROUTE_NOT_FOUND": RouteNotFound,
    "FILTER_NOT_FOUND": FilterRefused,
    "FILTER_MODULE_INVALID": FilterRefused,
    "FILTER_IN_USE": FilterRefused,
    "FILTER_QUARANTINED": FilterRefused,
    "FILTER_FAILED": FilterFailed,
    "NAME_SERVERS_UNREACHABLE": NameServersUnreachable,
}
"""Reasons with a class of their own. What may succeed later is ServiceUnavailable otherwise."""


def _reason_row(value: EnumValueDescriptor) -> ReasonRow:
    options = value.GetOptions().Extensions
    retriable: bool = options[reason_options.retriable]
    error = _CLASSES.get(_word(value)) or (ServiceUnavailable if retriable else CallError)
    return ReasonRow(error, retriable, options[reason_options.outcome_unknown])


def _word(value: EnumValueDescriptor) -> str:
    return value.name.removeprefix("ERROR_REASON_")


_REASONS: Final = [value for value in ErrorReason.DESCRIPTOR.values if value.number]

REASON_ROWS: Final[Mapping[str, ReasonRow]] = {
    _word(value): _reason_row(value) for value in _REASONS
}
"""One row for each reason of the contract."""

ROUTING_REASONS: Final = frozenset(
    _word(value) for value in _REASONS if value.GetOptions().Extensions[reason_options.routing]
)
"""The route that led here is out of date, or another broker serves what this one refuses."""

# Codes of gRPC itself. A call with any other code has surely had no effect.
_CODE_ROWS: Final[Mapping[StatusCode, ReasonRow]] = {
    StatusCode.UNAVAILABLE: ReasonRow(ServiceUnavailable, retriable=True, outcome_unknown=True),
    StatusCode.DEADLINE_EXCEEDED: ReasonRow(DeadlinePassed, retriable=True, outcome_unknown=True),
    # This client's own cancellations are raised as such. So here the server ended, or its deadline
    # passed just before the client's.
    StatusCode.CANCELLED: ReasonRow(ServiceUnavailable, retriable=True, outcome_unknown=True),
    StatusCode.UNKNOWN: ReasonRow(CallError, outcome_unknown=True),
    StatusCode.INTERNAL: ReasonRow(CallError, retriable=True, outcome_unknown=True),
    StatusCode.ABORTED: ReasonRow(CallError, retriable=True, outcome_unknown=True),
    StatusCode.DATA_LOSS: ReasonRow(CallError, outcome_unknown=True),
    StatusCode.RESOURCE_EXHAUSTED: ReasonRow(CallError, outcome_unknown=True),
    StatusCode.UNIMPLEMENTED: ReasonRow(FeatureNotAvailable),
    StatusCode.PERMISSION_DENIED: ReasonRow(AccessDenied),
    StatusCode.UNAUTHENTICATED: ReasonRow(AccessDenied),
}
_CODES_BY_NUMBER: Final = {code.value[0]: code for code in StatusCode}


def error_from_rpc(error: AioRpcError, *, peer: str) -> CallError:
    """Translate the error of a call."""
    trailing = error.trailing_metadata()
    for key, value in trailing or ():
        if key == _DETAILS_KEY:
            packed = value if isinstance(value, bytes) else value.encode()
            try:
                return error_from_status(Status.FromString(packed), peer=peer)
            except DecodeError:
                break
    code, details = error.code(), error.details() or ""
    if not isinstance(error, CallFailed):
        return _error_from_code(code, details, peer)
    too_large = _too_large(error, details, peer)
    if too_large is not None:
        return too_large
    return _error_from_code(code, details, peer, never_sent=error.never_processed)


def error_from_status(status: Status, *, peer: str) -> CallError:
    """Translate a status message.

    Args:
        status: With an ``ErrorInfo`` of our domain, or of another.
        peer: The sender of the status, for the text; empty if the text has it.
    """
    info = ErrorInfo()
    retry = RetryInfo()
    retry_after_s = 0.0
    reason = ""
    for detail in status.details:
        if detail.Unpack(info) and info.domain == ERROR_DOMAIN:
            reason = info.reason
        elif detail.Unpack(retry):
            retry_after_s = retry.retry_delay.ToTimedelta().total_seconds()
    if not reason:
        code = _CODES_BY_NUMBER.get(status.code, StatusCode.UNKNOWN)
        return _error_from_code(code, status.message, peer)
    # A later version of the service may have reasons that this client does not know.
    row = REASON_ROWS.get(reason, ReasonRow(CallError, outcome_unknown=True))
    return row.error(
        f"{peer}: {status.message or reason}".removeprefix(": "),
        reason=reason,
        outcome_unknown=row.outcome_unknown,
        retriable=row.retriable or not MAY_COME_BACK.isdisjoint(info.metadata),
        retry_after_s=retry_after_s,
        metadata=dict(info.metadata),
    )


def _too_large(error: CallFailed, details: str, peer: str) -> RequestTooLarge | None:
    """The error for a request that was too large for the transport, before the service saw it."""
    limit_bytes = error.limit_octets
    if error.request_too_large:
        return RequestTooLarge(
            f"{peer}: the request has {error.size_octets} bytes and the service takes "
            f"{limit_bytes}; send less in one call, or raise its receive_bytes_max",
            metadata={"size_bytes": str(error.size_octets), "limit_bytes": str(limit_bytes)},
        )
    if limit_bytes is None or (error.size_octets is not None and not error.never_processed):
        return None  # Nothing was too large, or the answer was.
    return RequestTooLarge(
        f"{peer}: too much metadata in the call ({details}); send less, or raise the "
        "service's metadata_bytes_max",
        # An answer's metadata may be too much as well: then the service has done the work.
        outcome_unknown=not error.never_processed,
    )


def _error_from_code(
    code: StatusCode, details: str, peer: str, *, never_sent: bool = False
) -> CallError:
    row = _CODE_ROWS.get(code, ReasonRow(CallError))
    if code is StatusCode.DEADLINE_EXCEEDED:
        details = "no answer in time"
    elif code is StatusCode.CANCELLED and details in ("", code.name):
        details = "gave the call up, without an answer"
    return row.error(
        f"{peer}: {details or code.name}",
        reason=row.error.reason if row.error is not CallError else f"GRPC_{code.name}",
        outcome_unknown=row.outcome_unknown and not never_sent,
        retriable=row.retriable,
    )
