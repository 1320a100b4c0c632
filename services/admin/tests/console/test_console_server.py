"""The console's server on its port: who sends nothing, or a part, keeps no connection."""

import asyncio
import socket
import ssl
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_network

import pytest
from starlette.responses import PlainTextResponse

from ariane_admin.console import server
from ariane_admin.console.server import PEER, ConsoleServer
from ariane_servicekit import Address
from ariane_testkit.certificates import ClusterCertificates
from ariane_wire import server_tls
from ariane_wire.protocol.proxy_header import SIGNATURE


async def app(scope, receive, send):
    peer = scope["state"][PEER]
    told = {"peer": f"{peer.peer} {scope['client'][0]}"}
    text = f"encrypted: {peer.is_encrypted}"
    await PlainTextResponse(text, headers=told)(scope, receive, send)


@pytest.fixture(params=["plain", "tls"])
def context(request, tmp_path):
    if request.param == "plain":
        return None
    member = ClusterCertificates(tmp_path).member("admin", "a1")
    return server_tls(member["tls_certificate"], member["tls_key"])


@asynccontextmanager
async def served(context, proxies=()):
    console = ConsoleServer(Address("127.0.0.1", 0), proxies)
    address = console.bind()
    await console.start(app, None if context is None else lambda: context)
    try:
        yield address
    finally:
        await console.stop()


@pytest.fixture
def connect(context):
    async def run(address):
        client = None
        if context is not None:
            client = ssl.create_default_context()
            client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
        return await asyncio.open_connection(address.host, address.port, ssl=client)

    return run


REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def test_a_request_is_answered_and_silence_and_parts_are_ended(context, connect, monkeypatch):
    monkeypatch.setattr(server, "REQUEST_S_MAX", 0.5)
    async with served(context) as address, asyncio.timeout(30):
        silent, part, again = [await connect(address) for _ in range(3)]
        part[1].write(REQUEST[:-2])
        again[1].write(REQUEST)
        head = await again[0].readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        assert b"\r\npeer: ipv4:127.0.0.1:" in head
        body = f"encrypted: {context is not None}"
        assert (await again[0].readexactly(len(body))).decode() == body
        # The next head of the same connection has to be there in time as well.
        again[1].write(REQUEST[:7])
        for reader, writer in (silent, part, again):
            assert await reader.read() == b""
            writer.close()
        if context is not None:
            reader, writer = await asyncio.open_connection(address.host, address.port)
            writer.write(REQUEST)
            # Plain text is dropped at its first octet, what came behind it with a reset.
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()


async def test_connections_are_bounded(context, connect, monkeypatch):
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 3)
    async with served(context) as address, asyncio.timeout(30):
        held = [await connect(address) for _ in range(3)]
        reader, writer = await connect(address)
        writer.write(REQUEST)
        assert (await reader.readline()).startswith(b"HTTP/1.1 503")
        for _, each in (*held, (reader, writer)):
            each.close()
        answer = b""
        while not answer.startswith(b"HTTP/1.1 200"):
            reader, writer = await connect(address)
            writer.write(REQUEST)
            answer = await reader.readline()
            writer.close()


async def test_one_host_does_not_have_all_connections(monkeypatch):
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 24)
    monkeypatch.setattr(server, "REQUEST_S_MAX", 1000)
    async with served(None) as address, asyncio.timeout(30):
        held = [await asyncio.open_connection(address.host, address.port) for _ in range(18)]
        reader, one_more = await asyncio.open_connection(address.host, address.port)
        with suppress(ConnectionError):
            assert await reader.read() == b""
        reader, elsewhere = await asyncio.open_connection(
            address.host, address.port, local_addr=("127.0.0.2", 0)
        )
        elsewhere.write(REQUEST)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        for writer in (*(each for _, each in held), one_more, elsewhere):
            writer.close()


async def test_a_browser_behind_a_proxy_is_known_by_its_own_address(context):
    body = bytes((10, 7, 0, 1, 10, 0, 0, 2, 0, 80, 1, 187))
    header = SIGNATURE + b"\x21\x11\x00\x0c" + body
    async with served(context, [ip_network("127.0.0.0/8")]) as address, asyncio.timeout(30):
        raw = socket.create_connection((address.host, address.port))
        raw.sendall(header)
        client = None
        if context is not None:
            client = ssl.create_default_context()
            client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
        reader, writer = await asyncio.open_connection(
            sock=raw, ssl=client, server_hostname=client and "console"
        )
        writer.write(REQUEST)
        answer = await reader.readuntil(f"encrypted: {context is not None}".encode())
        assert b"peer: ipv4:10.7.0.1:80 10.7.0.1\r\n" in answer
        writer.close()
        await writer.wait_closed()
        # Who says nothing before is dropped.
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(REQUEST)
        with suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
