"""Conversion of errors of the jail and of the broker to public errors."""

from __future__ import annotations

from typing import Final

from google.rpc.error_details_pb2 import ErrorInfo
from grpc.aio import AioRpcError
from grpc_status import rpc_status

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_filter.jail.errors import (
    FilterError,
    FilterInvalid,
    FilterQuarantined,
    JailUnavailable,
)
from ariane_servicekit import ErrorRules, ServiceError
from ariane_servicekit.error_row import ERROR_DOMAIN
from ariane_servicekit.error_table import ERROR_TABLE


def refusal_of(error: FilterError, subject: str) -> ServiceError:
    """The public error for an error of the jail.

    Args:
        error: The error.
        subject: The filter, "name@version", or another name of the module.
    """
    fields = {"filter": subject, "cause": error.cause}
    match error:
        case JailUnavailable():
            return ServiceError(
                ErrorReason.ERROR_REASON_FEATURE_NOT_AVAILABLE,
                f"this machine cannot jail filters, so that none runs here: {error.cause}",
                {"feature": "uploaded filters", "cause": error.cause},
            )
        case FilterInvalid():
            reason, text = ErrorReason.ERROR_REASON_FILTER_MODULE_INVALID, "is no filter"
        case FilterQuarantined():
            reason, text = ErrorReason.ERROR_REASON_FILTER_QUARANTINED, "is quarantined"
        case _:
            reason, text = ErrorReason.ERROR_REASON_FILTER_FAILED, "failed, and nothing was passed"
    return ServiceError(reason, f"filter {subject} {text}: {error.cause}", fields)


def broker_refusal(error: AioRpcError) -> ServiceError:
    """The public error for a failed call to the broker: its own, or that it is unreachable."""
    try:
        status = rpc_status.from_call(error)
    except ValueError:
        status = None
    named = ErrorInfo()
    for detail in status.details if status is not None else ():
        if detail.Unpack(named) and named.domain == ERROR_DOMAIN:
            reason = ErrorReason.Value(f"ERROR_REASON_{named.reason}")
            # The text ends with the hint of the error table, which is added again.
            text = (error.details() or named.reason).removesuffix(f". {ERROR_TABLE[reason].hint}")
            return ServiceError(reason, text, dict(named.metadata))
    cause = f"{error.code().name}: {error.details()}"
    return ServiceError(
        ErrorReason.ERROR_REASON_SERVICE_BUSY,
        f"the broker of this FilterServer does not answer: {cause}",
        {"cause": cause},
        retry_after_ms=500,
    )


def _disk_refuses(error: OSError) -> ServiceError:
    return ServiceError(
        ErrorReason.ERROR_REASON_SERVICE_BUSY,
        f"the catalogue's disk does not do this now: {error.strerror}",
        {"cause": error.strerror or type(error).__name__},
        retry_after_ms=5_000,
    )


def _jail_refuses(error: FilterError) -> ServiceError:
    return refusal_of(error, "module")


ERROR_RULES: Final[ErrorRules] = {
    AioRpcError: broker_refusal,
    OSError: _disk_refuses,
    FilterError: _jail_refuses,
}
