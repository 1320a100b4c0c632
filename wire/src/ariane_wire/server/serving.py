"""One call through interceptors and handler to its status."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import grpc
from grpc import StatusCode, aio

from ariane_wire.protocol.frames import checked_message
from ariane_wire.protocol.headers.heads import RequestHead

if TYPE_CHECKING:
    from ariane_wire.server.context import CallContext


_log: Final = logging.getLogger(__name__)

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
NOT_FOUND: Final = "Method not found!"


class CallDetails(NamedTuple):
    """What interceptors see of a call."""

    method: str
    invocation_metadata: Any


def begin(
    call: CallContext, interceptors: Sequence[aio.ServerInterceptor]
) -> Coroutine[Any, Any, None] | None:
    """Answer a call at once; if it must wait, return what has yet to run."""
    handler = call.handler
    if interceptors or handler is None or handler.request_streaming or handler.response_streaming:
        return _serve(call, interceptors)
    try:
        behavior: Any = handler.unary_unary
        request: Any = call.take_single()
        if handler.request_deserializer is not None:
            request = _decoded(handler.request_deserializer, call, request)
        response = behavior(request, call)
        if type(response) is not bytes and isawaitable(response):
            return _answer_later(call, handler, response)
        _answer(call, handler, response)
    except BaseException as error:  # noqa: BLE001 - as below.
        _fail(call, error)
    return None


async def _serve(call: CallContext, interceptors: Sequence[aio.ServerInterceptor]) -> None:
    """Run a call; it is answered, or gone, when this returns."""
    try:
        if interceptors:
            details: Any = CallDetails(call.head.method, call.head.metadata)
            call.handler = await _intercepted(call.handler, interceptors, 0, details)
        handler = call.handler
        if handler is None:
            call.refuse(StatusCode.UNIMPLEMENTED, NOT_FOUND)
        elif handler.response_streaming:
            await _serve_stream(call, handler)
        else:
            await _serve_one(call, handler)
    except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its call's status.
        _fail(call, error)


def _fail(call: CallContext, error: BaseException) -> None:
    """Answer a call whose handler has raised, if it is not answered.

    Raises:
        BaseException: The error, if it is no matter of the call.
    """
    if isinstance(error, aio.AbortError):
        if not call.is_answered:
            _end_as_set(call, StatusCode.UNKNOWN)
    elif isinstance(error, asyncio.CancelledError):
        if not call.is_answered:
            call.is_cancelled = True
            call.end(StatusCode.CANCELLED, "the handler was cancelled", ())
    elif not isinstance(error, Exception):
        raise error
    elif not call.is_answered and not call.is_gone:
        _log.error("the handler of %s failed", call.head.method, exc_info=error)
        _end_failed(call, error)


async def _intercepted(
    handler: Handler | None,
    interceptors: Sequence[aio.ServerInterceptor],
    at: int,
    details: Any,
) -> Handler | None:
    if at == len(interceptors):
        return handler
    proceed: Callable[[Any], Awaitable[Any]] = partial(_intercepted, handler, interceptors, at + 1)
    return await interceptors[at].intercept_service(proceed, details)


async def _serve_one(call: CallContext, handler: Handler) -> None:
    behavior: Any = handler.stream_unary if handler.request_streaming else handler.unary_unary
    requests = call.requests() if handler.request_streaming else await _request(call, handler)
    response = behavior(requests, call)
    _answer(call, handler, await response if isawaitable(response) else response)


async def _answer_later(call: CallContext, handler: Handler, response: Awaitable[Any]) -> None:
    try:
        _answer(call, handler, await response)
    except BaseException as error:  # noqa: BLE001 - as above.
        _fail(call, error)


def _answer(call: CallContext, handler: Handler, response: Any) -> None:
    """Send the only response, or the status that the handler has set."""
    if call.is_answered or call.is_gone:
        return
    if call.is_failing:
        _end_as_set(call, StatusCode.OK)
        return
    serializer = handler.response_serializer
    octets = response if serializer is None else serializer(response)
    call.answer(octets if type(octets) is bytes else checked_message(octets))


async def _serve_stream(call: CallContext, handler: Handler) -> None:
    if handler.request_streaming:
        behavior: Any = handler.stream_stream
        responses = behavior(call.requests(), call)
    else:
        behavior = handler.unary_stream
        responses = behavior(await _request(call, handler), call)
    if isinstance(responses, AsyncIterator):
        try:
            async for response in responses:
                await call.write(response)
                del response  # Not kept while the next one is awaited.
        finally:
            close = getattr(responses, "aclose", None)
            if close is not None:
                await close()
    elif isawaitable(responses):
        await responses
    elif responses is not None:
        for response in responses:
            await call.write(response)
    if not call.is_answered and not call.is_gone:
        _end_as_set(call, StatusCode.OK)


async def _request(call: CallContext, handler: Handler) -> Any:
    message = call.take_single()
    if message is None:
        message = await call.next_request()
        if message is None:
            call.refuse(StatusCode.INTERNAL, "the client sent no request")
            raise aio.AbortError
    deserializer = handler.request_deserializer
    return message if deserializer is None else _decoded(deserializer, call, message)


def _decoded(deserializer: Callable[[Any], Any], call: CallContext, message: Any) -> Any:
    try:
        return deserializer(message)
    except Exception as error:
        call.refuse(StatusCode.INTERNAL, f"the request is malformed: {error}")
        raise aio.AbortError from error


def _end_as_set(call: CallContext, default: StatusCode) -> None:
    call.end(call.set_status or default, call.details(), call.trailing_metadata())


def _end_failed(call: CallContext, error: Exception) -> None:
    """The status of a handler that raised: what it has set, or UNKNOWN."""
    code = call.set_status
    if code is None or code is StatusCode.OK:
        details = call.details() or f"Unexpected {type(error)}: {error}"
        call.end(StatusCode.UNKNOWN, details, call.trailing_metadata())
    else:
        call.end(code, call.details(), call.trailing_metadata())


Around: TypeAlias = "Callable[[str, Handler | None], Handler]"
"""Returns a method's handler with what each of its calls passes through; None: it is unknown."""


class Handlers:
    """The methods of a server."""

    def __init__(self, around: Around | None) -> None:
        self.by_method: dict[str, Handler] = {}
        """Those of services, as they are called."""
        self._around = around
        self._tables: list[grpc.GenericRpcHandler] = []

    def add(self, service: str, handlers: Mapping[str, Handler]) -> None:
        """Add the methods of a service, by their short names."""
        for name, handler in handlers.items():
            method = f"/{service}/{name}"
            known = handler if self._around is None else self._around(method, handler)
            self.by_method[method] = known

    def add_generic(self, tables: Iterable[grpc.GenericRpcHandler]) -> None:
        """Add tables, which are asked one after the other."""
        self._tables += tables

    def find(self, head: RequestHead) -> Handler | None:
        """The handler of a call that is not of a service; None if there is none."""
        details: Any = CallDetails(head.method, head.metadata)
        answers = (table.service(details) for table in self._tables)
        found = next((handler for handler in answers if handler is not None), None)
        return found if self._around is None else self._around(head.method, found)
