"""The call in work: its method, request id and peer, known to all code that runs for it.

The call is in a context variable: log lines and error details read it there, and no use case has to
pass it on. Tasks that a call starts inherit it; background loops have none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import grpc
from grpc import aio

if TYPE_CHECKING:
    from ariane_servicekit.errors import ServiceError

REQUEST_ID_KEY: Final = "x-request-id"
"""Metadata key: a caller may set it, so that the logs of all services have the same id.

A failed call repeats the id in the ``google.rpc.RequestInfo`` of its status."""

_REQUEST_ID_RULE: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")


class RequestMetrics(Protocol):
    """Measures calls, and each request of a stream."""

    def begin(self) -> float:
        """The start of a measurement, for ``end``."""
        ...

    def end(self, begin: float, method: str, code: grpc.StatusCode) -> None:
        """Record a measurement from ``begin`` until now."""
        ...


class RequestErrors(Protocol):
    """Turns exceptions into public errors."""

    def refuse(self, call: Call, error: Exception) -> ServiceError:
        """Log a failure, and return its public error."""
        ...


@dataclass(slots=True)
class Call:
    """One RPC on its way through the stages. A stream is one call."""

    method: str
    """Full name: ``/ariane.namesrv.v1.RouteService/GetRoute``."""
    request_id: str
    context: aio.ServicerContext[Any, Any]
    code: grpc.StatusCode = grpc.StatusCode.OK
    """Its status; set by the stage that ends it."""
    metrics: RequestMetrics | None = None
    """Set by the stage that measures: streams measure their requests with it."""
    errors: RequestErrors | None = None
    """Set by the stage for errors: each request of a stream fails alone."""

    @property
    def peer(self) -> str:
        """The caller's transport address in gRPC's form: ``ipv4:127.0.0.1:40211``."""
        return self.context.peer()


_CALL: ContextVar[Call | None] = ContextVar("ariane_call", default=None)


def current_call() -> Call | None:
    """Return the call that this code runs for, or None outside of calls."""
    return _CALL.get()


def enter_call(call: Call) -> None:
    """Set the call of the running task; gRPC starts a new task for each call."""
    _CALL.set(call)


def request_id_of(context: aio.ServicerContext[Any, Any], draw: Callable[[], str]) -> str:
    """Return the caller's request id if it sent a legal one, or draw one."""
    for key, value in context.invocation_metadata() or ():
        if key == REQUEST_ID_KEY:
            text = value if isinstance(value, str) else value.decode("ascii", "replace")
            if _REQUEST_ID_RULE.fullmatch(text):
                return text
            break
    return draw()
