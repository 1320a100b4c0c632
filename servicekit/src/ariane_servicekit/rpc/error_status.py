"""From an exception to ``google.rpc.Status``: the error that a caller gets.

Every status carries exactly one ErrorInfo, and RetryInfo or BadRequest where the table says so. An
exception without a translation becomes INTERNAL_FAULT, without its text: the text is in the log,
under the request id of the status.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RequestInfo, RetryInfo
from google.rpc.status_pb2 import Status
from grpc import StatusCode

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_servicekit.error_row import ERROR_DOMAIN
from ariane_servicekit.errors import ServiceError, feature_not_available, field_invalid
from ariane_servicekit.rpc.calls import current_call

ErrorRules: TypeAlias = Mapping[type[Exception], Callable[[Any], ServiceError | None]]
"""How exceptions of other packages become public errors: by class, the nearest ancestor wins.

A rule returns None for an exception that has no public error after all.
"""

NO_RULES: Final[ErrorRules] = MappingProxyType({})


class ErrorTranslator:
    """Turns exceptions into public errors and statuses.

    The kit has rules for its own exceptions; a service adds rules for those of its engine, so that
    use cases need not wrap every call::

        ErrorTranslator({StoreFull: lambda error: ServiceError(ErrorReason.ERROR_REASON_STORE_FULL,
                                                               str(error))})
    """

    def __init__(self, rules: ErrorRules = NO_RULES) -> None:
        self._rules: dict[type[Exception], Callable[[Any], ServiceError | None]] = {
            DecodeError: _undecodable,
            NotImplementedError: _not_implemented,
            **rules,
        }

    def service_error(self, error: Exception) -> ServiceError:
        """Return the public error for an exception; unknown ones are logged with their trace."""
        if isinstance(error, ServiceError):
            return error
        for ancestor in type(error).__mro__:
            rule = self._rules.get(ancestor)
            public = None if rule is None else rule(error)
            if public is not None:
                public.__cause__ = error
                return public
        # The command line runs servicers too, writes no log, and need not wait for the package.
        from ariane_servicekit.observability.logs import get_logger  # noqa: PLC0415

        get_logger(__name__).error("unexpected_exception", exc_info=error)
        fault = ServiceError(
            ErrorReason.ERROR_REASON_INTERNAL_FAULT, "the service failed; its log has the details"
        )
        fault.__cause__ = error
        return fault

    def status(self, error: Exception) -> Status:
        """Return the status for an exception; also for the entries of a batch that failed."""
        return status_of(self.service_error(error))


def status_of(error: ServiceError) -> Status:
    """Return the status of a public error, with the request id when a call is in work."""
    row = error.row
    # The text has the error and then the advice: clients of every language show the text.
    status = Status(code=row.code.value[0], message=f"{error.message}. {row.hint}")
    _attach(status, ErrorInfo(reason=row.name, domain=ERROR_DOMAIN, metadata=error.metadata))
    if error.retry_after_ms is not None:
        delay = Duration()
        delay.FromMilliseconds(error.retry_after_ms)
        _attach(status, RetryInfo(retry_delay=delay))
    if row.code is StatusCode.INVALID_ARGUMENT:
        violation = BadRequest.FieldViolation(field=error.field, description=error.message)
        _attach(status, BadRequest(field_violations=[violation]))
    call = current_call()
    if call is not None:
        _attach(status, RequestInfo(request_id=call.request_id))
    return status


def _attach(status: Status, detail: ErrorInfo | RetryInfo | BadRequest | RequestInfo) -> None:
    packed = AnyMessage()
    packed.Pack(detail)
    status.details.append(packed)


def _undecodable(_: DecodeError) -> ServiceError:
    return field_invalid("request", "cannot be decoded as the method's request message")


def _not_implemented(_: NotImplementedError) -> ServiceError:
    call = current_call()
    return feature_not_available(call.method if call is not None else "the method")
