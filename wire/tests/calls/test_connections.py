"""Connections that come, go, are drained, are silent, or never were."""

from __future__ import annotations

import asyncio
import socket

import grpc
import pytest
from grpc import ChannelConnectivity, StatusCode, aio

import ariane_wire
from ariane_wire import CallFailed, ChannelOptions, ServerOptions

ECHO = "/test.Echo/Echo"
HELD = "/test.Echo/Held"
QUICK = ChannelOptions(backoff_first_s=0.02, backoff_max_s=0.05)


class Handlers:
    """An echo, and calls that are held until they are let go."""

    def __init__(self):
        self.go = asyncio.Event()
        self.held = 0
        self.cancelled = 0
        self.peers = []
        self.done = []

    async def echo(self, request, context):
        self.peers.append(context.peer())
        context.add_done_callback(lambda _: self.done.append(request))
        return request

    async def hold(self, request, context):
        self.held += 1
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return request

    def table(self):
        return {"Echo": ("unary_unary", self.echo), "Held": ("unary_unary", self.hold)}


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - of others, who do not tell.
            await asyncio.sleep(0.002)


async def failure(call):
    with pytest.raises(CallFailed) as caught:
        await call
    return caught.value


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_both_loops(run, serving):
    async def scenario():
        async with (
            serving(Handlers().table()) as address,
            ariane_wire.insecure_channel(address) as channel,
        ):
            return await asyncio.gather(
                *(channel.unary_unary(ECHO)(b"x" * size) for size in (0, 100, 300_000, 2_000_000))
            )

    assert [len(each) for each in run(scenario())] == [0, 100, 300_000, 2_000_000]


async def test_nobody_listens():
    address = f"127.0.0.1:{free_port()}"
    async with ariane_wire.insecure_channel(address, QUICK) as channel:
        assert channel.get_state() is ChannelConnectivity.IDLE
        error = await failure(channel.unary_unary(ECHO)(b"", timeout=5))
        assert error.code() is StatusCode.UNAVAILABLE
        assert error.never_processed
        assert address in error.details()
        again = await failure(channel.unary_unary(ECHO)(b""))
        assert again.never_processed


async def test_a_call_that_waits_for_its_server(serving):
    port = free_port()
    async with ariane_wire.insecure_channel(f"127.0.0.1:{port}", QUICK) as channel:
        call = channel.unary_unary(ECHO)(b"late", wait_for_ready=True, timeout=20)
        await until(lambda: channel.get_state() is ChannelConnectivity.TRANSIENT_FAILURE)
        assert not call.done()
        async with serving(Handlers().table(), address=f"127.0.0.1:{port}"):
            assert await call == b"late"


async def test_a_deadline_while_waiting_was_never_processed():
    async with ariane_wire.insecure_channel(f"127.0.0.1:{free_port()}", QUICK) as channel:
        error = await failure(channel.unary_unary(ECHO)(b"", wait_for_ready=True, timeout=0.05))
        assert (error.code(), error.never_processed) == (StatusCode.DEADLINE_EXCEEDED, True)
        error = await failure(channel.unary_unary(ECHO)(b"", timeout=0))
        assert (error.code(), error.never_processed) == (StatusCode.DEADLINE_EXCEEDED, True)


async def test_a_server_that_comes_back(serving):
    port = free_port()
    address = f"127.0.0.1:{port}"
    async with ariane_wire.insecure_channel(address, QUICK) as channel:
        echo = channel.unary_unary(ECHO)
        for _ in range(3):
            async with serving(Handlers().table(), address=address):
                assert await echo(b"hi", wait_for_ready=True, timeout=20) == b"hi"
        assert (await failure(echo(b"hi"))).never_processed


async def test_a_connection_that_breaks_leaves_the_outcome_unknown():
    """The server has the request, and is gone."""

    async def serve(reader, writer):
        writer.write(b"\0\0\0\4\0\0\0\0\0")
        await reader.readuntil(b"the request")
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, ariane_wire.insecure_channel(address) as channel:
        error = await failure(channel.unary_unary(ECHO)(b"the request"))
    assert (error.code(), error.never_processed) == (StatusCode.UNAVAILABLE, False)


async def test_a_port_of_http_1_is_told_as_that():
    """The console's port, most often, in place of the one beside it."""

    async def serve(reader, writer):
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, ariane_wire.insecure_channel(address) as channel:
        error = await failure(channel.unary_unary(ECHO)(b"the request"))
    assert error.code() is StatusCode.UNAVAILABLE
    assert "answers in HTTP/1" in error.details()


async def test_draining_lets_calls_end_and_loses_none(serving):
    handlers = Handlers()
    server = ariane_wire.server()
    server.add_registered_method_handlers("test.Echo", _table(handlers))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with ariane_wire.insecure_channel(f"127.0.0.1:{port}") as channel:
        held = channel.unary_unary(HELD)(b"held")
        await until(lambda: handlers.held == 1)
        stopping = asyncio.ensure_future(server.stop(20))
        await until(lambda: channel.get_state() is not ChannelConnectivity.READY)
        late = await failure(channel.unary_unary(ECHO)(b"late", timeout=5))
        assert late.never_processed
        assert not stopping.done()
        handlers.go.set()
        assert await held == b"held"
        await stopping
    assert handlers.cancelled == 0


async def test_stopping_at_once_cancels(serving):
    handlers = Handlers()
    server = ariane_wire.server()
    server.add_registered_method_handlers("test.Echo", _table(handlers))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with ariane_wire.insecure_channel(f"127.0.0.1:{port}") as channel:
        held = channel.unary_unary(HELD)(b"held")
        await until(lambda: handlers.held == 1)
        await server.stop(0.02)
        error = await failure(held)
    assert error.code() is StatusCode.UNAVAILABLE
    assert not error.never_processed
    assert handlers.cancelled == 1
    assert await server.wait_for_termination(1) is False


def _table(handlers):
    return {
        name: getattr(grpc, f"{kind}_rpc_method_handler")(function)
        for name, (kind, function) in handlers.table().items()
    }


async def test_a_client_that_goes_away_cancels_its_calls(serving):
    handlers = Handlers()
    async with serving(handlers.table()) as address:
        channel = ariane_wire.insecure_channel(address)
        call = channel.unary_unary(HELD)(b"")
        await until(lambda: handlers.held == 1)
        call.cancel()
        await until(lambda: handlers.cancelled == 1)
        second = channel.unary_unary(HELD)(b"")
        await until(lambda: handlers.held == 2)
        await channel.close()
        await until(lambda: handlers.cancelled == 2)
        assert second.cancelled()


@pytest.mark.parametrize("client", [ariane_wire, aio], ids=["wire", "grpcio"])
async def test_age(serving, client):
    """A connection that has reached its age is drained, and no call is lost by it."""
    options = ServerOptions(age_max_s=0.1)
    handlers = Handlers()
    async with (
        serving(handlers.table(), options=options) as address,
        client.insecure_channel(address) as channel,
    ):
        end = asyncio.get_running_loop().time() + 1
        count = 0
        while asyncio.get_running_loop().time() < end:
            assert await channel.unary_unary(ECHO)(b"x", timeout=10) == b"x"
            count += 1
        assert len(set(handlers.peers)) > 2
        assert count == len(handlers.peers)


async def test_idleness(serving):
    async with (
        serving(Handlers().table(), options=ServerOptions(idle_max_s=0.05)) as address,
        ariane_wire.insecure_channel(address) as channel,
    ):
        await channel.unary_unary(ECHO)(b"")
        await until(lambda: channel.get_state() is ChannelConnectivity.IDLE)
        assert await channel.unary_unary(ECHO)(b"again") == b"again"


async def test_too_many_pings(serving):
    options = ChannelOptions(keepalive_time_s=0.02, keepalive_timeout_s=5)
    handlers = Handlers()
    async with (
        serving(handlers.table()) as address,
        ariane_wire.insecure_channel(address, options) as channel,
    ):
        error = await failure(channel.unary_unary(HELD)(b"", timeout=20))
    assert error.code() is StatusCode.UNAVAILABLE
    assert "too_many_pings" in error.details()


async def test_a_peer_that_has_fallen_silent():
    async def serve(reader, writer):
        writer.write(b"\0\0\0\4\0\0\0\0\0")
        while await reader.read(65536):
            pass
        writer.close()
        ended.set()

    ended = asyncio.Event()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    options = ChannelOptions(keepalive_time_s=0.05, keepalive_timeout_s=0.05)
    async with ariane_wire.insecure_channel(address, options) as channel:
        error = await failure(channel.unary_unary(ECHO)(b"", timeout=20))
    await ended.wait()
    server.close()
    assert (error.code(), error.details()) == (
        *(StatusCode.UNAVAILABLE, "keepalive watchdog timeout"),
    )


async def test_more_calls_than_the_server_takes_at_a_time(serving):
    handlers = Handlers()
    async with (
        serving(handlers.table(), options=ServerOptions(streams_max=3)) as address,
        ariane_wire.insecure_channel(address) as channel,
    ):
        calls = [channel.unary_unary(HELD)(b"%d" % number) for number in range(10)]
        await until(lambda: handlers.held == 3)
        waiting = channel.unary_unary(HELD)(b"", timeout=0.05)
        assert (await failure(waiting)).never_processed
        handlers.go.set()
        assert await asyncio.gather(*calls) == [b"%d" % number for number in range(10)]


async def test_more_calls_than_the_server_has_room_for(serving):
    handlers = Handlers()
    async with (
        serving(handlers.table(), maximum_concurrent_rpcs=2) as address,
        ariane_wire.insecure_channel(address) as channel,
    ):
        calls = [channel.unary_unary(HELD)(b"") for _ in range(2)]
        await until(lambda: handlers.held == 2)
        error = await failure(channel.unary_unary(HELD)(b""))
        assert error.code() is StatusCode.RESOURCE_EXHAUSTED
        handlers.go.set()
        await asyncio.gather(*calls)


async def test_peers_differ_by_connection(serving, tmp_path):
    handlers = Handlers()
    address = f"unix:{tmp_path / 'socket'}"
    for where in ("127.0.0.1:0", address):
        async with serving(handlers.table(), address=where) as address_:
            for _ in range(2):
                async with ariane_wire.insecure_channel(address_) as channel:
                    await channel.unary_unary(ECHO)(b"")
    assert len(set(handlers.peers)) == 4
    assert [peer.split(":")[0] for peer in handlers.peers] == ["ipv4", "ipv4", "unix", "unix"]


async def test_ipv6_peers_have_the_form_of_grpcio():
    peers = []

    async def peer(request, context):
        peers.append(context.peer().rpartition(":")[0])
        return b""

    for runtime in (aio, ariane_wire):
        server = runtime.server()
        handler = {"Echo": grpc.unary_unary_rpc_method_handler(peer)}
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("test.Echo", handler),)
        )
        port = server.add_insecure_port("[::1]:0")
        await server.start()
        async with ariane_wire.insecure_channel(f"[::1]:{port}") as channel:
            await channel.unary_unary(ECHO)(b"")
        await server.stop(None)
    assert peers[0] == peers[1] == "ipv6:%5B::1%5D"


def test_a_port_that_is_taken():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ariane_wire.BindRefused, match="Address already in use"):
            ariane_wire.server().add_insecure_port(f"127.0.0.1:{port}")
    with pytest.raises(RuntimeError, match=r"cannot listen on 203\.0\.113\.1:80"):
        ariane_wire.server().add_insecure_port("203.0.113.1:80")


async def test_done_callbacks_come_once_the_answer_has_left(serving):
    handlers = Handlers()
    async with (
        serving(handlers.table()) as address,
        ariane_wire.insecure_channel(address) as channel,
    ):
        await channel.unary_unary(ECHO)(b"x")
        await until(lambda: handlers.done == [b"x"])


async def test_a_closed_channel_takes_no_calls(serving):
    async with serving(Handlers().table()) as address:
        channel = ariane_wire.insecure_channel(address)
        await channel.channel_ready()
        await channel.close()
        assert channel.get_state() is ChannelConnectivity.SHUTDOWN
        with pytest.raises(aio.UsageError):
            channel.unary_unary(ECHO)(b"")


async def test_closing_with_grace(serving):
    handlers = Handlers()
    async with serving(handlers.table()) as address:
        channel = ariane_wire.insecure_channel(address)
        call = channel.unary_unary(HELD)(b"x")
        await until(lambda: handlers.held == 1)
        closing = asyncio.ensure_future(channel.close(grace=20))
        await asyncio.sleep(0)
        handlers.go.set()
        assert await call == b"x"
        await closing


@pytest.mark.parametrize("how", ["cancelled", "closed again"])
async def test_closing_with_grace_is_cut_short(serving, how):
    handlers = Handlers()
    async with serving(handlers.table()) as address:
        channel = ariane_wire.insecure_channel(address)
        call = channel.unary_unary(HELD)(b"x")
        await until(lambda: handlers.held == 1)
        closing = asyncio.ensure_future(channel.close(grace=600))
        await asyncio.sleep(0)
        if how == "cancelled":
            closing.cancel()
        else:
            await channel.close()
        async with asyncio.timeout(60):
            await asyncio.wait([closing])
            with pytest.raises(asyncio.CancelledError):
                await call
        await until(lambda: not channel.statistics().connections)


@pytest.mark.parametrize("client", [ariane_wire, aio], ids=["wire", "grpcio"])
async def test_too_much_metadata_harms_its_call_only(serving, client):
    handlers = Handlers()
    async with (
        serving(handlers.table(), options=ServerOptions(metadata_octets_max=8192)) as address,
        client.insecure_channel(address) as channel,
    ):
        held = channel.unary_unary(HELD)(b"x")
        await until(lambda: handlers.held == 1)
        for count, size in ((64, 1000), (1000, 1), (9, 1000)):
            metadata = [(f"key-{number}", "v" * size) for number in range(count)]
            with pytest.raises(grpc.RpcError) as caught:
                await channel.unary_unary(ECHO)(b"", metadata=metadata)
            assert caught.value.code() is StatusCode.RESOURCE_EXHAUSTED
        handlers.go.set()
        assert await held == b"x"
    if client is ariane_wire:
        assert caught.value.never_processed
        assert (caught.value.size_octets, caught.value.limit_octets) == (9 * (5 + 1000 + 32), 8192)


async def test_a_call_with_a_block_that_is_too_long_to_be_read(serving):
    """A client that does not keep to what the server told it."""
    options = ServerOptions(metadata_octets_max=1024)
    async with (
        serving(Handlers().table(), options=options) as address,
        ariane_wire.insecure_channel(address) as channel,
    ):
        echo = channel.unary_unary(ECHO)
        await channel.channel_ready()
        channel._ready.peer.header_octets_max = 1 << 30
        for size in (2000, 60_000):
            error = await failure(echo(b"", metadata=[("k", "v" * size)]))
            assert error.code() is StatusCode.RESOURCE_EXHAUSTED
        assert await echo(b"next") == b"next"
        assert channel.statistics().connections_begun == 1
