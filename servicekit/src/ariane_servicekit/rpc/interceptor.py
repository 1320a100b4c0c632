"""What every call of every service passes through, put around each method by the server.

::

    request -> log context -> admission -> caller -> rights -> servicer
                                                                  |
    answer  <--- metrics <--- status <----------------------- exception

It wraps each method once, and treats unary calls and streams alike. A call that its servicer
answers at once passes without a coroutine; any other has one, where a chain of stages would have as
many.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing
from inspect import isawaitable
from time import perf_counter
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


class CallInterceptor:
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
        self.known_as = known_as
        self.admission = admission
        self.metrics = metrics
        self.new_id = new_id
        self.identify = identify
        self.doors = doors
        self.decoders = decoders
        self._refusals = refusals
        self._cancellations = Cancellations()

    def around(
        self, method: str, handler: grpc.RpcMethodHandler[Any, Any] | None
    ) -> grpc.RpcMethodHandler[Any, Any]:
        """Return a method's handler with what each call passes through around it.

        Args:
            method: Its full name.
            handler: Its handler; None for an unknown method.
        """
        # The caller chooses the name of an unknown one: there may be any number of them.
        counted_as = OTHER if handler is None else method
        known = handler or _unknown(method)
        make_handler = _shape(known)[1]
        streamed = known.response_streaming
        calls = _MethodCalls(self, method, known, counted_as)
        wrapped: grpc.RpcMethodHandler[Any, Any] = make_handler(
            calls.run,
            request_deserializer=calls.decode_row if known.request_streaming else None,
            response_serializer=calls.encode_in_stream if streamed else None,
        )
        return wrapped

    async def fail(self, call: Call, error: BaseException) -> None:
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


class _MethodCalls:
    """What each call of one method passes through."""

    def __init__(
        self,
        shared: CallInterceptor,
        method: str,
        handler: grpc.RpcMethodHandler[Any, Any],
        counted_as: str,
    ) -> None:
        self._shared = shared
        self._method = method
        self._counted_as = counted_as
        self._behavior = _shape(handler)[0]
        self.door = shared.doors.get(method, OPEN_DOOR)
        """Lets its callers in."""
        decode: Callable[[Any], Any] | None = shared.decoders.get(method)
        if decode is None:
            decode = handler.request_deserializer
        self._decode = _as_it_is if decode is None else decode
        self._encode = handler.response_serializer or _as_it_is
        self._reads_rows = handler.request_streaming
        self._writes_rows = handler.response_streaming
        self._is_always_open = method.startswith(ALWAYS_OPEN)

    def run(self, request: Any, context: aio.ServicerContext[Any, Any]) -> Any:
        """Answer a call at once where the servicer does; else return what has yet to run.

        A request is decoded here, so that a malformed one is an error like any other.
        """
        shared = self._shared
        call = Call(self._method, "", context, shared.new_id, shared.identify)
        enter_call(call)
        call.begun_s = perf_counter()
        try:
            if not self._is_always_open:
                call.place = shared.admission.enter(call)
                check_meant(context, shared.known_as)
            self.door.enter(call)
            if not self._reads_rows:
                if call.meter is not None:
                    charge_request(call, request)
                request = self._decode(request)
                if call.is_judged:
                    self.door.take(call, request)
            response = self._behavior(request, context)
            # A servicer may answer at once, or be a coroutine.
            if call.owing or (
                type(response) is not bytes and (self._writes_rows or isawaitable(response))
            ):
                return self._finish(call, response, None if self._reads_rows else request)
            is_plain = type(response) is bytes and not self.door.cuts
            octets = response if is_plain and not call.touched else self._shown(call, response)
        except BaseException as error:  # noqa: BLE001 - raised again when the call is aborted.
            return self._fail(call, error)
        self._leave(call)
        return octets

    async def _finish(self, call: Call, response: Any, request: Any = None) -> Any:
        """What is left to be done for a call that waits."""
        try:
            self.door.stay(call, request)
            del request  # Not kept while its answer is awaited.
            if isawaitable(response):
                response = await response
            elif self._writes_rows:
                return await _write_all(call, response, call.context)
            if call.owing:
                await wait_for_quotas(call)
            return self._shown(call, response)
        except BaseException as error:
            await self._shared.fail(call, error)
            raise
        finally:
            self._leave(call)

    async def _fail(self, call: Call, error: BaseException) -> None:
        try:
            await self._shared.fail(call, error)
            raise error
        finally:
            self._leave(call)

    def _shown(self, call: Call, response: Any) -> Any:
        """The octets of the only response, cut to what the caller may see."""
        if call.touched or self.door.cuts:
            response = self.door.show(call, response)
        if self._writes_rows:
            return response
        octets = response if type(response) is bytes else self._encode(response)
        if call.meter is not None:
            charge_answer(call, octets)
        return octets

    def _leave(self, call: Call) -> None:
        shared = self._shared
        if call.place is not None:
            shared.admission.leave(call.place)
        if call.long is not None:
            self.door.leave(call)
        shared.metrics.end(call.begun_s, self._counted_as, call.code)

    def decode_row(self, raw: bytes) -> Any:
        """Decode a request of a stream, while the servicer reads it, and let it in."""
        call = current_call()
        if call is not None and call.meter is not None:
            charge_request(call, raw)
        return self.door.take_row(self._decode(raw))

    def encode_in_stream(self, response: Any) -> bytes:
        """Encode a response of a stream; bytes from a servicer stay as they are."""
        octets: bytes = response if type(response) is bytes else self._encode(response)
        call = current_call()
        if call is not None and call.meter is not None:
            charge_answer(call, octets)
        return octets


def _unknown(method: str) -> grpc.RpcMethodHandler[Any, Any]:
    async def refuse(_request: Any, _context: aio.ServicerContext[Any, Any]) -> None:
        raise feature_not_available(method)

    handler: grpc.RpcMethodHandler[Any, Any] = grpc.stream_stream_rpc_method_handler(
        cast("Any", refuse)
    )
    return handler


def _as_it_is(octets: Any) -> Any:
    return octets


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
