"""One interceptor for every call of every service.

::

    request -> log context -> admission -> caller -> rights -> servicer
                                                                  |
    answer  <--- metrics <--- status <----------------------- exception

It wraps each method once, and treats unary calls and streams alike. All of it is one coroutine: a
chain of stages would make as many for each call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from inspect import isawaitable
from types import MappingProxyType
from typing import Any, TypeAlias, cast

import grpc
from grpc import aio
from grpc_status import rpc_status

from ariane_servicekit.errors import feature_not_available
from ariane_servicekit.observability.measures import OTHER
from ariane_servicekit.observability.telemetry import CallMetrics
from ariane_servicekit.rpc.admission import ALWAYS_OPEN, Admission
from ariane_servicekit.rpc.calls import Call, check_meant, current_call, enter_call
from ariane_servicekit.rpc.cancellations import Cancellations
from ariane_servicekit.rpc.error_status import status_of
from ariane_servicekit.rpc.refusals import Refusals
from ariane_servicekit.security.caller import Identify, anonymous
from ariane_servicekit.security.gate.charging import (
    charge_answer,
    charge_request,
    wait_for_quotas,
)
from ariane_servicekit.security.gate.door import OPEN_DOOR, Door

Behavior: TypeAlias = Callable[[Any, aio.ServicerContext[Any, Any]], Any]
"""A servicer's method."""


class CallInterceptor(aio.ServerInterceptor):
    """Admits, measures and translates the errors of every call, also of unknown methods."""

    def __init__(
        self,
        admission: Admission,
        refusals: Refusals,
        metrics: CallMetrics,
        new_id: Callable[[], str],
        decoders: Mapping[str, Callable[[bytes], Any]] = MappingProxyType({}),
        *,
        identify: Identify = anonymous,
        doors: Mapping[str, Door] = MappingProxyType({}),
        known_as: str = "",
    ) -> None:
        """``new_id``: draws ids of requests that come without. ``identify``: finds who calls.

        ``doors``: let callers in, by method. A method without one is open to all. ``known_as``: the
        cluster and name of the process; calls that are meant for another one are refused.
        """
        self._known_as = known_as
        self._admission = admission
        self._refusals = refusals
        self._metrics = metrics
        self._cancellations = Cancellations()
        self._new_id = new_id
        self._identify = identify
        self._doors = doors
        self._decoders = decoders
        self._handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}

    async def intercept_service(
        self,
        continuation: Callable[
            [grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]
        ],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any]:
        """Return the method's handler with what each call passes through around it."""
        method = handler_call_details.method
        wrapped = self._handlers.get(method)
        if wrapped is not None:
            return wrapped
        handler = await continuation(handler_call_details)
        if handler is None:
            # Not cached: a caller could fill the memory with names of unknown methods.
            return self._refuse_unknown(method)
        wrapped = self._handlers[method] = self._wrap(method, handler, counted_as=method)
        return wrapped

    def _wrap(
        self, method: str, handler: grpc.RpcMethodHandler[Any, Any], *, counted_as: str
    ) -> grpc.RpcMethodHandler[Any, Any]:
        behavior, make_handler = _shape(handler)
        door = self._doors.get(method, OPEN_DOOR)
        decode, deserializer = _decoders(
            self._decoders.get(method, handler.request_deserializer),
            door,
            streaming=handler.request_streaming,
        )
        write_all = handler.response_streaming
        admission, metrics, new_id = self._admission, self._metrics, self._new_id
        identify, known_as = self._identify, self._known_as
        always_open = method.startswith(ALWAYS_OPEN)

        async def run(request: Any, context: aio.ServicerContext[Any, Any]) -> Any:
            call = Call(method, "", context, new_id, identify)
            enter_call(call)
            begin = metrics.begin()
            peer = None
            try:
                if not always_open:
                    peer = admission.enter(call)
                    check_meant(context, known_as)
                door.enter(call)
                if decode is not None:
                    if call.meter is not None:
                        charge_request(call, request)
                    request = decode(request)
                    door.take(call, request)
                response = behavior(request, context)
                # A servicer may answer at once, or be a coroutine.
                if type(response) is not bytes and isawaitable(response):
                    response = await response
                elif write_all:
                    return await _write_all(call, response, context)
                if call.owing:
                    await wait_for_quotas(call)
                return door.show(call, response)
            except BaseException as error:
                await self._fail(call, error)
                raise
            finally:
                if peer is not None:
                    admission.leave(peer)
                door.leave(call)
                metrics.end(begin, counted_as, call.code)

        wrapped: grpc.RpcMethodHandler[Any, Any] = make_handler(
            run,
            request_deserializer=deserializer,
            response_serializer=_encoder(handler.response_serializer),
        )
        return wrapped

    async def _fail(self, call: Call, error: BaseException) -> None:
        """Abort a call that has failed: the only place where calls are aborted."""
        if isinstance(error, aio.AbortError):
            # Aborted inside by foreign code: the health service for an unknown name.
            call.code = call.context.code()
        elif isinstance(error, asyncio.CancelledError) and call.ended is None:
            call.code = grpc.StatusCode.CANCELLED
            self._cancellations.add(call.peer, call.method)
        elif call.ended is not None or isinstance(error, Exception):
            public = self._refusals.refuse(call, call.ended or cast("Exception", error))
            call.code = public.row.code
            await call.context.abort_with_status(rpc_status.to_status(status_of(public)))

    def _refuse_unknown(self, method: str) -> grpc.RpcMethodHandler[Any, Any]:
        async def refuse(_request: Any, _context: aio.ServicerContext[Any, Any]) -> None:
            raise feature_not_available(method)

        handler: grpc.RpcMethodHandler[Any, Any] = grpc.stream_stream_rpc_method_handler(
            cast("Any", refuse)
        )
        # The caller chooses the name: there may be any number of them.
        return self._wrap(method, handler, counted_as=OTHER)


def _decoders(
    decode: Callable[[bytes], Any] | None, door: Door, *, streaming: bool
) -> tuple[Callable[[Any], Any] | None, Callable[[bytes], Any] | None]:
    """Return what decodes a single request inside of a call, and what decodes those of a stream.

    Inside, so that a malformed request is an error like any other. The requests of a stream are
    decoded, and let in, while the servicer reads them: also inside.
    """
    if not streaming:
        return decode or _as_it_is, None

    def guarded(raw: bytes) -> Any:
        call = current_call()
        if call is not None and call.meter is not None:
            charge_request(call, raw)
        return door.take_row(raw if decode is None else decode(raw))

    return None, guarded


def _as_it_is(request: Any) -> Any:
    return request


def _encoder(encode: Callable[[Any], bytes] | None) -> Callable[[Any], bytes] | None:
    """Return the serializer of a response; bytes from a servicer stay as they are."""
    if encode is None:
        return None

    def encoded(response: Any) -> bytes:
        octets = response if type(response) is bytes else encode(response)
        call = current_call()
        if call is not None and call.meter is not None:
            charge_answer(call, octets)
        return octets

    return encoded


def _shape(
    handler: grpc.RpcMethodHandler[Any, Any],
) -> tuple[Behavior, Callable[..., grpc.RpcMethodHandler[Any, Any]]]:
    """Return a handler's method and the function that makes handlers of its kind."""
    if handler.request_streaming:
        if handler.response_streaming:
            return cast("Behavior", handler.stream_stream), grpc.stream_stream_rpc_method_handler
        return cast("Behavior", handler.stream_unary), grpc.stream_unary_rpc_method_handler
    if handler.response_streaming:
        return cast("Behavior", handler.unary_stream), grpc.unary_stream_rpc_method_handler
    return cast("Behavior", handler.unary_unary), grpc.unary_unary_rpc_method_handler


async def _write_all(call: Call, responses: Any, context: aio.ServicerContext[Any, Any]) -> None:
    """Write a stream of responses."""
    # The generator is closed here, not by the garbage collector: its `finally` may release a
    # held pull.
    async with aclosing(responses) as generator:
        async for response in generator:
            await context.write(response)
            del response  # Not kept while the next one is awaited.
            if call.owing:
                await wait_for_quotas(call)
