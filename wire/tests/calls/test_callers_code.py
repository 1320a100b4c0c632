"""Code of the caller that fails, or meets itself: it harms no other call."""

from __future__ import annotations

import asyncio
import logging

import grpc
import pytest

import ariane_wire

METHOD = "/test.Echo/"


async def echo(request, context):
    return request


async def hang(request, context):
    await asyncio.Event().wait()


async def swallow(requests, context):
    await asyncio.Event().wait()


HANDLERS = {
    "Echo": ("unary_unary", echo),
    "Hang": ("unary_unary", hang),
    "Swallow": ("stream_unary", swallow),
}


def fail(_call):
    raise RuntimeError("of the caller")


async def failed(call):
    with pytest.raises(ariane_wire.CallFailed) as caught:
        await call
    return caught.value


@pytest.fixture
def unheard(caplog):
    """What the caller's code has raised, as it was logged."""
    return lambda: [str(each.exc_info[1]) for each in caplog.records if each.exc_info]


async def test_a_callback_that_raises_harms_no_other_call(talking, unheard):
    async with talking(HANDLERS) as channel:
        other = channel.unary_unary(METHOD + "Hang")(b"")
        call = channel.unary_unary(METHOD + "Echo")(b"x")
        call.add_done_callback(fail)
        assert await call == b"x"
        assert not other.done()
        assert await channel.unary_unary(METHOD + "Echo")(b"y") == b"y"
        assert not other.done()
        other.cancel()
    assert unheard() == ["of the caller"]


async def test_a_callback_that_raises_at_a_deadline_does_not_end_deadlines(unheard):
    async with ariane_wire.insecure_channel("127.0.0.1:1") as channel:
        begin = channel.unary_unary(METHOD + "Hang")
        calls = [begin(b"", timeout=0.05, wait_for_ready=True) for _ in range(3)]
        calls.append(begin(b"", timeout=0.1, wait_for_ready=True))
        calls[0].add_done_callback(fail)
        async with asyncio.timeout(10):
            for call in calls:
                assert (await failed(call)).code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert unheard() == ["of the caller"]


async def test_a_callback_of_a_handler_that_raises_harms_no_other_call(talking, unheard):
    async def careless(request, context):
        context.add_done_callback(fail)
        return request

    async with talking({**HANDLERS, "Careless": ("unary_unary", careless)}) as channel:
        other = channel.unary_unary(METHOD + "Hang")(b"")
        assert await channel.unary_unary(METHOD + "Careless")(b"x") == b"x"
        assert await channel.unary_unary(METHOD + "Echo")(b"y") == b"y"
        assert not other.done()
        other.cancel()
    assert unheard() == ["of the caller"]


class Careless(grpc.GenericRpcHandler):
    """A table that fails."""

    def service(self, handler_call_details):
        raise RuntimeError("of the table")


async def test_a_table_of_methods_that_raises_fails_its_call_only(unheard):
    good = {"Echo": grpc.unary_unary_rpc_method_handler(echo)}
    server = ariane_wire.server(
        handlers=[grpc.method_handlers_generic_handler("test.Echo", good), Careless()]
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with ariane_wire.insecure_channel(f"127.0.0.1:{port}") as channel:
        failing = channel.unary_unary("/other.Service/Method")(b"")
        assert await channel.unary_unary(METHOD + "Echo")(b"y") == b"y"
        assert (await failed(failing)).code() is grpc.StatusCode.UNKNOWN
        assert server.statistics().connections_begun == 1
    await server.stop(None)
    assert unheard() == ["of the table"]


async def test_two_writers_of_a_stream_are_both_told_when_it_is_over(talking):
    async with talking(HANDLERS) as channel:
        call = channel.stream_unary(METHOD + "Swallow")()
        writers = [asyncio.create_task(call.write(bytes(3 << 20))) for _ in range(2)]
        await asyncio.sleep(0.05)
        call.cancel()
        async with asyncio.timeout(10):
            results = await asyncio.gather(*writers, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in results)


async def test_who_asks_for_the_status_is_not_cancelled_with_who_awaits(talking):
    async with talking(HANDLERS) as channel:
        call = channel.unary_unary(METHOD + "Hang")(b"")

        async def wait():
            await call

        waiting = asyncio.create_task(wait())
        asking = asyncio.create_task(call.code())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        waiting.cancel()
        assert await asking is grpc.StatusCode.CANCELLED


async def test_calls_begun_while_a_channel_closes_are_refused(talking):
    async with talking(HANDLERS) as channel:
        call = channel.unary_unary(METHOD + "Hang")(b"")
        await channel.channel_ready()
        closing = asyncio.create_task(channel.close(grace=5))
        await asyncio.sleep(0)
        with pytest.raises(grpc.aio.UsageError):
            channel.unary_unary(METHOD + "Echo")(b"")
        call.cancel()
        await closing


async def test_calls_that_wait_for_a_place_have_it_while_a_channel_closes(talking):
    release = asyncio.Event()

    async def wait(request, context):
        await release.wait()
        return request

    options = ariane_wire.ServerOptions(streams_max=1)
    async with talking({"Wait": ("unary_unary", wait)}, options=options) as channel:
        await channel.channel_ready()
        calls = [channel.unary_unary(METHOD + "Wait")(bytes([number])) for number in range(3)]
        closing = asyncio.create_task(channel.close(grace=5))
        await asyncio.sleep(0.01)
        release.set()
        assert await asyncio.gather(*calls) == [b"\0", b"\1", b"\2"]
        await closing


async def test_a_name_that_cannot_be_looked_up_fails_its_calls(caplog):
    async with ariane_wire.insecure_channel("a" * 70 + ".example:80") as channel:
        failure = await failed(channel.unary_unary(METHOD + "Echo")(b"", timeout=5))
        assert failure.code() is grpc.StatusCode.UNAVAILABLE
        assert failure.never_processed
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


async def test_a_call_on_a_closed_channel_leaves_no_timer(monkeypatch):
    channel = ariane_wire.insecure_channel("127.0.0.1:1")
    await channel.close()
    loop = asyncio.get_running_loop()
    armed = []
    monkeypatch.setattr(loop, "call_at", lambda *said, **_: armed.append(said))
    with pytest.raises(grpc.aio.UsageError):
        channel.unary_unary(METHOD + "Echo")(b"", timeout=60)
    monkeypatch.undo()
    assert not armed
