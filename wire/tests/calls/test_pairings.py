"""The same calls between our ends and grpcio's, in all four pairings: the same is seen."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from grpc import StatusCode, aio

import ariane_wire

RUNTIMES = {"wire": ariane_wire, "grpcio": aio}

PAIRINGS = [(client, server) for client in RUNTIMES for server in RUNTIMES]
BINARY = bytes(range(256))


async def echo(request, context):
    return request


async def three(request, context):
    for number in range(3):
        yield request + b"%d" % number


async def joined(requests, context):
    return b"".join([request async for request in requests])


async def each(requests, context):
    async for request in requests:
        yield request


async def each_read(requests, context):
    while (request := await context.read()) is not aio.EOF:
        await context.write(request)


async def slow(request, context):
    await asyncio.sleep(30)
    return request


async def metadata(request, context):
    seen = [pair for pair in context.invocation_metadata() if pair[0].startswith("x-")]
    await context.send_initial_metadata((("x-initial", "first"), ("x-initial-bin", BINARY)))
    context.set_trailing_metadata((*seen, ("x-trailing-bin", b"\0")))
    return request


async def not_found(request, context):
    await context.abort(StatusCode.NOT_FOUND, "weiß nicht: 100 %\n", (("x-why", "gone"),))


async def set_status(request, context):
    context.set_code(StatusCode.DATA_LOSS)
    context.set_details("lost")
    return request


async def broken(request, context):
    raise ValueError("broken")


async def stream_then_abort(request, context):
    yield b"one"
    await context.abort(StatusCode.ABORTED, "enough")


HANDLERS = {
    "Echo": ("unary_unary", echo),
    "Three": ("unary_stream", three),
    "Joined": ("stream_unary", joined),
    "Each": ("stream_stream", each),
    "EachRead": ("stream_stream", each_read),
    "Slow": ("unary_unary", slow),
    "Metadata": ("unary_unary", metadata),
    "NotFound": ("unary_unary", not_found),
    "SetStatus": ("unary_unary", set_status),
    "Broken": ("unary_unary", broken),
    "StreamThenAbort": ("unary_stream", stream_then_abort),
}


async def outcome(call):
    """What a caller sees of a unary call."""
    try:
        response = await call
    except grpc.RpcError as error:
        return (
            error.code(),
            error.details(),
            sorted(error.trailing_metadata()),
        )
    return response, sorted(await call.initial_metadata()), sorted(await call.trailing_metadata())


def plain(pairs):
    return [pair for pair in pairs if pair[0].startswith("x-")]


async def numbers(count):
    for number in range(count):
        yield b"%d" % number


@pytest.fixture(params=PAIRINGS, ids="-".join)
def play(request, serving):
    """Plays a scenario on a channel of one runtime to a server of another."""
    client, server = (RUNTIMES[name] for name in request.param)

    async def on_a_channel(scenario):
        async with (
            serving(HANDLERS, server) as address,
            client.insecure_channel(address) as channel,
        ):
            return await asyncio.wait_for(scenario(channel), 30)

    return on_a_channel


def method(channel, kind, name):
    return getattr(channel, kind)(f"/test.Echo/{name}")


async def test_unary(play):
    async def scenario(channel):
        call = method(channel, "unary_unary", "Echo")
        return [await call(b"x" * size, timeout=20) for size in (0, 1, 1100, 16_384, 3_000_000)]

    assert [len(each) for each in await play(scenario)] == [*(0, 1, 1100, 16_384, 3_000_000)]


async def test_many_at_a_time(play):
    async def scenario(channel):
        call = method(channel, "unary_unary", "Echo")
        return await asyncio.gather(*(call(b"%d" % number) for number in range(200)))

    assert await play(scenario) == [b"%d" % number for number in range(200)]


async def test_streams_of_responses(play):
    async def scenario(channel):
        call = method(channel, "unary_stream", "Three")(b"a")
        return [response async for response in call], await call.code()

    assert await play(scenario) == ([b"a0", b"a1", b"a2"], StatusCode.OK)


async def test_streams_of_requests(play):
    async def scenario(channel):
        joined_ = method(channel, "stream_unary", "Joined")
        written = joined_()
        await written.write(b"x")
        await written.write(b"y")
        await written.done_writing()
        return await joined_(numbers(5)), await joined_(iter([b"a", b"b"])), await written

    assert await play(scenario) == (b"01234", b"ab", b"xy")


@pytest.mark.parametrize("name", ["Each", "EachRead"])
async def test_streams_both_ways(play, name):
    async def scenario(channel):
        both = method(channel, "stream_stream", name)
        seen = [response async for response in both(numbers(100))]
        call = both()
        answers = []
        for size in (0, 5, 70_000, 1_000_000):
            await call.write(b"z" * size)
            answers.append(len(await call.read()))
        await call.done_writing()
        return seen, answers, await call.read(), await call.code()

    seen, answers, end, code = await play(scenario)
    assert seen == [b"%d" % number for number in range(100)]
    assert (answers, end, code) == ([0, 5, 70_000, 1_000_000], aio.EOF, StatusCode.OK)


async def test_deadlines(play):
    async def scenario(channel):
        return await outcome(method(channel, "unary_unary", "Slow")(b"", timeout=0.05))

    assert await play(scenario) == (*(StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", []),)


async def test_metadata(play):
    sent = (
        ("x-text", "value with spaces, and more"),
        ("x-twice-bin", BINARY),
        ("x-twice-bin", b""),
    )

    async def scenario(channel):
        return await outcome(method(channel, "unary_unary", "Metadata")(b"m", metadata=sent))

    response, initial, trailing = await play(scenario)
    assert response == b"m"
    assert plain(initial) == [("x-initial", "first"), ("x-initial-bin", BINARY)]
    assert plain(trailing) == sorted((*sent, ("x-trailing-bin", b"\0")))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NotFound", (StatusCode.NOT_FOUND, "weiß nicht: 100 %\n", [("x-why", "gone")])),
        ("SetStatus", (StatusCode.DATA_LOSS, "lost", [])),
        ("Broken", (StatusCode.UNKNOWN, "Unexpected <class 'ValueError'>: broken", [])),
        ("Missing", (StatusCode.UNIMPLEMENTED, "Method not found!", [])),
    ],
)
async def test_statuses(play, name, expected):
    async def scenario(channel):
        return await outcome(method(channel, "unary_unary", name)(b""))

    assert await play(scenario) == expected


async def test_an_abort_within_a_stream(play):
    async def scenario(channel):
        call = method(channel, "unary_stream", "StreamThenAbort")(b"")
        first = await call.read()
        with pytest.raises(grpc.RpcError) as caught:
            await call.read()
        return first, caught.value.code(), caught.value.details()

    assert await play(scenario) == (b"one", StatusCode.ABORTED, "enough")


async def test_messages_beyond_the_limit(play):
    async def scenario(channel):
        return await outcome(method(channel, "unary_unary", "Echo")(b"x" * 5_000_000))

    code, details, _ = await play(scenario)
    assert code is StatusCode.RESOURCE_EXHAUSTED
    assert details == "SERVER: Received message larger than max (5000000 vs. 4194304)"


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
async def test_compression(play, compression):
    async def scenario(channel):
        unary = method(channel, "unary_unary", "Echo")
        streams = method(channel, "stream_stream", "Each")
        body = b"again and again " * 10_000
        one = await unary(body, compression=compression)
        many = [each async for each in streams(iter([body, b"x"]), compression=compression)]
        return one == body, many == [body, b"x"]

    assert await play(scenario) == (True, True)


async def test_cancelling_a_call(play):
    async def scenario(channel):
        call = method(channel, "unary_unary", "Slow")(b"")
        await asyncio.sleep(0)
        assert call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return call.cancelled(), call.done(), await call.code(), call.cancel()

    assert await play(scenario) == (True, True, StatusCode.CANCELLED, False)
