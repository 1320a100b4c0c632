"""The connector's calls over TLS, by what the environment says."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager

import grpc
import pytest

import ariane_wire
from ariane_sdk.errors import IllegalArgument
from ariane_spark.calls.channels import NAME_SERVER, Channels
from ariane_testkit.certificates import ClusterCertificates


@pytest.fixture
def certificates(tmp_path, monkeypatch):
    made = ClusterCertificates(tmp_path / "certificates")
    certificate, key = made.user("etl")
    monkeypatch.setenv("ARIANE_TLS_CA", str(made.path / "members.pem"))
    monkeypatch.setenv("ARIANE_TLS_CERTIFICATE", str(certificate))
    monkeypatch.setenv("ARIANE_TLS_KEY", str(key))
    return made


@contextmanager
def served(certificates, kind, name):
    """A process in a thread that says who calls."""
    files = certificates.member(kind, name)
    context = ariane_wire.server_tls(
        files["tls_certificate"], files["tls_key"], client_authorities=files["tls_users"]
    )
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def who(_request, context):
        return context.auth_context()["peer_uri"][0]

    async def start():
        server = ariane_wire.server()
        handler = grpc.unary_unary_rpc_method_handler(who)
        server.add_registered_method_handlers("test.Echo", {"Who": handler})
        port = server.add_secure_port("127.0.0.1:0", context)
        await server.start()
        return server, f"127.0.0.1:{port}"

    server, address = asyncio.run_coroutine_threadsafe(start(), loop).result(20)
    try:
        yield address
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(None), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_calls_show_the_certificate_and_take_the_process_that_is_meant(certificates):
    channels = Channels()

    def ask(address):
        return channels.to(address).unary_unary("/test.Echo/Who")(b"", timeout=20)

    with served(certificates, "broker", "b-0") as address:
        channels.expect_broker("b-0", [address])
        assert ask(address) == b"ariane://main/user/etl"
        channels.expect_broker("b-1", [address])
        with pytest.raises(grpc.RpcError, match="of broker b-0, not of broker or replica b-1"):
            ask(address)
        channels.expect(address, NAME_SERVER)
        with pytest.raises(grpc.RpcError, match="not of namesrv"):
            ask(address)
        channels.to(address).close()


def test_files_that_are_not_there_are_an_error_at_once(monkeypatch):
    monkeypatch.setenv("ARIANE_TLS_CA", "/nowhere/members.pem")
    with pytest.raises(IllegalArgument, match="No such file"):
        Channels()
