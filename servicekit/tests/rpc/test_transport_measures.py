"""What a server does below its calls, as metrics."""

from __future__ import annotations

import asyncio

import grpc
from opentelemetry.metrics import NoOpMeter

import ariane_wire
from ariane_servicekit.observability.measures import Measures
from ariane_servicekit.rpc.transport_measures import SNAPSHOT_S_MAX, TransportMeasures


async def values_of(measures):
    """Values by name, as Prometheus reads them."""
    text = await asyncio.to_thread(measures.text)
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


async def test_connections_and_calls_are_told():
    begun = asyncio.Event()

    async def hang(request, context):
        begun.set()
        await asyncio.Event().wait()

    server = ariane_wire.server()
    table = {"Hang": grpc.unary_unary_rpc_method_handler(hang)}
    server.add_registered_method_handlers("test.Probe", table)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    measures, now_s = Measures(NoOpMeter("probe")), [0.0]
    TransportMeasures(server, lambda: now_s[0]).make(measures)
    assert (await values_of(measures))["ariane_rpc_connections"] == 0
    async with ariane_wire.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.unary_unary("/test.Probe/Hang")(bytes(100))
        await begun.wait()
        # One page is of one snapshot.
        assert (await values_of(measures))["ariane_rpc_connections"] == 0
        now_s[0] += SNAPSHOT_S_MAX
        told = await values_of(measures)
        assert told["ariane_rpc_connections"] == told["ariane_rpc_connections_begun_total"] == 1
        assert told["ariane_rpc_streams"] == told["ariane_rpc_streams_begun_total"] == 1
        assert told["ariane_rpc_received_bytes_total"] > 100
        assert told["ariane_rpc_stalls_total"] == told["ariane_rpc_held_bytes"] == 0
        call.cancel()
    await server.stop(None)
