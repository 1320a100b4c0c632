"""Clients over TLS: files, the environment, and servers that are not the ones routes name."""

from __future__ import annotations

from contextlib import asynccontextmanager
from random import Random

import grpc
import pytest

import ariane_wire
from ariane.namesrv.v1.route_pb2 import BrokerRoute, Route
from ariane.namesrv.v1.route_service_pb2 import GetRouteResponse
from ariane_sdk import Tls
from ariane_sdk.errors import IllegalArgument
from ariane_sdk.net.connections import Connections
from ariane_sdk.routing.name_servers import NameServers
from ariane_sdk.runtime import environment
from ariane_sdk.security import Expected, access_of
from ariane_testkit.certificates import ClusterCertificates

ECHO = "/test.Echo/Echo"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return ClusterCertificates(tmp_path_factory.mktemp("certificates"))


@asynccontextmanager
async def served(certificates, kind, name, *, answer=b""):
    files = certificates.member(kind, name)

    async def echo(_request, _context):
        return answer

    handler = grpc.unary_unary_rpc_method_handler(echo)
    server = ariane_wire.server()
    server.add_registered_method_handlers("test.Echo", {"Echo": handler})
    route = {"GetRoute": grpc.unary_unary_rpc_method_handler(echo)}
    server.add_registered_method_handlers("ariane.namesrv.v1.RouteService", route)
    context = ariane_wire.server_tls(files["tls_certificate"], files["tls_key"])
    port = server.add_secure_port("127.0.0.1:0", context)
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


@asynccontextmanager
async def connected(certificates):
    access = access_of(Tls(ca=certificates.path / "members.pem"))
    connections = Connections(Random(1), access)
    try:
        yield connections
    finally:
        await connections.close()


async def echo(connections, address, *, ready=False):
    return await connections.channel(address).unary_unary(ECHO)(
        b"", timeout=20, wait_for_ready=ready
    )


async def test_a_route_that_lies_gains_nothing(certificates):
    async with (
        served(certificates, "broker", "b-1") as other,
        connected(certificates) as connections,
        served(
            certificates,
            "namesrv",
            "n-1",
            answer=GetRouteResponse(
                route=Route(brokers=[BrokerRoute(broker_name="b-0", addresses={0: other})])
            ).SerializeToString(),
        ) as name_server,
    ):
        names = NameServers([name_server], connections, random=Random(1), timeout_s=20)
        # Nobody has said yet who must be there.
        assert await echo(connections, other) == b""
        route = await names.get_route("orders")
        assert route.brokers[0].addresses == {0: other}
        with pytest.raises(grpc.aio.AioRpcError, match="of broker b-1, not of broker"):
            await echo(connections, other)
        connections.expect(other, Expected(("broker",), "b-1"))
        assert await echo(connections, other, ready=True) == b""


async def test_only_a_name_server_is_asked_for_routes(certificates):
    async with (
        served(certificates, "broker", "b-0") as broker,
        connected(certificates) as connections,
    ):
        names = NameServers([broker], connections, random=Random(1), timeout_s=20)
        with pytest.raises(Exception, match="of broker b-0, not of namesrv"):
            await names.get_route("orders")
        # What was asked of it as a name server does not stay with its address.
        connections.expect(broker, Expected(("broker",), "b-0"))
        assert await echo(connections, broker) == b""


async def test_a_server_with_the_certificate_of_a_user_is_none(certificates):
    certificate, key = certificates.user("anna")
    server = ariane_wire.server()
    port = server.add_secure_port("127.0.0.1:0", ariane_wire.server_tls(certificate, key))
    await server.start()
    async with connected(certificates) as connections:
        with pytest.raises(grpc.aio.AioRpcError, match="certificate"):
            await echo(connections, f"127.0.0.1:{port}")
    await server.stop(None)


def test_files_come_from_arguments_or_the_environment(certificates, monkeypatch):
    ca = certificates.path / "members.pem"
    certificate, key = certificates.user("anna")
    for variable in (environment.TLS_CA, environment.TLS_CERTIFICATE, environment.TLS_KEY):
        monkeypatch.delenv(variable, raising=False)
    assert access_of(None).tls is None
    for given in (ca, str(ca), Tls(ca=ca), Tls(ca=ca, certificate=certificate, key=key)):
        assert access_of(given).tls is not None
    monkeypatch.setenv(environment.TLS_CERTIFICATE, str(certificate))
    with pytest.raises(IllegalArgument, match="ARIANE_TLS_CA"):
        access_of(None)
    monkeypatch.setenv(environment.TLS_CA, str(ca))
    with pytest.raises(IllegalArgument, match="belong together"):
        access_of(None)
    monkeypatch.setenv(environment.TLS_KEY, str(key))
    tls = access_of(None).tls
    assert tls is not None
    assert len(tls().fingerprint) == 32
    plain = False
    assert access_of(plain).tls is None


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("nowhere.pem", "nowhere.pem: No such file"),
        (__file__, "tls: "),
        (7, "a Tls, a file, False or None"),
        (True, "a Tls, a file, False or None"),
    ],
)
def test_what_is_no_file_is_refused_at_once(given, text):
    with pytest.raises(IllegalArgument, match=text):
        access_of(given)
