"""The service of gRPC's interoperability tests, for servers of either implementation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any

import grpc
from grpc_reflection.v1alpha import reflection

# Generated at import, by the compiler of the environment: nothing to keep up to date.
messages, services = grpc.protos_and_services("interop.proto")

ECHO_INITIAL = "x-grpc-test-echo-initial"
ECHO_TRAILING = "x-grpc-test-echo-trailing-bin"


def payload(size: int) -> Any:
    """Zeros, as the cases ask for."""
    return messages.Payload(body=bytes(size))


class InteropService(services.TestServiceServicer):
    """Does what the descriptions of the cases say."""

    async def EmptyCall(self, request: Any, context: Any) -> Any:  # noqa: N802 - as in the proto.
        await echo_metadata(context)
        return messages.Empty()

    async def UnaryCall(self, request: Any, context: Any) -> Any:  # noqa: N802 - as in the proto.
        await echo_metadata(context)
        await echo_status(request, context)
        return messages.SimpleResponse(payload=payload(request.response_size))

    async def StreamingOutputCall(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802 - as in the proto.
        await echo_metadata(context)
        for each in request.response_parameters:
            await asyncio.sleep(each.interval_us / 1e6)
            yield messages.StreamingOutputCallResponse(payload=payload(each.size))

    async def StreamingInputCall(self, requests: Any, context: Any) -> Any:  # noqa: N802 - as in the proto.
        await echo_metadata(context)
        size = 0
        async for each in requests:
            size += len(each.payload.body)
        return messages.StreamingInputCallResponse(aggregated_payload_size=size)

    async def FullDuplexCall(self, requests: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802 - as in the proto.
        await echo_metadata(context)
        async for request in requests:
            await echo_status(request, context)
            for each in request.response_parameters:
                await asyncio.sleep(each.interval_us / 1e6)
                yield messages.StreamingOutputCallResponse(payload=payload(each.size))


async def echo_metadata(context: Any) -> None:
    """Send back what two keys hold."""
    received = dict(context.invocation_metadata())
    if ECHO_INITIAL in received:
        await context.send_initial_metadata(((ECHO_INITIAL, received[ECHO_INITIAL]),))
    if ECHO_TRAILING in received:
        context.set_trailing_metadata(((ECHO_TRAILING, received[ECHO_TRAILING]),))


async def echo_status(request: Any, context: Any) -> None:
    """End with the status that the request asks for, if it does."""
    if request.HasField("response_status"):
        status = request.response_status
        [code] = [each for each in grpc.StatusCode if each.value[0] == status.code]
        await context.abort(code, status.message)


@asynccontextmanager
async def serving_interop(implementation: ModuleType) -> AsyncIterator[str]:
    """A server with the service and with reflection, on a free port; its address."""
    server = implementation.server()
    services.add_TestServiceServicer_to_server(InteropService(), server)
    names = [service.full_name for service in messages.DESCRIPTOR.services_by_name.values()]
    reflection.enable_server_reflection((*names, reflection.SERVICE_NAME), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)
