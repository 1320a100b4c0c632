"""Interceptors of both ends, in the order and with the powers that grpcio gives them."""

from __future__ import annotations

from contextvars import ContextVar

import grpc
import pytest
from grpc import StatusCode, aio

import ariane_wire


async def echo(request, context):
    seen = [value for key, value in context.invocation_metadata() if key == "x-step"]
    return b" ".join([request, *(step.encode() for step in seen)])


async def each(requests, context):
    async for request in requests:
        yield request


async def three(request, context):
    for number in range(3):
        yield request + b"%d" % number


async def joined(requests, context):
    return b"".join([request async for request in requests])


HANDLERS = {
    "Echo": ("unary_unary", echo),
    "Each": ("stream_stream", each),
    "Three": ("unary_stream", three),
    "Joined": ("stream_unary", joined),
}


class Step(aio.UnaryUnaryClientInterceptor):
    def __init__(self, name):
        self.name = name

    async def intercept_unary_unary(self, continuation, client_call_details, request):
        metadata = [*(client_call_details.metadata or ()), ("x-step", self.name)]
        call = await continuation(client_call_details._replace(metadata=metadata), request)
        return (await call) + b" " + self.name.encode()


class Rename(aio.UnaryUnaryClientInterceptor):
    async def intercept_unary_unary(self, continuation, client_call_details, request):
        method = b"/test.Echo/Echo"
        return await continuation(client_call_details._replace(method=method), request)


class Streams(aio.StreamStreamClientInterceptor):
    async def intercept_stream_stream(self, continuation, client_call_details, request_iterator):
        call = await continuation(client_call_details, request_iterator)

        async def doubled():
            async for response in call:
                yield response * 2

        return doubled()


class PassResponses(aio.UnaryStreamClientInterceptor):
    async def intercept_unary_stream(self, continuation, client_call_details, request):
        return await continuation(client_call_details, request + b"!")


class PassRequests(aio.StreamUnaryClientInterceptor):
    async def intercept_stream_unary(self, continuation, client_call_details, request_iterator):
        return await continuation(client_call_details, request_iterator)


@pytest.mark.parametrize("runtime", [ariane_wire, aio], ids=["wire", "grpcio"])
async def test_clients(serving, runtime):
    interceptors = [Step("outer"), Step("inner"), Streams(), PassResponses(), PassRequests()]
    async with (
        serving(HANDLERS) as address,
        runtime.insecure_channel(address, interceptors=interceptors) as channel,
    ):
        unary = await channel.unary_unary("/test.Echo/Echo")(b"hi", timeout=10)
        call = channel.stream_stream("/test.Echo/Each")(iter([b"a", b"b"]))
        both = [response async for response in call]
        many = [each async for each in channel.unary_stream("/test.Echo/Three")(b"q")]
        written = channel.stream_unary("/test.Echo/Joined")()
        await written.write(b"x")
        await written.done_writing()
        one = await written
    assert unary == b"hi outer inner inner outer"
    assert both == [b"aa", b"bb"]
    assert many == [b"q!0", b"q!1", b"q!2"]
    assert one == b"x"


async def test_a_client_may_change_the_method(serving):
    async with (
        serving(HANDLERS) as address,
        ariane_wire.insecure_channel(address, interceptors=[Rename()]) as channel,
    ):
        assert await channel.unary_unary("/other/Method")(b"hi") == b"hi"


async def test_cancelling_an_intercepted_call(serving):
    async with (
        serving(HANDLERS) as address,
        ariane_wire.insecure_channel(address, interceptors=[Step("only")]) as channel,
    ):
        call = channel.unary_unary("/test.Echo/Echo")(b"hi")
        assert call.cancel()
        assert await call.code() is StatusCode.CANCELLED


class Refuse(aio.ServerInterceptor):
    """Refuses a method, and serves one that nobody has."""

    async def intercept_service(self, continuation, handler_call_details):
        if handler_call_details.method == "/test.Echo/Echo":

            async def refuse(request, context):
                await context.abort(StatusCode.PERMISSION_DENIED, "not you")

            return grpc.unary_unary_rpc_method_handler(refuse)
        if handler_call_details.method == "/test.Echo/New":

            async def answer(requests, context):
                return b"new " + b"".join([request async for request in requests])

            return grpc.stream_unary_rpc_method_handler(answer)
        return await continuation(handler_call_details)


async def test_servers(serving):
    async with (
        serving(HANDLERS, interceptors=[Refuse()]) as address,
        ariane_wire.insecure_channel(address) as channel,
    ):
        with pytest.raises(grpc.RpcError) as caught:
            await channel.unary_unary("/test.Echo/Echo")(b"hi")
        new = await channel.unary_unary("/test.Echo/New")(b"hi")
        many = [each async for each in channel.unary_stream("/test.Echo/Three")(b"q")]
        with pytest.raises(grpc.RpcError) as unknown:
            await channel.unary_unary("/test.Echo/None")(b"hi")
    assert (caught.value.code(), caught.value.details()) == (
        *(StatusCode.PERMISSION_DENIED, "not you"),
    )
    assert new == b"new hi"
    assert many == [b"q0", b"q1", b"q2"]
    assert unknown.value.code() is StatusCode.UNIMPLEMENTED


async def test_handlers_are_put_around_once_for_each_method():
    """Unlike an interceptor, what is around a method costs its calls nothing."""
    asked = []

    def around(method, handler):
        asked.append(method)
        if handler is None:
            return grpc.unary_unary_rpc_method_handler(lambda request, context: b"nobody has it")
        return grpc.unary_unary_rpc_method_handler(
            lambda request, context: b"around " + handler.unary_unary(request, context)
        )

    server = ariane_wire.server(around=around)
    plain = grpc.unary_unary_rpc_method_handler(lambda request, context: request)
    server.add_registered_method_handlers("test.Echo", {"Echo": plain})
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with ariane_wire.insecure_channel(f"127.0.0.1:{port}") as channel:
        echoes = [await channel.unary_unary("/test.Echo/Echo")(b"hi") for _ in range(3)]
        unknown = await channel.unary_unary("/test.Echo/None")(b"hi")
    await server.stop(None)
    assert echoes == [b"around hi"] * 3
    assert unknown == b"nobody has it"
    assert asked == ["/test.Echo/Echo", "/test.Echo/None"]


async def test_a_handler_that_answers_at_once_has_a_context_of_its_own(serving):
    """What it sets, no other call sees, although no task was made for it."""
    variable = ContextVar("variable", default=0)

    def count(request, context):
        variable.set(variable.get() + 1)
        return b"%d" % variable.get()

    async with (
        serving({"Count": ("unary_unary", count)}) as address,
        ariane_wire.insecure_channel(address) as channel,
    ):
        call = channel.unary_unary("/test.Echo/Count")
        assert [await call(b"") for _ in range(3)] == [b"1"] * 3


def test_what_is_no_interceptor():
    with pytest.raises(ValueError, match="no kind of call"):
        ariane_wire.insecure_channel("localhost:1", interceptors=[object()])
    with pytest.raises(ValueError, match="no ServerInterceptor"):
        ariane_wire.server(interceptors=[object()])
