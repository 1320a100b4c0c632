"""One interceptor for every call of every service, made of stages.

::

    request -> log context -> metrics -> errors -> [authentication, access] -> admission -> servicer
                                           |                                                  |
    answer  <------------- status <--------+----------------- exception ----------------------+

The stages are in one list (``server.py``), outermost first. With one gRPC interceptor for each,
gRPC would build a handler for each interceptor and call. One interceptor with a chain of stages
costs a few microseconds for each call, wraps each method once, and treats unary calls and streams
alike.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from inspect import isawaitable
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias, cast

import grpc
from grpc import aio

from ariane_servicekit.errors import feature_not_available
from ariane_servicekit.rpc.calls import Call, enter_call, request_id_of

Proceed: TypeAlias = Callable[[], Awaitable[Any]]
"""Runs the next stage, at last the servicer; returns the response, None for a stream."""

Behavior: TypeAlias = Callable[[Any, aio.ServicerContext[Any, Any]], Any]
"""A servicer's method."""


class Stage(Protocol):
    """One concern of all calls."""

    async def __call__(self, call: Call, proceed: Proceed) -> Any:
        """Run the stage around ``await proceed()``, whose value it returns."""
        ...


class CallInterceptor(aio.ServerInterceptor):
    """Runs every call through the stages, including calls of unknown methods."""

    def __init__(
        self,
        stages: Sequence[Stage],
        new_id: Callable[[], str],
        decoders: Mapping[str, Callable[[bytes], Any]] = MappingProxyType({}),
    ) -> None:
        """``new_id``: draws ids of requests that come without."""
        self._stages = tuple(reversed(stages))
        self._new_id = new_id
        self._decoders = decoders
        self._handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}

    async def intercept_service(
        self,
        continuation: Callable[
            [grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]
        ],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any]:
        """Return the method's handler with the stages around it."""
        method = handler_call_details.method
        wrapped = self._handlers.get(method)
        if wrapped is not None:
            return wrapped
        handler = await continuation(handler_call_details)
        if handler is None:
            # Not cached: a caller could fill the memory with names of unknown methods.
            return self._refuse_unknown(method)
        wrapped = self._handlers[method] = self._wrap(method, handler)
        return wrapped

    def _wrap(
        self, method: str, handler: grpc.RpcMethodHandler[Any, Any]
    ) -> grpc.RpcMethodHandler[Any, Any]:
        behavior, make_handler = _shape(handler)
        decoder = self._decoders.get(method, handler.request_deserializer)
        if handler.request_streaming:
            decode = None
            deserializer = decoder
        else:
            # A single request is decoded inside the stages, so that a malformed one is an error
            # like any other. A stream is decoded while the servicer reads it, also inside.
            decode = decoder
            deserializer = None
        answer = _write_all if handler.response_streaming else _answer

        async def run(request: Any, context: aio.ServicerContext[Any, Any]) -> Any:
            call = Call(method, request_id_of(context, self._new_id), context)
            enter_call(call)
            proceed: Proceed = partial(answer, behavior, decode, request, context)
            for stage in self._stages:
                proceed = partial(stage, call, proceed)
            return await proceed()

        wrapped: grpc.RpcMethodHandler[Any, Any] = make_handler(
            run,
            request_deserializer=deserializer,
            response_serializer=_encoder(handler.response_serializer),
        )
        return wrapped

    def _refuse_unknown(self, method: str) -> grpc.RpcMethodHandler[Any, Any]:
        async def refuse(_request: Any, _context: aio.ServicerContext[Any, Any]) -> None:
            raise feature_not_available(method)

        return self._wrap(method, grpc.stream_stream_rpc_method_handler(cast("Any", refuse)))


def _encoder(encode: Callable[[Any], bytes] | None) -> Callable[[Any], bytes] | None:
    """Return the serializer of a response; bytes from a servicer stay as they are."""
    if encode is None:
        return None

    def encoded(response: Any) -> bytes:
        return response if type(response) is bytes else encode(response)

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


async def _answer(
    behavior: Behavior,
    decode: Callable[[bytes], Any] | None,
    request: Any,
    context: aio.ServicerContext[Any, Any],
) -> Any:
    """Run a method with one response. A servicer may answer at once or be a coroutine."""
    response = behavior(request if decode is None else decode(request), context)
    return await response if isawaitable(response) else response


async def _write_all(
    behavior: Behavior,
    decode: Callable[[bytes], Any] | None,
    request: Any,
    context: aio.ServicerContext[Any, Any],
) -> None:
    """Run a method with a stream of responses: a coroutine that writes, or a generator."""
    responses = behavior(request if decode is None else decode(request), context)
    if isawaitable(responses):
        await responses
        return
    # The generator is closed here, not by the garbage collector: its `finally` may release a
    # held pull.
    async with aclosing(cast("Any", responses)) as generator:
        async for response in cast("AsyncIterator[Any]", generator):
            await context.write(response)
