"""Faults of sends on streams: each request counts as a call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

import grpc

from ariane.broker.v1.send_service_pb2 import StreamAppendsResponse

_APPEND: Final = "AppendRecords"
"""The name of such a request as a call."""


class Fault(Protocol):
    """A fault of one call."""

    @property
    def refusal(self) -> grpc.StatusCode | None:
        """The status with which it is refused before the broker acts; or None."""
        ...

    @property
    def lost(self) -> grpc.StatusCode | None:
        """The status with which it breaks after the broker has acted; or None."""
        ...

    @property
    def delay_s(self) -> float:
        """How long it waits before the broker gets it."""
        ...


TakeFault = Callable[[str], Fault | None]
"""Returns the fault of a call that arrives now, or None."""


def appends_with_faults(
    method: Callable[..., Awaitable[object]], take: TakeFault
) -> Callable[..., Awaitable[object]]:
    """Wrap the method for streams of appends with faults.

    Args:
        method: The method.
        take: Returns the fault of each request.
    """

    async def serve(requests: object, context: grpc.aio.ServicerContext[Any, Any]) -> object:
        return await method(requests, _FaultyStream(context, take))

    return serve


class _FaultyStream:
    """The server's end of a stream: a call that breaks ends its stream."""

    def __init__(self, context: grpc.aio.ServicerContext[Any, Any], take: TakeFault) -> None:
        self._context = context
        self._take = take
        self._lost: dict[int, grpc.StatusCode] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    async def read(self) -> Any:
        """The next request, after its fault."""
        request: Any = await self._context.read()
        fault = None if request is grpc.aio.EOF else self._take(_APPEND)
        if fault is not None:
            await asyncio.sleep(fault.delay_s)
            if fault.refusal is not None:
                await self._context.abort(fault.refusal, "refused on purpose")
            if fault.lost is not None:
                self._lost[request.request_number] = fault.lost
        return request

    async def write(self, answer: bytes) -> None:
        """Write an encoded answer, unless it is to be lost."""
        if self._lost:
            number = StreamAppendsResponse.FromString(answer).request_number
            lost = self._lost.pop(number, None)
            if lost is not None:
                await self._context.abort(lost, "the answer was lost on purpose")
        await self._context.write(answer)
