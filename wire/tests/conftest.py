"""Both loops, and both runtimes at both ends: grpcio is the oracle."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import grpc
import pytest
import uvloop

import ariane_wire

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
SCENARIO_S_MAX = 60


@pytest.fixture(params=sorted(LOOPS))
def run(request):
    """Runs a scenario on a loop; grpcio is kept on one loop of the process, and runs on asyncio."""

    def run_on_loop(scenario):
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            return runner.run(asyncio.wait_for(scenario, SCENARIO_S_MAX))

    return run_on_loop


def handler_table(handlers):
    """Handlers by short name: ``{"Echo": ("unary_unary", function)}``, as ``/test.Echo/Echo``."""
    return {
        name: getattr(grpc, f"{kind}_rpc_method_handler")(function)
        for name, (kind, function) in handlers.items()
    }


@asynccontextmanager
async def server_of(handlers, runtime=ariane_wire, address="127.0.0.1:0", **settings):
    """A server of a runtime; gives its address."""
    server = runtime.server(**settings)
    table = handler_table(handlers)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Echo", table),))
    server.add_registered_method_handlers("test.Echo", table)
    port = server.add_insecure_port(address)
    await server.start()
    try:
        yield f"127.0.0.1:{port}" if not address.startswith("unix") else address
    finally:
        await server.stop(None)


@asynccontextmanager
async def channel_of(handlers, **settings):
    """A server and a channel of ours; gives the channel."""
    async with (
        server_of(handlers, **settings) as address,
        ariane_wire.insecure_channel(address) as channel,
    ):
        yield channel


@pytest.fixture
def serving():
    """``async with serving(handlers, runtime, address, **settings) as address``."""
    return server_of


@pytest.fixture
def talking():
    """``async with talking(handlers, **settings_of_the_server) as channel``."""
    return channel_of
