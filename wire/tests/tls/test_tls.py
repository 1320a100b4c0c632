"""TLS: who is at the other end, and both kinds of connections on one port."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from pathlib import Path

import grpc
import pytest
from grpc import StatusCode

import ariane_wire

HERE = Path(__file__).parent
WHO = "/test.Echo/Who"


def server_side(*, asks=False):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(HERE / "server.pem", HERE / "server.key")
    if asks:
        context.load_verify_locations(HERE / "authority.pem")
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def client_side(*, tells=False):
    context = ssl.create_default_context(cafile=str(HERE / "authority.pem"))
    if tells:
        context.load_cert_chain(HERE / "client.pem", HERE / "client.key")
    return context


async def who(request, context):
    names = context.peer_identities()
    security = context.auth_context().get("transport_security_type", (b"none",))
    assert context.peer().startswith("ipv4:127.0.0.1:")
    return b" ".join([*security, *(names or [b"nobody"])])


async def started(add):
    server = ariane_wire.server()
    table = {"Who": grpc.unary_unary_rpc_method_handler(who)}
    server.add_registered_method_handlers("test.Echo", table)
    port = add(server)
    await server.start()
    return server, f"localhost:{port}"


async def asked(channel):
    async with channel:
        return await channel.unary_unary(WHO)(b"", timeout=20)


def test_both_loops(run):
    async def scenario():
        server, address = await started(
            lambda it: it.add_mixed_port("127.0.0.1:0", server_side(asks=True))
        )
        try:
            return [
                await asked(ariane_wire.insecure_channel(address)),
                await asked(ariane_wire.secure_channel(address, client_side())),
                await asked(ariane_wire.secure_channel(address, client_side(tells=True))),
            ]
        finally:
            await server.stop(None)

    assert run(scenario()) == [b"none nobody", b"ssl nobody", b"ssl robot.test"]


async def test_a_port_for_tls_alone():
    server, address = await started(lambda it: it.add_secure_port("127.0.0.1:0", server_side()))
    assert await asked(ariane_wire.secure_channel(address, client_side())) == b"ssl nobody"
    with pytest.raises(ariane_wire.CallFailed) as caught:
        await asked(ariane_wire.insecure_channel(address))
    assert caught.value.code() is StatusCode.UNAVAILABLE
    await server.stop(None)


async def test_grpcio_is_a_client_as_any():
    server, address = await started(lambda it: it.add_mixed_port("127.0.0.1:0", server_side()))
    credentials = grpc.ssl_channel_credentials((HERE / "authority.pem").read_bytes())
    assert await asked(grpc.aio.secure_channel(address, credentials)) == b"ssl nobody"
    await server.stop(None)


async def test_grpcio_is_a_server_as_any():
    server = grpc.aio.server()
    table = {"Who": grpc.unary_unary_rpc_method_handler(who)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Echo", table),))
    pair = ((HERE / "server.key").read_bytes(), (HERE / "server.pem").read_bytes())
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair]))
    await server.start()
    channel = ariane_wire.secure_channel(f"localhost:{port}", client_side())
    assert await asked(channel) == b"ssl nobody"
    await server.stop(None)


async def test_a_server_that_is_not_trusted():
    server, address = await started(lambda it: it.add_secure_port("127.0.0.1:0", server_side()))
    with pytest.raises(ariane_wire.CallFailed) as caught:
        await asked(ariane_wire.secure_channel(address, ssl.create_default_context()))
    assert caught.value.code() is StatusCode.UNAVAILABLE
    assert caught.value.never_processed
    assert "certificate" in caught.value.details()
    await server.stop(None)


async def test_a_client_that_says_nothing_is_let_go():
    server = ariane_wire.server(options=ariane_wire.ServerOptions(handshake_s=0.05))
    port = server.add_mixed_port("127.0.0.1:0", server_side())
    await server.start()
    silent, writer = await asyncio.open_connection("127.0.0.1", port)
    assert await asyncio.wait_for(silent.read(), 20) == b""
    writer.close()
    await server.stop(None)


async def test_garbage_is_let_go():
    server, address = await started(lambda it: it.add_mixed_port("127.0.0.1:0", server_side()))
    port = int(address.rpartition(":")[2])
    for octets in (b"\x16garbage" * 100, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\0" * 100):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(octets)
        writer.write_eof()
        with suppress(ConnectionResetError):  # What it has said is not even read.
            await asyncio.wait_for(reader.read(), 20)
        writer.close()
    assert await asked(ariane_wire.insecure_channel(address)) == b"none nobody"
    await server.stop(None)


def test_credentials_of_grpcio_are_refused():
    with pytest.raises(TypeError, match="SSLContext"):
        ariane_wire.secure_channel("localhost:1", grpc.ssl_channel_credentials())
    with socket.socket(), pytest.raises(TypeError, match="SSLContext"):
        ariane_wire.server().add_secure_port("127.0.0.1:0", object())
