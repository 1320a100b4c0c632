"""Calls through a channel that adds metadata to each of them."""

from __future__ import annotations

import grpc
from grpc import aio

import ariane_wire
from ariane_wire import MetadataChannel


async def test_metadata_is_asked_for_at_each_call():
    seen = []

    async def answer(request, context):
        seen.append(dict(context.invocation_metadata()).get("who"))
        return request

    async def answers(request, context):
        seen.append(dict(context.invocation_metadata()).get("who"))
        yield request

    handlers = {
        "One": grpc.unary_unary_rpc_method_handler(answer),
        "Many": grpc.unary_stream_rpc_method_handler(answers),
    }
    server = ariane_wire.server()
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("s", handlers)])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    who: list[str] = []
    channel = MetadataChannel(
        ariane_wire.insecure_channel(f"127.0.0.1:{port}"), lambda: [("who", each) for each in who]
    )
    async with channel:
        one, many = channel.unary_unary("/s/One"), channel.unary_stream("/s/Many")
        assert await one(b"a") == b"a"
        who.append("anna")
        assert await one(b"b", metadata=aio.Metadata(("other", "x"))) == b"b"
        assert [each async for each in many(b"c")] == [b"c"]
    await server.stop(None)
    assert seen == [None, "anna", "anna"]
