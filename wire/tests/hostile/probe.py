"""A service under attack, which counts what is done for whom; and what is left afterwards."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from typing import Any

import grpc

PIECE = bytes(64 << 10)


class Probe(grpc.GenericRpcHandler):
    """Handlers that count."""

    def __init__(self) -> None:
        self.begun: Counter[str] = Counter()
        """Handlers that began, by method."""
        self.live = 0
        """Handlers that have begun and not ended."""
        self.live_max = 0
        """The most that there were at a time."""
        self.given = 0
        """Messages whose writes have returned."""

    def service(self, handler_call_details: Any) -> Any:
        name = handler_call_details.method.rpartition("/")[2]
        if name == "Echo":
            return grpc.unary_unary_rpc_method_handler(self.echo)
        if name == "Hang":
            return grpc.unary_unary_rpc_method_handler(self.hang)
        if name == "Collect":
            return grpc.stream_unary_rpc_method_handler(self.collect)
        if name == "Gush":
            return grpc.unary_stream_rpc_method_handler(self.gush)
        return None

    def _begin(self, name: str) -> None:
        self.begun[name] += 1
        self.live += 1
        self.live_max = max(self.live_max, self.live)

    async def echo(self, request: bytes, context: Any) -> bytes:
        self.begun["Echo"] += 1
        return request

    async def hang(self, request: bytes, context: Any) -> bytes:
        self._begin("Hang")
        try:
            await asyncio.Event().wait()
        finally:
            self.live -= 1
        return request

    async def collect(self, requests: Any, context: Any) -> bytes:
        self._begin("Collect")
        try:
            return b"".join([each async for each in requests])
        finally:
            self.live -= 1

    async def gush(self, request: bytes, context: Any) -> None:
        self._begin("Gush")
        try:
            while True:
                await context.write(PIECE)
                self.given += 1
        finally:
            self.live -= 1


def wire_objects() -> Counter[str]:
    """Streams, connections and tasks that are alive in this process."""
    gc.collect()
    found: Counter[str] = Counter()
    for each in gc.get_objects():
        kind = type(each)
        # Kinds of other tests may have anything as their module.
        if str(kind.__module__).startswith("ariane_wire.") and kind.__name__.endswith(
            ("Stream", "Call", "Connection", "Link")
        ):
            found[f"{kind.__module__}.{kind.__name__}"] += 1
    found["tasks"] = len(asyncio.all_tasks())
    return found
