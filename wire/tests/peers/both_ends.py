"""The two implementations by name, and servers and channels of each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any

import grpc
import grpc.aio

import ariane_wire

Options = Sequence[tuple[str, Any]] | ariane_wire.ServerOptions


IMPLEMENTATIONS: dict[str, ModuleType] = {"grpcio": grpc.aio, "wire": ariane_wire}
"""grpcio, which is the oracle, and the one under test."""


@asynccontextmanager
async def serving(
    implementation: ModuleType,
    *handlers: grpc.GenericRpcHandler,
    options: Options = (),
    maximum_concurrent_rpcs: int | None = None,
) -> AsyncIterator[str]:
    """A server on a free port; its address."""
    server = implementation.server(
        handlers=list(handlers), options=options, maximum_concurrent_rpcs=maximum_concurrent_rpcs
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)
