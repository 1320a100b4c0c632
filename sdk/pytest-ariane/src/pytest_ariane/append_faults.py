"""Faults of sends that travel on streams: each request is a call to whoever breaks it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

import grpc

from ariane.broker.v1.send_service_pb2 import StreamAppendsResponse

_APPEND: Final = "AppendRecords"
"""What a request of such a stream is as a call."""


class Fault(Protocol):
    """What happens to a call."""

    @property
    def refusal(self) -> grpc.StatusCode | None:
        """How it is refused before anything is done."""
        ...

    @property
    def lost(self) -> grpc.StatusCode | None:
        """How it breaks when all is done."""
        ...

    @property
    def delay_s(self) -> float:
        """How long it waits."""
        ...


TakeFault = Callable[[str], Fault | None]
"""The fault of a call that came in now, if there is one."""


def appends_with_faults(
    method: Callable[..., Awaitable[object]], take: TakeFault
) -> Callable[..., Awaitable[object]]:
    """The method for streams of appends with faults in front of it.

    Args:
        method: The method.
        take: Where faults come from.
    """

    async def serve(requests: object, context: grpc.aio.ServicerContext[Any, Any]) -> object:
        return await method(requests, _FaultyStream(context, take))

    return serve


class _FaultyStream:
    """The server's end of a stream: a call that breaks takes its stream with it."""

    def __init__(self, context: grpc.aio.ServicerContext[Any, Any], take: TakeFault) -> None:
        self._context = context
        self._take = take
        self._lost: dict[int, grpc.StatusCode] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    async def read(self) -> Any:
        """The next request, once its fault has happened."""
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
        """An answer, encoded, unless it is to be lost."""
        if self._lost:
            number = StreamAppendsResponse.FromString(answer).request_number
            lost = self._lost.pop(number, None)
            if lost is not None:
                await self._context.abort(lost, "the answer was lost on purpose")
        await self._context.write(answer)
