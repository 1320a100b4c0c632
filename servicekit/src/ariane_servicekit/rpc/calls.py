"""The call in work: its method, request id and peer, known to all code that runs for it.

The call is in a context variable: log lines and error details read it there, and no use case has to
pass it on. Tasks that a call starts inherit it; background loops have none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import grpc
from grpc import aio

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_servicekit.errors import ServiceError
from ariane_servicekit.security.caller import Caller, Identify, anonymous

REQUEST_ID_KEY: Final = "x-request-id"
"""Metadata key: a caller may set it, so that the logs of all services have the same id.

A failed call repeats the id in the ``google.rpc.RequestInfo`` of its status."""

MEANT_KEY: Final = "x-ariane-meant-for"
"""Metadata key: the cluster and name of the process that a call is meant for, "cluster/name"."""

_REQUEST_ID_RULE: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Call:
    """One RPC on its way through the server. A stream is one call.

    The defaults stand in the class, because most calls never change them.
    """

    code = grpc.StatusCode.OK
    """Its status; set when it has failed."""
    is_judged = False
    """Whether its requests need rights: its caller is known, and the process not open."""
    ended: ServiceError | None = None
    """Why the process has ended it; None as long as it has not."""
    long: Any = None
    """Its place among the calls that last; None for a short call."""
    touched = ""
    """What it changes, for the log; empty if it changes nothing."""
    gate: Any = None
    """Judges its requests; None for a method outside of the contract."""
    meter: Any = None
    """What its user has used of its rates; None for a user without any."""
    owing: tuple[Any, ...] = ()
    """All meters that it was charged to: its answer waits for them."""
    refused_by: tuple[Any, ...] = ()
    """Quotas by which something of it was refused."""
    place: tuple[str, str] | None = None
    """Its peer and host, for which it is counted; None if it is not."""
    begun_s = 0.0
    """When it began, where durations are measured."""
    _caller: Caller | None = None

    def __init__(
        self,
        method: str,
        request_id: str,
        context: aio.ServicerContext[Any, Any],
        draw: Callable[[], str] = str,
        identify: Identify = anonymous,
    ) -> None:
        """Without a ``request_id`` it is the caller's, or drawn, when it is first asked for."""
        self.method = method
        """Full name: ``/ariane.namesrv.v1.RouteService/GetRoute``."""
        self.context = context
        """The transport's end of it."""
        self._request_id = request_id
        self._draw = draw
        self._identify = identify

    @property
    def request_id(self) -> str:
        """Names the call in logs and errors; most calls need no name."""
        if not self._request_id:
            self._request_id = request_id_of(self.context, self._draw)
        return self._request_id

    @property
    def caller(self) -> Caller:
        """Who makes it; found when it is first asked for, and the same to the call's end.

        Raises:
            ServiceError: CREDENTIALS_INVALID.
        """
        if self._caller is None:
            self._caller = self._identify(self.context)
        return self._caller

    @property
    def peer(self) -> str:
        """The caller's transport address in gRPC's form: ``ipv4:127.0.0.1:40211``."""
        return self.context.peer()


_CALL: Final[ContextVar[Call | None]] = ContextVar("ariane_call", default=None)


def current_call() -> Call | None:
    """Return the call that this code runs for, or None outside of calls."""
    return _CALL.get()


def current_caller() -> Caller | None:
    """Return who makes the call that this code runs for, or None outside of calls."""
    call = _CALL.get()
    return None if call is None else call.caller


def enter_call(call: Call) -> None:
    """Make what runs from now on in this context a part of a call."""
    _CALL.set(call)


@contextmanager
def in_own_name() -> Iterator[None]:
    """Make what runs in the block no call's: the process asks others for nobody but itself."""
    outside = _CALL.set(None)
    try:
        yield
    finally:
        _CALL.reset(outside)


def check_meant(context: aio.ServicerContext[Any, Any], known_as: str) -> None:
    """Refuse a call that is meant for another process, which had this address before.

    Args:
        context: Of the call.
        known_as: The cluster and name of this process; empty where it has none.

    Raises:
        ServiceError: BROKER_NOT_PRIMARY: nothing was done, and the route tells where that one is.
    """
    for key, value in (context.invocation_metadata() or ()) if known_as else ():
        if key == MEANT_KEY and value != known_as:
            raise ServiceError(
                ErrorReason.ERROR_REASON_BROKER_NOT_PRIMARY,
                f"this is {known_as}, and the call is meant for {value!r:.260}",
            )


def request_id_of(context: aio.ServicerContext[Any, Any], draw: Callable[[], str]) -> str:
    """Return the caller's request id if it sent a legal one, or draw one."""
    for key, value in context.invocation_metadata() or ():
        if key == REQUEST_ID_KEY:
            text = value if isinstance(value, str) else value.decode("ascii", "replace")
            if _REQUEST_ID_RULE.fullmatch(text):
                return text
            break
    return draw()
