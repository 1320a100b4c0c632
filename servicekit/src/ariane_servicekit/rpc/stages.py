"""The outer stages of every call: metrics and errors."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import grpc
from grpc_status import rpc_status

from ariane_servicekit.errors import ServiceError
from ariane_servicekit.observability.logs import LineBudget, get_logger
from ariane_servicekit.observability.telemetry import CallMetrics
from ariane_servicekit.rpc.calls import Call
from ariane_servicekit.rpc.cancellations import Cancellations
from ariane_servicekit.rpc.error_status import ErrorTranslator, status_of
from ariane_servicekit.rpc.interceptor import Proceed

_log = get_logger(__name__)

REFUSALS_LOGGED_PER_S: Final = 50
"""The most failed calls that are logged in one second; the trace of a fault is always logged."""

_FAULTS: Final = frozenset({grpc.StatusCode.INTERNAL, grpc.StatusCode.DATA_LOSS})
_STRAINS: Final = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED})


class MetricsStage:
    """Measures each call: its duration and its status."""

    def __init__(self, metrics: CallMetrics) -> None:
        self._metrics = metrics
        self._cancellations = Cancellations()

    async def __call__(self, call: Call, proceed: Proceed) -> Any:
        """Measure the stages inside."""
        call.metrics = self._metrics
        begin = self._metrics.begin()
        try:
            return await proceed()
        except asyncio.CancelledError:
            call.code = grpc.StatusCode.CANCELLED
            self._cancellations.add(call.peer, call.method)
            raise
        finally:
            self._metrics.end(begin, call.method, call.code)


class ErrorStage:
    """Turns every exception of a call into its status: the only place where calls are aborted."""

    def __init__(self, translator: ErrorTranslator) -> None:
        self._translator = translator
        self._budget = LineBudget(REFUSALS_LOGGED_PER_S)

    async def __call__(self, call: Call, proceed: Proceed) -> Any:
        """Run the stages inside; abort with a ``google.rpc.Status`` if they raise."""
        call.errors = self
        try:
            return await proceed()
        except grpc.aio.AbortError:
            # Aborted inside by foreign code: the health service for an unknown name.
            call.code = call.context.code()
            raise
        except Exception as error:  # noqa: BLE001 - the last resort; the translator logs it
            public = self.refuse(call, error)
            call.code = public.row.code
            return await call.context.abort_with_status(rpc_status.to_status(status_of(public)))

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
