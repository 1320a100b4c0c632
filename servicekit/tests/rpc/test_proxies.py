"""Clients behind a proxy: rights, limits and logs know them by their own address."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, closing
from ipaddress import ip_address
from struct import pack

import grpc
import pytest

import ariane_wire
from ariane.namesrv.v1.route_service_pb2 import GetRouteRequest, GetRouteResponse
from ariane_servicekit import Machine
from ariane_servicekit.rpc.calls import current_call, current_caller
from ariane_servicekit.security.identity.logins import is_private
from ariane_testkit.access_rules import telling
from ariane_testkit.certificates import ClusterCertificates
from ariane_testkit.identities import as_user, stated_identity
from ariane_wire import client_tls
from ariane_wire.protocol.proxy_header import SIGNATURE

METHOD = "/ariane.namesrv.v1.RouteService/GetRoute"


def header(source, port=4711):
    address = ip_address(source)
    body = address.packed * 2 + pack(">HH", port, 443)
    return SIGNATURE + bytes((0x21, 0x11 if address.version == 4 else 0x21, 0, len(body))) + body


@asynccontextmanager
async def proxy(address, first):
    """A proxy before an address, that says something first."""

    async def passed_on(reader, writer):
        try:
            while octets := await reader.read(1 << 16):
                writer.write(octets)
        finally:
            writer.close()

    async def connected(reader, writer):
        with closing(writer):
            far_reader, far_writer = await asyncio.open_connection(address.host, address.port)
            with closing(far_writer):
                # In pieces, as a network may have it.
                far_writer.write(first[:5])
                await asyncio.sleep(0)
                far_writer.write(first[5:])
                ways = passed_on(reader, far_writer), passed_on(far_reader, writer)
                await asyncio.gather(*ways, return_exceptions=True)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.fixture
def seen(probe_app, serve):
    """Serve a probe behind a network of proxies; what it has seen of callers."""
    seen = []

    async def get_route(request, context):
        private = is_private(current_call().context.identity())
        seen.append((current_caller().address, private))
        return GetRouteResponse()

    probe_app.methods = {"GetRoute": get_route}

    def serving(networks="127.0.0.0/8", **settings):
        machine = Machine(identify=stated_identity)
        return serve(probe_app, machine, proxy_networks=networks, **settings)

    serving.seen = seen
    return serving


async def asked(target, tls=None):
    made = ariane_wire.insecure_channel(target)
    if tls is not None:
        made = ariane_wire.secure_channel(target, tls, (("grpc.ssl_target_name_override", "n1"),))
    async with made as channel:
        call = channel.unary_unary(METHOD, request_serializer=GetRouteRequest.SerializeToString)
        try:
            await call(GetRouteRequest(topic="t"), metadata=as_user("anna"), timeout=10)
        except grpc.aio.AioRpcError as error:
            return error.code().name
        return "answered"


async def test_a_client_is_known_by_what_its_proxy_says(seen):
    async with seen() as served:
        for source in ("10.7.0.1", "fd00::7", "::ffff:10.7.0.2", "127.0.0.1"):
            async with proxy(served.address, header(source)) as target:
                assert await asked(target) == "answered"
        async with proxy(served.address, SIGNATURE + b"\x20\0\0\0") as target:
            assert await asked(target) == "answered"
    # Who is at the proxy's own machine is not at ours: plain text of his is not private.
    assert seen.seen == [
        ("10.7.0.1", False),
        ("fd00::7", False),
        ("10.7.0.2", False),
        ("127.0.0.1", False),
        ("127.0.0.1", True),
    ]


async def test_over_tls_the_header_comes_before_the_handshake(seen, tmp_path):
    certificates = ClusterCertificates(tmp_path)
    member = certificates.member("namesrv", "n1")
    async with seen(**member, insecure=True) as served:
        tls = client_tls(member["tls_members"])
        tls.check_hostname = False
        async with proxy(served.address, header("10.7.0.1")) as target:
            assert await asked(target, tls) == "answered"
    assert seen.seen == [("10.7.0.1", True)]


@pytest.mark.parametrize("networks", ["127.0.0.0/8", "10.0.0.0/8"])
async def test_a_connection_without_a_right_proxy_header_is_dropped(seen, networks):
    from_proxy = networks == "127.0.0.0/8"
    wrong = [b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n", SIGNATURE + b"\x21\x55\0\0", b"\xff" * 60]
    # From elsewhere nobody can say whose connection it is.
    wrong += [b""] if from_proxy else [header("10.7.0.1")]
    async with seen(networks) as served:
        for first in wrong:
            async with proxy(served.address, first) as target:
                assert await asked(target) == "UNAVAILABLE"
        # Nor does it keep others out.
        async with proxy(served.address, header("10.7.0.1") if from_proxy else b"") as target:
            assert await asked(target) == "answered"
    assert [address for address, _ in seen.seen] == ["10.7.0.1" if from_proxy else "127.0.0.1"]


async def test_rights_by_network_are_those_of_the_client(seen):
    async with (
        seen(access="closed") as served,
        proxy(served.address, header("10.9.0.1")) as elsewhere,
        proxy(served.address, header("10.7.0.1")) as there,
        ariane_wire.insecure_channel(there) as channel,
        telling(channel) as admin,
    ):
        await admin.tell("anna: allow GET topic * from 10.7.0.0/16")
        assert await asked(there) == "answered"
        assert await asked(elsewhere) == "PERMISSION_DENIED"
