"""Messages, codes and metadata that cannot be sent: their call fails, and no other."""

from __future__ import annotations

import asyncio
import math

import grpc
import pytest

import ariane_wire

METHOD = "/test.Echo/"


async def echo(request, context):
    return request


async def text(request, context):
    return "text"


async def texts(request, context):
    yield b"octets"
    yield "text"


async def number(request, context):
    context.set_code(5)
    context.set_details("five")
    return request


async def aborting(request, context):
    await context.abort(5, "five")


async def no_code(request, context):
    context.set_code("NOT_FOUND")
    return request


async def long_trailers(request, context):
    context.set_trailing_metadata((("k", "v" * 100_000),))
    return request


async def bad_head(request, context):
    await context.send_initial_metadata((("Bad Key", "v"),))
    return request


async def long_head(request, context):
    await context.send_initial_metadata((("k", "v" * 100_000),))
    return request


async def hang(request, context):
    await asyncio.Event().wait()


UNARY = (echo, text, number, aborting, no_code, long_trailers, long_head, bad_head, hang)
HANDLERS = {each.__name__: ("unary_unary", each) for each in UNARY} | {
    "texts": ("unary_stream", texts)
}


async def failed(call):
    async with asyncio.timeout(20):
        with pytest.raises(ariane_wire.CallFailed) as caught:
            await call
    return caught.value


@pytest.fixture
async def channel(talking):
    """A channel, on which another call goes on."""
    async with talking(HANDLERS) as opened:
        other = opened.unary_unary(METHOD + "hang")(b"")
        assert await opened.unary_unary(METHOD + "echo")(b"before") == b"before"
        yield opened
        assert await opened.unary_unary(METHOD + "echo")(b"after") == b"after"
        assert not other.done()
        assert opened.statistics().connections_begun == 1
        other.cancel()


@pytest.mark.parametrize("request_", ["text", None, 7])
async def test_a_request_that_is_no_octets_is_refused_where_it_is_made(channel, request_):
    with pytest.raises(TypeError):
        channel.unary_unary(METHOD + "echo")(request_)
    with pytest.raises(TypeError):
        channel.unary_stream(METHOD + "texts")(request_)
    call = channel.stream_unary(METHOD + "echo")()
    with pytest.raises(TypeError):
        await call.write(request_)
    call.cancel()


async def test_a_response_that_is_no_octets_fails_its_call(channel):
    failure = await failed(channel.unary_unary(METHOD + "text")(b""))
    assert failure.code() is grpc.StatusCode.UNKNOWN
    call = channel.unary_stream(METHOD + "texts")(b"")
    assert await call.read() == b"octets"
    assert (await failed(call.read())).code() is grpc.StatusCode.UNKNOWN


@pytest.mark.parametrize("method", ["number", "aborting"])
async def test_a_code_may_be_a_number(channel, method):
    failure = await failed(channel.unary_unary(METHOD + method)(b""))
    assert (failure.code(), failure.details()) == (grpc.StatusCode.NOT_FOUND, "five")


async def test_a_code_that_is_none_fails_its_call(channel):
    failure = await failed(channel.unary_unary(METHOD + "no_code")(b""))
    assert failure.code() is grpc.StatusCode.UNKNOWN


@pytest.mark.parametrize("method", ["long_trailers", "long_head"])
async def test_metadata_beyond_what_the_client_takes_fail_their_call(channel, method):
    failure = await failed(channel.unary_unary(METHOD + method)(b""))
    assert failure.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_metadata_that_cannot_be_sent_fail_their_call(channel):
    failure = await failed(channel.unary_unary(METHOD + "bad_head")(b""))
    assert failure.code() is grpc.StatusCode.UNKNOWN
    assert "Bad Key" in failure.details()


async def test_an_endless_timeout_is_none(channel):
    assert await channel.unary_unary(METHOD + "echo")(b"x", timeout=math.inf) == b"x"
