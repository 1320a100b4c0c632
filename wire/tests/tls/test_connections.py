"""Over TLS: contexts that are replaced, certificates that end, peers that are checked."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import time
from asyncio.sslproto import SSLProtocol
from contextlib import asynccontextmanager, suppress

import grpc
import pytest
from authority import Authority
from grpc import StatusCode

import ariane_wire
from ariane_wire import CallFailed, client_tls, server_tls
from ariane_wire.blocking import secure_channel as blocking_channel
from ariane_wire.transport import certificates, fair_places, first_octets

HOSTS = ("localhost", "127.0.0.1")
WHO = "/test.Echo/Who"
HOLD = "/test.Echo/Hold"
URI = "ariane://cluster/broker/b-0"


async def who(_request, context):
    return b" ".join(context.auth_context().get("peer_uri", (b"nobody",)))


async def own_fingerprint(_request, context):
    return context.identity().own_fingerprint


async def note(request, context):
    notes = context.identity().notes
    told = notes.get("said", b"nothing")
    notes["said"] = request
    return told


async def refuse(_request, context):
    context.set_trailing_metadata((("why", "wrong"),))
    await context.abort(StatusCode.UNAUTHENTICATED, "no such key", (("why", "wrong"),))


class Served:
    """A server for TLS alone."""

    def __init__(self, credentials, address="127.0.0.1:0"):
        self.released = asyncio.Event()
        self.server = ariane_wire.server()
        behaviors = {
            "Who": who,
            "Own": own_fingerprint,
            "Note": note,
            "Refuse": refuse,
            "Hold": self.hold,
        }
        table = {
            name: grpc.unary_unary_rpc_method_handler(behavior)
            for name, behavior in behaviors.items()
        }
        self.server.add_registered_method_handlers("test.Echo", table)
        self.port = self.server.add_secure_port(address, credentials)
        self.address = f"localhost:{self.port}" if self.port else address

    async def hold(self, _request, _context):
        await self.released.wait()
        return b"held"


@asynccontextmanager
async def served(credentials, *address):
    it = Served(credentials, *address)
    await it.server.start()
    try:
        yield it
    finally:
        it.released.set()
        await it.server.stop(None)


def server_of(authority, name="server", *, asks=None, **settings):
    return server_tls(
        *authority.leaf(name, hosts=HOSTS, **settings),
        client_authorities=None if asks is None else asks.file,
    )


def client_of(authority, *leaf):
    certificate, key = leaf or (None, None)
    return client_tls(authority.file, certificate=certificate, key=key)


async def call(channel, method=WHO, request=b""):
    return await channel.unary_unary(method)(request, timeout=20)


async def test_a_certificate_says_the_same_as_at_a_server_of_grpcio(authority):
    leaf = authority.leaf("b-0", uris=[URI], hosts=["b-0.test", "10.0.0.1"], mails=["b@x.test"])
    pair = authority.leaf("server", hosts=HOSTS)
    told = []

    async def tell(_request, context):
        proved = {
            name: tuple(values)
            for name, values in context.auth_context().items()
            if name.startswith(("x509", "peer"))
        }
        told.append((proved, context.peer_identity_key(), list(context.peer_identities())))
        return b""

    table = {"Who": grpc.unary_unary_rpc_method_handler(tell)}
    certificate, key = (each.read_bytes() for each in pair)
    ours, theirs = ariane_wire.server(), grpc.aio.server()
    asks = grpc.ssl_server_credentials([(key, certificate)], authority.file.read_bytes(), True)  # noqa: FBT003
    credentials = (server_tls(*pair, client_authorities=authority.file), asks)
    for server, given in zip((ours, theirs), credentials, strict=True):
        handler = grpc.method_handlers_generic_handler("test.Echo", table)
        server.add_generic_rpc_handlers((handler,))
        port = server.add_secure_port("127.0.0.1:0", given)
        await server.start()
        async with ariane_wire.secure_channel(
            f"localhost:{port}", client_of(authority, *leaf)
        ) as channel:
            await call(channel)
        await server.stop(None)
    (ours_told, *ours_key), (theirs_told, *theirs_key) = told
    assert ours_told["peer_uri"] == (URI.encode(),)
    for name in ("x509_pem_cert_chain", "x509_subject", "x509_verified_root_cert_subject"):
        theirs_told.pop(name, None)
    assert {name: sorted(values) for name, values in ours_told.items()} == {
        name: sorted(values) for name, values in theirs_told.items()
    }
    assert ours_key[0] == theirs_key[0]
    assert sorted(ours_key[1]) == sorted(theirs_key[1])


async def test_a_unix_socket_speaks_tls_too(authority, tmp_path):
    address = f"unix:{tmp_path / 'socket'}"
    leaf = authority.leaf("b-0", uris=[URI])
    async with (
        served(server_of(authority, asks=authority), address) as it,
        ariane_wire.secure_channel(it.address, client_of(authority, *leaf)) as channel,
    ):
        assert await call(channel) == URI.encode()


def test_a_context_that_is_replaced_serves_the_next_connection(run, authority):
    async def scenario():
        contexts = [server_of(authority, "first"), server_of(authority, "second", lasts_s=9e3)]
        fingerprints = [each.fingerprint for each in contexts]
        assert len(set(fingerprints)) == 2
        async with (
            served(lambda: contexts[0]) as it,
            ariane_wire.secure_channel(it.address, client_of(authority)) as first,
        ):
            assert await call(first, "/test.Echo/Own") == fingerprints[0]
            held = asyncio.ensure_future(call(first, HOLD))
            del contexts[0]
            async with ariane_wire.secure_channel(it.address, client_of(authority)) as second:
                assert await call(second, "/test.Echo/Own") == fingerprints[1]
            assert await call(first, "/test.Echo/Own") == fingerprints[0]
            it.released.set()
            assert await held == b"held"

    run(scenario())


@pytest.fixture
def later(monkeypatch):
    """Moves the clock of the machine by an hour and more: leaves have ended then."""
    moved_s = [0.0]
    now = time.time
    monkeypatch.setattr(certificates, "LOOK_S_MAX", 0.02)
    monkeypatch.setattr(certificates.time, "time", lambda: now() + moved_s[0])
    return lambda: moved_s.__setitem__(0, 4000.0)


async def test_a_connection_ends_with_the_certificate_of_its_client(authority, later):
    async with served(server_of(authority, asks=authority)) as it:
        leaf = authority.leaf("b-0", uris=[URI])
        channel = ariane_wire.secure_channel(it.address, client_of(authority, *leaf))
        async with channel:
            assert await call(channel) == URI.encode()
            held = asyncio.ensure_future(call(channel, HOLD))
            assert await call(channel) == URI.encode()
            assert it.server.statistics().connections_begun == 1
            later()
            await channel.wait_for_state_change(READY)
            it.released.set()
            assert await held == b"held"


READY = grpc.ChannelConnectivity.READY


async def test_a_client_leaves_a_server_whose_certificate_has_ended(authority, later):
    contexts = [server_of(authority, "first"), server_of(authority, "second", lasts_s=9e3)]
    last = contexts[1].fingerprint
    async with (
        served(lambda: contexts[0]) as it,
        ariane_wire.secure_channel(it.address, client_of(authority)) as channel,
    ):
        held = asyncio.ensure_future(call(channel, HOLD))
        await call(channel)
        del contexts[0]
        later()
        await channel.wait_for_state_change(READY)
        assert await call(channel, "/test.Echo/Own") == last
        it.released.set()
        assert await held == b"held"


async def test_plain_text_is_dropped_at_its_first_octet(authority):
    async with served(server_of(authority)) as it:
        reader, writer = await asyncio.open_connection("127.0.0.1", it.port)
        writer.write(b"P")
        with suppress(ConnectionResetError):
            assert await asyncio.wait_for(reader.read(), 20) == b""
        writer.close()
        assert it.server.statistics().connections_begun == 0


async def test_the_oldest_half_open_connection_makes_room(authority, monkeypatch):
    monkeypatch.setattr(first_octets, "HALF_OPEN_MAX", 3)
    monkeypatch.setattr(fair_places, "PATIENCE_S", 0.02)
    async with served(server_of(authority)) as it:
        silent = [await asyncio.open_connection("127.0.0.1", it.port) for _ in range(3)]
        silent[1][1].write(b"\x16\x03\x01")
        for _ in range(2):
            async with ariane_wire.secure_channel(it.address, client_of(authority)) as channel:
                assert await call(channel) == b"nobody"
        # Clients that are done at once need no place: one that is silent as well does.
        silent.append(await asyncio.open_connection("127.0.0.1", it.port))
        assert await silent[0][0].read() == b""
        assert not silent[2][0].at_eof()
        for _, writer in silent:
            writer.close()


@pytest.mark.parametrize("bound", ["HALF_OPEN_MAX", "HANDSHAKES_MAX"])
async def test_many_clients_at_once_wait_for_one_another(authority, monkeypatch, bound):
    monkeypatch.setattr(first_octets, bound, 2)
    monkeypatch.setattr(fair_places, "PATIENCE_S", 60.0)
    async with served(server_of(authority)) as it:
        context = client_of(authority)

        async def one():
            async with ariane_wire.secure_channel(it.address, context) as channel:
                return await call(channel)

        assert await asyncio.gather(*(one() for _ in range(20))) == [b"nobody"] * 20
        assert it.server.statistics().connections_begun == 20


async def test_a_handshake_that_is_held_back_makes_room(authority, monkeypatch):
    monkeypatch.setattr(first_octets, "HANDSHAKES_MAX", 1)
    monkeypatch.setattr(fair_places, "PATIENCE_S", 0.02)
    async with served(server_of(authority)) as it:
        reader, writer = await asyncio.open_connection("127.0.0.1", it.port)
        writer.write(b"\x16\x03\x01")
        async with ariane_wire.secure_channel(it.address, client_of(authority)) as channel:
            assert await call(channel) == b"nobody"
        with suppress(ConnectionResetError):
            assert await asyncio.wait_for(reader.read(), 20) == b""
        writer.close()


async def test_handshakes_at_a_time_are_bounded_also_where_many_come_and_go(authority, monkeypatch):
    """Each holds some 300 KB: those of one more than the bound must not begin."""
    monkeypatch.setattr(first_octets, "HANDSHAKES_MAX", 4)
    monkeypatch.setattr(fair_places, "PATIENCE_S", 0.02)
    loop = asyncio.get_running_loop()
    begin, now, counts = loop.connect_accepted_socket, 0, []

    async def counted(*given, **named):
        nonlocal now
        now += 1
        counts.append(now)
        try:
            return await begin(*given, **named)
        finally:
            now -= 1

    monkeypatch.setattr(loop, "connect_accepted_socket", counted)
    async with served(server_of(authority)) as it, asyncio.timeout(60):
        held = [await asyncio.open_connection("127.0.0.1", it.port) for _ in range(40)]
        for _, writer in held:
            writer.write(b"\x16\x03\x01")
        while len(counts) < 20:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
        async with ariane_wire.secure_channel(it.address, client_of(authority)) as channel:
            # A slow machine may take longer for its handshake than others have patience with.
            answer = channel.unary_unary(WHO)(b"", timeout=50, wait_for_ready=True)
            assert await answer == b"nobody"
        for _, writer in held:
            writer.close()
    assert max(counts) == 4


async def test_what_a_broken_handshake_held_is_given_back_at_once(authority):
    """Not by the next full collection of garbage: thousands may come until then."""
    gc.disable()
    try:
        async with served(server_of(authority)) as it, asyncio.timeout(60):
            for _ in range(5):
                reader, writer = await asyncio.open_connection("127.0.0.1", it.port)
                writer.write(b"\x16\x03\x01" + b"\xff" * 20)  # No record is so long.
                with suppress(ConnectionResetError):
                    assert await reader.read() == b""
                writer.close()
            async with ariane_wire.secure_channel(it.address, client_of(authority)) as channel:
                assert await call(channel) == b"nobody"
                kept = [each for each in gc.get_objects() if isinstance(each, SSLProtocol)]
        # Both ends of the channel, which is still open.
        assert len(kept) <= 2
    finally:
        gc.enable()


async def test_a_peer_must_agree_on_http2(authority):
    async with served(server_of(authority)) as it:
        plain = ssl.create_default_context(cafile=str(authority.file))
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", it.port, ssl=plain, server_hostname="localhost"
        )
        with suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), 20) == b""
        writer.close()
    context = server_of(authority, "silent")
    silent = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0, ssl=context)
    port = silent.sockets[0].getsockname()[1]
    channel = ariane_wire.secure_channel(f"localhost:{port}", client_of(authority))
    async with silent, channel:
        with pytest.raises(CallFailed, match="agreed on HTTP/2"):
            await call(channel)


async def test_tls_1_2_is_spoken_on_request(authority):
    old = client_of(authority)
    old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_2
    pair = authority.leaf("server", hosts=HOSTS)
    answers = []
    for oldest in ("1.3", "1.2"):
        async with (
            served(server_tls(*pair, oldest=oldest)) as it,
            ariane_wire.secure_channel(it.address, old) as channel,
        ):
            try:
                answers.append(await call(channel))
            except CallFailed as failed:
                answers.append(failed.code())
    assert answers == [StatusCode.UNAVAILABLE, b"nobody"]


@pytest.mark.parametrize("wrong", ["authority", "host", "ended"])
async def test_a_server_that_is_not_the_one_that_is_meant(authority, tmp_path, wrong):
    signer, hosts, lasts_s = authority, HOSTS, 3600.0
    if wrong == "authority":
        folder = tmp_path / "other"
        folder.mkdir()
        signer = Authority(folder)
    elif wrong == "host":
        hosts = ("elsewhere.test",)
    else:
        lasts_s = -60.0
    pair = signer.leaf("server", hosts=hosts, lasts_s=lasts_s)
    async with (
        served(server_tls(*pair)) as it,
        ariane_wire.secure_channel(it.address, client_of(authority)) as channel,
    ):
        with pytest.raises(CallFailed) as caught:
            await call(channel)
        assert caught.value.never_processed
        assert "certificate" in caught.value.details()
    if wrong == "host":
        named = [("grpc.ssl_target_name_override", "elsewhere.test")]
        async with (
            served(server_tls(*pair)) as it,
            ariane_wire.secure_channel(it.address, client_of(authority), named) as channel,
        ):
            assert await call(channel) == b"nobody"


async def test_a_client_that_is_not_trusted(authority, tmp_path):
    folder = tmp_path / "other"
    folder.mkdir()
    stranger = Authority(folder).leaf("b-0", uris=[URI])
    ended = authority.leaf("ended", uris=[URI], lasts_s=-60.0)
    async with served(server_of(authority, asks=authority)) as it:
        for leaf in (stranger, ended):
            channel = ariane_wire.secure_channel(it.address, client_of(authority, *leaf))
            async with channel:
                with pytest.raises(CallFailed) as caught:
                    await call(channel)
                assert caught.value.code() is StatusCode.UNAVAILABLE
        assert it.server.statistics().streams_begun == 0


async def test_a_client_looks_at_the_certificate_of_the_server(authority):
    def check(certificate):
        if URI not in certificate.uris:
            raise ConnectionError(f"the certificate is of {certificate.uris}, not of {URI}")

    for uris, expected in (([URI], b"nobody"), (["ariane://cluster/broker/b-1"], "not of")):
        async with (
            served(server_of(authority, uris=uris)) as it,
            ariane_wire.secure_channel(
                it.address, client_of(authority), check_server=check
            ) as channel,
        ):
            if expected == b"nobody":
                assert await call(channel) == expected
                continue
            with pytest.raises(CallFailed, match=expected):
                await call(channel)
            assert it.server.statistics().streams_begun == 0


async def test_calls_wait_for_the_opening_of_each_connection(authority):
    opened = []

    async def opening(connection):
        opened.append(connection.certificate.fingerprint)
        told = await connection.unary_unary("/test.Echo/Note")(b"opened", timeout=20)
        assert told == b"nothing"

    context = server_of(authority)
    async with served(context) as it:
        channel = ariane_wire.secure_channel(it.address, client_of(authority), opening=opening)
        async with channel:
            told = await asyncio.gather(*(call(channel, "/test.Echo/Note", b"x") for _ in range(3)))
            assert told == [b"opened", b"x", b"x"]
            assert it.server.end_connections(lambda peer: not peer.notes) == 0
            assert it.server.end_connections(lambda peer: peer.is_encrypted) == 1
            await channel.wait_for_state_change(READY)
            assert await call(channel, "/test.Echo/Note", b"y") == b"opened"
    assert opened == [context.fingerprint] * 2


async def test_calls_fail_with_the_refusal_of_an_opening(authority):
    async def opening(connection):
        await connection.unary_unary("/test.Echo/Refuse")(b"", timeout=20)

    async with served(server_of(authority)) as it:
        channel = ariane_wire.secure_channel(it.address, client_of(authority), opening=opening)
        async with channel:
            with pytest.raises(CallFailed) as caught:
                await call(channel)
    assert caught.value.code() is StatusCode.UNAUTHENTICATED
    assert caught.value.details() == "no such key"
    assert ("why", "wrong") in tuple(caught.value.trailing_metadata())
    assert caught.value.never_processed


async def test_a_blocking_channel_is_as_any(authority):
    leaf = authority.leaf("b-0", uris=[URI])
    fingerprints = []

    async def opening(connection):
        fingerprints.append(connection.certificate.fingerprint)

    def ask(address):
        credentials = lambda: client_of(authority, *leaf)  # noqa: E731
        with blocking_channel(address, credentials, opening=opening) as channel:
            return channel.unary_unary(WHO)(b"", timeout=20)

    context = server_of(authority, asks=authority)
    async with served(context) as it:
        assert await asyncio.to_thread(ask, it.address) == URI.encode()
    assert fingerprints == [context.fingerprint]


def test_keys_with_a_password_are_refused(authority, tmp_path):
    certificate, key = authority.leaf("server")
    locked = tmp_path / "locked.key"
    locked.write_bytes(locked_key(key.read_bytes()))
    with pytest.raises(ValueError, match="password"):
        server_tls(certificate, locked)
    with pytest.raises(ValueError, match="belong together"):
        client_tls(authority.file, certificate=certificate)
    with socket.socket(), pytest.raises(TypeError, match="SSLContext"):
        ariane_wire.secure_channel("localhost:1", object())


def locked_key(octets):
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415

    key = serialization.load_pem_private_key(octets, None)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
