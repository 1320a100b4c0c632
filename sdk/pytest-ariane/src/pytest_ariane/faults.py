"""Injected faults: between a client and the broker, and below the broker."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection
from contextlib import aclosing
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Final, Protocol, cast

import grpc

import ariane.broker.v1 as broker_contract
from ariane.broker.v1.pull_service_pb2 import StreamPullsResponse


def _unary_rpcs() -> Collection[str]:
    modules = (
        import_module(each.name)
        for each in iter_modules(broker_contract.__path__, f"{broker_contract.__name__}.")
        if each.name.endswith("_pb2")
    )
    services = (s for module in modules for s in module.DESCRIPTOR.services_by_name.values())
    methods = (method for service in services for method in service.methods)
    return frozenset(
        method.name
        for method in methods
        if not (method.client_streaming or method.server_streaming)
    )


RPCS: Final = _unary_rpcs()
"""The calls that rules can name."""


class BreakableBroker(Protocol):
    """Faults of the broker as a whole."""

    def kill_broker(self) -> None:
        """End the broker as SIGKILL does: memory is lost, written data stays."""
        ...

    def cut_power(self, seed: int = 0) -> None:
        """End the broker as a power cut does: a random part of the unflushed data stays."""
        ...

    def start_broker(self) -> None:
        """Start the broker again on its port and its disk; harmless if it is running."""
        ...

    def fill_disk(self) -> None:
        """Make the disk full; returns when the broker has noticed it."""
        ...

    def free_disk(self) -> None:
        """Give the disk room again; returns when the broker has noticed it."""
        ...


@dataclass(slots=True)
class _Fault:
    rpc: str
    times: int
    refusal: grpc.StatusCode | None = None
    lost: grpc.StatusCode | None = None
    delay_s: float = 0.0


class Faults:
    """Switches for faults. A rule applies to ``times`` calls, then it is gone.

    An RPC is named as in the contract: "AppendRecords" is a send, "PullRecords" a pull,
    "StoreConsumerOffsets" and so on. Pulls are requests on a stream: a rule for them applies to
    each request, and ends the stream where a call would fail. Rules apply to no other streams: what
    names none of these calls is refused with ``ValueError``.
    """

    def __init__(self, broker: BreakableBroker) -> None:
        """Start without rules."""
        self._broker = broker
        self._lock = threading.Lock()
        self._faults: deque[_Fault] = deque()
        self.kill_broker = broker.kill_broker
        self.cut_power = broker.cut_power
        self.start_broker = broker.start_broker
        self.fill_disk = broker.fill_disk
        self.free_disk = broker.free_disk

    def refuse(
        self,
        rpc: str,
        times: int = 1,
        *,
        code: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE,
    ) -> None:
        """Refuse calls before the broker has done anything."""
        self._add(_Fault(rpc, times, refusal=code))

    def lose_reply(self, rpc: str, times: int = 1) -> None:
        """Let the broker carry out calls, and lose its answers: the connection breaks."""
        self._add(_Fault(rpc, times, lost=grpc.StatusCode.UNAVAILABLE))

    def delay(self, rpc: str, seconds: float, times: int = 1) -> None:
        """Let calls wait before the broker gets them; by the machine's clock."""
        self._add(_Fault(rpc, times, delay_s=seconds))

    @property
    def pending(self) -> int:
        """The number of calls to which rules still apply."""
        with self._lock:
            return sum(fault.times for fault in self._faults)

    def clear(self) -> None:
        """Remove all rules for calls."""
        with self._lock:
            self._faults.clear()

    def _add(self, fault: _Fault) -> None:
        if fault.rpc not in RPCS:
            near = get_close_matches(fault.rpc, RPCS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"no RPC of the broker is named {fault.rpc!r}{hint}")
        if fault.times < 1:
            raise ValueError(f"times {fault.times}: a rule applies to 1 call or more")
        with self._lock:
            self._faults.append(fault)

    def take(self, rpc: str) -> _Fault | None:
        """The rule for a call that arrives now, or None; counts the call."""
        with self._lock:
            for fault in self._faults:
                if fault.rpc == rpc:
                    fault.times -= 1
                    if fault.times == 0:
                        self._faults.remove(fault)
                    return fault
        return None


REQUESTS_OF_STREAMS: Final = {"StreamPulls": "PullRecords"}
"""The names of requests of streams as calls."""


class FaultyServicer:
    """A servicer of the contract with faults in front of it."""

    def __init__(self, servicer: object, faults: Faults) -> None:
        """Wrap a servicer."""
        self._servicer = servicer
        self._faults = faults

    def __getattr__(self, rpc: str) -> Any:
        method = getattr(self._servicer, rpc)
        if rpc in REQUESTS_OF_STREAMS:
            return _stream_with_faults(REQUESTS_OF_STREAMS[rpc], method, self._faults)
        if inspect.isasyncgenfunction(method):
            return method
        return _with_faults(rpc, method, self._faults)


def _with_faults(
    rpc: str, method: Callable[..., object], faults: Faults
) -> Callable[..., Awaitable[object]]:
    async def call(request: object, context: grpc.aio.ServicerContext[Any, Any]) -> object:
        fault = faults.take(rpc)
        if fault is not None:
            await asyncio.sleep(fault.delay_s)
            if fault.refusal is not None:
                await context.abort(fault.refusal, "refused on purpose")
        # A method may also answer at once, without being a coroutine.
        answer = method(request, context)
        if inspect.isawaitable(answer):
            answer = await answer
        if fault is not None and fault.lost is not None:
            await context.abort(fault.lost, "the answer was lost on purpose")
        return answer

    return call


def _stream_with_faults(
    rpc: str,
    method: Callable[..., AsyncIterator[object]],
    faults: Faults,
) -> Callable[..., AsyncIterator[object]]:
    async def stream(
        requests: AsyncIterator[object], context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[object]:
        taken: deque[_Fault | None] = deque()

        async def begun() -> _Fault | None:
            fault = faults.take(rpc)
            if fault is not None:
                await asyncio.sleep(fault.delay_s)
                if fault.refusal is not None:
                    await context.abort(fault.refusal, "refused on purpose")
            return fault

        async def faulty() -> AsyncIterator[object]:
            async for request in requests:
                taken.append(await begun())
                yield request

        async with aclosing(cast("AsyncGenerator[bytes]", method(faulty(), context))) as answers:
            goes_on = False
            async for answer in answers:
                # A pull that continues after its answer counts as another one.
                fault = await begun() if goes_on else taken.popleft()
                if fault is not None and fault.lost is not None:
                    await context.abort(fault.lost, "the answer was lost on purpose")
                yield answer
                goes_on = StreamPullsResponse.FromString(answer).more_follow

    return stream
