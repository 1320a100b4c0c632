"""What tests of services need: a virtual clock, and all methods of the contract.

Public: applications and other members test with the same pieces.
"""

from __future__ import annotations

import asyncio
import heapq
import importlib
import itertools
import pkgutil
from collections.abc import Iterator
from typing import Final

from google.protobuf.descriptor import FileDescriptor, MethodDescriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass
from grpc import StatusCode, aio

import ariane

_TURNS: Final = 20
"""Turns of the loop that woken tasks get before time goes on."""

_ANSWER_S: Final = 10.0
"""How long a method may take for an empty request."""

_NO_ANSWERS: Final = {StatusCode.INTERNAL, StatusCode.UNKNOWN, StatusCode.DEADLINE_EXCEEDED}
"""Codes of calls that were begun and came to nothing."""


class VirtualClock:
    """A ``Clock`` that stands still until it is moved. Monotonic time begins at 0."""

    def __init__(self, now_ms: int = 1_767_225_600_000) -> None:
        self._begin_ms = now_ms
        self._elapsed_s = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now_ms(self) -> int:
        """Return wall-clock time, milliseconds since 1970 UTC."""
        return self._begin_ms + round(self._elapsed_s * 1000)

    def monotonic(self) -> float:
        """Return seconds since the clock was made."""
        return self._elapsed_s

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock was moved so far."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed_s + seconds, next(self._order), woken))
        await woken

    def advance(self, seconds: float) -> None:
        """Move time at once, for code that does not sleep; wakes whoever is due."""
        self._elapsed_s += seconds
        while self._sleepers and self._sleepers[0][0] <= self._elapsed_s:
            self._wake_next()

    def jump(self, seconds: float) -> None:
        """Move wall-clock time alone, as whoever sets the machine's clock does."""
        self._begin_ms += round(seconds * 1000)

    async def elapse(self, seconds: float) -> None:
        """Move time from sleeper to sleeper, letting each run before time goes on."""
        end_s = self._elapsed_s + seconds
        await self._settle()
        while self._sleepers and self._sleepers[0][0] <= end_s:
            self._elapsed_s = max(self._elapsed_s, self._sleepers[0][0])
            self._wake_next()
            await self._settle()
        self._elapsed_s = end_s

    def _wake_next(self) -> None:
        _, _, woken = heapq.heappop(self._sleepers)
        if not woken.done():
            woken.set_result(None)

    async def _settle(self) -> None:
        for _ in range(_TURNS):
            await asyncio.sleep(0)


def contract_services() -> Iterator[ServiceDescriptor]:
    """Yield every service of the contract, whoever serves it, by walking the generated package."""
    for module in pkgutil.walk_packages(ariane.__path__, "ariane."):
        if module.name.endswith("_pb2"):
            file: FileDescriptor = importlib.import_module(module.name).DESCRIPTOR
            yield from file.services_by_name.values()


async def unimplemented_methods(channel: aio.Channel, package: str) -> set[str]:
    """Call every method of a package with an empty request; return those that are not there.

    Most calls are refused because something must be set, and that is an answer. Only a method that
    no servicer has, or that a servicer refuses as unavailable, ends with UNIMPLEMENTED.

    Args:
        channel: To a running service. What an empty request does to it is done.
        package: Of the contract, such as ``ariane.broker.v1``.

    Raises:
        grpc.aio.AioRpcError: A call was answered with a fault of the service, or not in time.
    """
    methods = [
        method
        for service in contract_services()
        if service.file.package == package
        for method in service.methods
    ]
    served = [await _is_implemented(channel, method) for method in methods]
    return {
        f"{method.containing_service.name}.{method.name}"
        for method, there in zip(methods, served, strict=True)
        if not there
    }


async def _is_implemented(channel: aio.Channel, method: MethodDescriptor) -> bool:
    shape = "_".join(
        "stream" if streams else "unary"
        for streams in (method.client_streaming, method.server_streaming)
    )
    request = GetMessageClass(method.input_type)()
    call = getattr(channel, shape)(
        f"/{method.containing_service.full_name}/{method.name}",
        request_serializer=type(request).SerializeToString,
        response_deserializer=GetMessageClass(method.output_type).FromString,
    )(iter([request]) if method.client_streaming else request, timeout=_ANSWER_S)
    try:
        await (call.read() if method.server_streaming else call)
    except aio.AioRpcError as error:
        if error.code() in _NO_ANSWERS:
            raise
        return error.code() is not StatusCode.UNIMPLEMENTED
    finally:
        call.cancel()
    return True
