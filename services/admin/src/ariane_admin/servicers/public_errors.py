"""Translation of errors of the client, and of admin itself, to public errors."""

from __future__ import annotations

from typing import Final

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_admin.errors import CommandFailed
from ariane_sdk.errors import ArianeError, DeadlinePassed, IllegalArgument, ServiceUnavailable
from ariane_servicekit import ErrorRules, ServiceError, field_invalid
from ariane_servicekit.error_table import ERROR_TABLE

_PREFIX: Final = "ERROR_REASON_"
_CLIENT_SILENT: Final = "CLIENT_SILENT"
_ALIVE: Final = frozenset(
    {
        "STORE_FULL",
        "SERVICE_BUSY",
        "QUOTA_EXCEEDED",
        "QUEUE_UNDER_REPAIR",
        "QUEUE_ORDER_UNKNOWN",
        "GROUP_PAUSED",
        "TOO_FEW_IN_SYNC",
        _CLIENT_SILENT,
    }
)
"""Reasons of those who are there, and cannot do it now: their own reason says why."""
_KNOWN: Final = frozenset(ErrorReason.keys())


def public_error(error: ArianeError) -> ServiceError:
    """Translate an error of a broker, a name server or the client to an error of admin."""
    notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    message = f"{error}{notes}"
    if error.outcome_unknown and error.reason != _CLIENT_SILENT:
        unconfirmed = ErrorReason.ERROR_REASON_CHANGE_UNCONFIRMED
        return ServiceError(unconfirmed, message, {"cause": error.reason, **error.metadata})
    if isinstance(error, ServiceUnavailable | DeadlinePassed) and error.reason not in _ALIVE:
        reason = ErrorReason.ERROR_REASON_PEER_UNREACHABLE
        return ServiceError(reason, message, {"cause": error.reason, **error.metadata})
    if _PREFIX + error.reason in _KNOWN:
        known = ErrorReason.Value(_PREFIX + error.reason)
        # The refusing service added its advice; it is cut here, since admin's own advice is added.
        text = message.removesuffix(".").removesuffix(ERROR_TABLE[known].hint.removesuffix("."))
        return ServiceError(known, text.rstrip(". "), error.metadata)
    if isinstance(error, IllegalArgument):
        return field_invalid("request", f"is refused: {message}")
    fault = ErrorReason.ERROR_REASON_INTERNAL_FAULT
    return ServiceError(fault, message, {"cause": error.reason})


def _unreadable(error: CommandFailed) -> ServiceError:
    return ServiceError(ErrorReason.ERROR_REASON_RECORD_CORRUPTED, error.message)


ADMIN_ERROR_RULES: Final[ErrorRules] = {
    ArianeError: public_error,
    CommandFailed: _unreadable,
}
"""Rules for every servicer; servicers with a database have further ones."""
