"""gRPC's interoperability cases from the client's side, over channels of either implementation.

Written after their public descriptions. Not here: cases about credentials, and those that need
to see whether a message came compressed, which no handler is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
import pytest
from interop_service import ECHO_INITIAL, ECHO_TRAILING, messages, payload, services

Case = Callable[[Any], Awaitable[None]]
REQUEST_SIZES = (27182, 8, 1828, 45904)
RESPONSE_SIZES = (31415, 9, 2653, 58979)
STATUS = messages.EchoStatus(code=2, message="test status message")
SPECIAL = "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n"


def stub(channel: Any) -> Any:
    return services.TestServiceStub(channel)


def output_request(request_size: int, *response_sizes: int) -> Any:
    return messages.StreamingOutputCallRequest(
        response_parameters=[messages.ResponseParameters(size=size) for size in response_sizes],
        payload=payload(request_size),
    )


def large_request(**more: Any) -> Any:
    return messages.SimpleRequest(response_size=314159, payload=payload(271828), **more)


async def refused(awaited: Any) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await awaited
    return caught.value


async def empty_unary(channel: Any) -> None:
    assert await stub(channel).EmptyCall(messages.Empty()) == messages.Empty()


async def large_unary(channel: Any) -> None:
    response = await stub(channel).UnaryCall(large_request())
    assert response.payload.body == bytes(314159)


async def client_streaming(channel: Any) -> None:
    call = stub(channel).StreamingInputCall()
    for size in REQUEST_SIZES:
        await call.write(messages.StreamingInputCallRequest(payload=payload(size)))
    await call.done_writing()
    assert (await call).aggregated_payload_size == 74922


async def server_streaming(channel: Any) -> None:
    call = stub(channel).StreamingOutputCall(output_request(0, *RESPONSE_SIZES))
    assert [len(each.payload.body) async for each in call] == list(RESPONSE_SIZES)


async def ping_pong(channel: Any) -> None:
    call = stub(channel).FullDuplexCall()
    for request_size, response_size in zip(REQUEST_SIZES, RESPONSE_SIZES, strict=True):
        await call.write(output_request(request_size, response_size))
        assert len((await call.read()).payload.body) == response_size
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF
    assert await call.code() is grpc.StatusCode.OK


async def empty_stream(channel: Any) -> None:
    call = stub(channel).FullDuplexCall()
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF
    assert await call.code() is grpc.StatusCode.OK


async def cancel_after_begin(channel: Any) -> None:
    call = stub(channel).StreamingInputCall()
    call.cancel()
    assert await call.code() is grpc.StatusCode.CANCELLED
    with pytest.raises(asyncio.CancelledError):
        await call


async def cancel_after_first_response(channel: Any) -> None:
    call = stub(channel).FullDuplexCall()
    await call.write(output_request(27182, 31415))
    assert len((await call.read()).payload.body) == 31415
    call.cancel()
    assert await call.code() is grpc.StatusCode.CANCELLED


async def timeout_on_sleeping_server(channel: Any) -> None:
    call = stub(channel).FullDuplexCall(timeout=0.001)
    # A server whose clock says so first, such as Go's, may reset the stream before ours does.
    assert await call.code() in {grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED}


async def custom_metadata(channel: Any) -> None:
    sent = ((ECHO_INITIAL, "test_initial_metadata_value"), (ECHO_TRAILING, b"\xab\xab\xab"))
    unary = stub(channel).UnaryCall(large_request(), metadata=sent)
    await unary
    duplex = stub(channel).FullDuplexCall(metadata=sent)
    await duplex.write(output_request(271828, 314159))
    await duplex.read()
    await duplex.done_writing()
    assert await duplex.read() is grpc.aio.EOF
    for call in (unary, duplex):
        assert sent[0] in tuple(await call.initial_metadata())
        assert sent[1] in tuple(await call.trailing_metadata())


async def status_code_and_message(channel: Any) -> None:
    failure = await refused(stub(channel).UnaryCall(messages.SimpleRequest(response_status=STATUS)))
    assert (failure.code(), failure.details()) == (grpc.StatusCode.UNKNOWN, STATUS.message)
    failure = await refused(ask_for_status(stub(channel).FullDuplexCall()))
    assert (failure.code(), failure.details()) == (grpc.StatusCode.UNKNOWN, STATUS.message)


async def ask_for_status(call: Any) -> None:
    """Any of these steps may be the one that learns of it."""
    await call.write(messages.StreamingOutputCallRequest(response_status=STATUS))
    await call.done_writing()
    await call.read()


async def special_status_message(channel: Any) -> None:
    status = messages.EchoStatus(code=2, message=SPECIAL)
    failure = await refused(stub(channel).UnaryCall(messages.SimpleRequest(response_status=status)))
    assert (failure.code(), failure.details()) == (grpc.StatusCode.UNKNOWN, SPECIAL)


async def unimplemented_method(channel: Any) -> None:
    failure = await refused(stub(channel).UnimplementedCall(messages.Empty()))
    assert failure.code() is grpc.StatusCode.UNIMPLEMENTED


async def unimplemented_service(channel: Any) -> None:
    other = services.UnimplementedServiceStub(channel)
    failure = await refused(other.UnimplementedCall(messages.Empty()))
    assert failure.code() is grpc.StatusCode.UNIMPLEMENTED


CASES: dict[str, Case] = {
    case.__name__: case
    for case in (
        empty_unary,
        large_unary,
        client_streaming,
        server_streaming,
        ping_pong,
        empty_stream,
        cancel_after_begin,
        cancel_after_first_response,
        timeout_on_sleeping_server,
        custom_metadata,
        status_code_and_message,
        special_status_message,
        unimplemented_method,
        unimplemented_service,
    )
}
