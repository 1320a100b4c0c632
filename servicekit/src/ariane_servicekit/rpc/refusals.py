"""Calls that fail: their public errors, and their lines in the log."""

from __future__ import annotations

from typing import Final

import grpc

from ariane_servicekit.errors import ServiceError
from ariane_servicekit.observability.logs import LineBudget, get_logger
from ariane_servicekit.rpc.calls import Call
from ariane_servicekit.rpc.error_status import ErrorTranslator

_log = get_logger(__name__)

REFUSALS_LOGGED_PER_S: Final = 50
"""The most failed calls that are logged in one second; the trace of a fault is always logged."""

_FAULTS: Final = frozenset({grpc.StatusCode.INTERNAL, grpc.StatusCode.DATA_LOSS})
_STRAINS: Final = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED})


class Refusals:
    """Turns every exception of a call into its public error, and logs it."""

    def __init__(self, translator: ErrorTranslator) -> None:
        self._translator = translator
        self._budget = LineBudget(REFUSALS_LOGGED_PER_S)

    def refuse(self, call: Call, error: Exception) -> ServiceError:
        """Log a failure, and return its public error."""
        public = self._translator.service_error(error)
        self._log_refusal(call, public)
        return public

    def _log_refusal(self, call: Call, error: ServiceError) -> None:
        """Log a failed call in one line; as a warning only if an operator should look."""
        suppressed = self._budget.spend()
        if suppressed is None:
            return
        code = error.row.code
        if code in _FAULTS:
            write = _log.error
        elif code in _STRAINS:
            write = _log.warning
        else:
            write = _log.info
        write(
            "call_failed",
            code=code.name,
            reason=error.row.name,
            message=error.message,
            peer=call.peer,
            **({"suppressed_before": suppressed} if suppressed else {}),
        )
