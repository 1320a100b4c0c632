"""Interceptors of calls: grpcio's own machinery, with calls of ours at its end.

grpcio runs the interceptors and gives the caller an object that stands for the call before there is
one. Only its last step, which makes the call, is replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from grpc.aio import Metadata
from grpc.aio import (
    _interceptor as machinery,
)

if TYPE_CHECKING:
    from ariane_wire.client.channel import Channel
    from ariane_wire.client.method import Method

Begin = Callable[[Any, Any], Any]
"""Begins the call itself, from its details and its request, or its iterator of requests."""


class _LastStep:
    """The last step, for all four kinds."""

    _channel: Begin

    async def _run_interceptor(self, interceptors: Any, *rest: Any) -> Any:
        if interceptors:
            return await super()._run_interceptor(interceptors, *rest)  # type: ignore[misc]
        details, request = rest[-2:]
        call = self._channel(details, request)
        if hasattr(self, "_last_returned_call_from_interceptors"):
            self._last_returned_call_from_interceptors = call
        return call


class _UnaryUnary(_LastStep, machinery.InterceptedUnaryUnaryCall):  # type: ignore[misc]
    pass


class _UnaryStream(_LastStep, machinery.InterceptedUnaryStreamCall):  # type: ignore[misc]
    pass


class _StreamUnary(_LastStep, machinery.InterceptedStreamUnaryCall):  # type: ignore[misc]
    pass


class _StreamStream(_LastStep, machinery.InterceptedStreamStreamCall):  # type: ignore[misc]
    pass


KINDS = (_UnaryUnary, _UnaryStream, _StreamUnary, _StreamStream)


def intercepted(  # noqa: PLR0917 - a step of the call, by position.
    kind: int,
    channel: Channel,
    method: Method,
    begin: Begin,
    request: Any,
    terms: tuple[Any, ...],
) -> Any:
    """A call that goes through the interceptors of its method before it begins.

    Args:
        kind: Of the call: its place among the four.
        channel: Of the call.
        method: What is called.
        begin: Begins it at last.
        request: Its request, or its iterator of requests.
        terms: Timeout, metadata, and whether it waits for a connection.
    """
    timeout, metadata, wait_for_ready = terms
    make: Any = KINDS[kind]
    return make(
        method.interceptors,
        request,
        timeout,
        Metadata(*(metadata or ())),
        None,
        wait_for_ready,
        begin,
        method.path.encode(),
        method.serializer,
        method.deserializer,
        channel.loop,
    )
