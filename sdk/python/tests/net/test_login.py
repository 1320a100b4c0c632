"""Clients that prove by a key who they are, against a real service that is closed."""

from __future__ import annotations

import asyncio
import pickle
import time
from contextlib import asynccontextmanager
from random import SystemRandom

import pytest
from grpc import StatusCode
from grpc.aio import AioRpcError

import ariane_wire
from ariane.common.v1 import access_rules_pb2 as rules
from ariane.common.v1 import login_service_pb2 as login_pb
from ariane.common.v1.access_pb2 import ACTION_SUBSCRIBE, RESOURCE_TOPIC
from ariane.common.v1.login_service_pb2_grpc import LoginServiceStub
from ariane.namesrv.v1.route_service_pb2 import GetRouteRequest
from ariane.namesrv.v1.route_service_pb2_grpc import RouteServiceStub
from ariane_namesrv.app import NamesrvApp
from ariane_namesrv.settings import NamesrvSettings
from ariane_sdk import ClusterClient
from ariane_sdk.delegation import delegate
from ariane_sdk.errors import ArianeError, IllegalArgument
from ariane_sdk.net.connections import Connections
from ariane_sdk.security import PLAIN, KeyFile, access_of
from ariane_servicekit import Address, serving
from ariane_servicekit.security.identity import identities, logins
from ariane_testkit.access_rules import telling
from ariane_testkit.certificates import ClusterCertificates
from ariane_testkit.user_keys import UserKeys

REFUSED = r"CREDENTIALS_INVALID|credentials"


@pytest.fixture
def keys(tmp_path):
    return UserKeys(tmp_path)


@pytest.fixture
def served(tmp_path, keys):
    @asynccontextmanager
    async def served(**settings):
        path = keys.save(tmp_path / "rules")
        made = NamesrvSettings(
            listen=Address("127.0.0.1", 0),
            data_path=tmp_path / "namesrv",
            access="closed",
            access_rules_file=path,
            **settings,
        )
        async with serving(made, NamesrvApp) as address:
            yield str(address)

    return served


async def brokers(address, **access):
    async with ClusterClient(address, patience_s=0, **access) as client:
        return await client.list_brokers()


@pytest.mark.parametrize("over_tls", [True, False])
async def test_a_key_opens_a_closed_service(served, keys, tmp_path, over_tls, monkeypatch):
    certificates = ClusterCertificates(tmp_path / "certificates")
    settings = certificates.member("namesrv", "n1") if over_tls else {}
    tls = certificates.path / "members.pem" if over_tls else False
    anna, ben = keys.file_of("anna"), keys.file_of("ben", told=False)
    async with served(**settings) as address:
        assert await brokers(address, tls=tls, credentials=anna) == []
        monkeypatch.setenv("ARIANE_CREDENTIALS", str(anna))
        assert await brokers(address, tls=tls) == []
        monkeypatch.delenv("ARIANE_CREDENTIALS")
        with pytest.raises(ArianeError, match=REFUSED):
            await brokers(address, tls=tls)
        for wrong in (ben, lambda: "a.token.of-nobody"):
            with pytest.raises(ArianeError, match="wrong, unknown, expired or disabled"):
                await brokers(address, tls=tls, credentials=wrong)


async def test_a_delegated_key_opens_what_it_was_given_for(served, keys, tmp_path):
    certificates = ClusterCertificates(tmp_path / "certificates")
    entry = rules.AccessEntry(
        decision=rules.ACCESS_DECISION_ALLOW,
        resource=RESOURCE_TOPIC,
        pattern=rules.NAME_PATTERN_LITERAL,
        name="orders",
        actions=[ACTION_SUBSCRIBE],
    )
    ends_ms = int(time.time() * 1000) + 60_000
    held = delegate(KeyFile(keys.file_of("anna", kind=rules.USER_KIND_SUPER))(), [entry], ends_ms)
    assert held.key.hex() not in repr(held) + str(held)
    held = pickle.loads(pickle.dumps(held))  # noqa: S301
    # The text of the file does as well.
    tls = (certificates.path / "members.pem").read_text()
    async with (
        served(**certificates.member("namesrv", "n1")) as address,
        ClusterClient(address, patience_s=0, tls=tls, credentials=held.private_key) as client,
    ):
        stub = RouteServiceStub(client.channel(address))
        for topic, code in (
            ("orders", StatusCode.NOT_FOUND),
            ("pay", StatusCode.PERMISSION_DENIED),
        ):
            with pytest.raises(AioRpcError) as caught:
                await stub.GetRoute(GetRouteRequest(topic=topic), timeout=20)
            assert caught.value.code() is code


async def test_a_login_is_renewed_on_its_connection(served, keys, monkeypatch):
    monkeypatch.setattr(logins, "LOGIN_MS_MAX", 400)
    key = keys.file_of("anna")
    monkeypatch.setattr(identities, "LOOK_S", 0.05)
    renewed = asyncio.Event()
    begin = logins.Logins.begin
    begun = []

    def counted(self, identity):
        begun.append(identity)
        if len(begun) == 4:
            renewed.set()
        return begin(self, identity)

    monkeypatch.setattr(logins.Logins, "begin", counted)
    async with (
        served() as address,
        ClusterClient(address, tls=False, credentials=key) as client,
    ):
        assert await client.list_brokers() == []
        await asyncio.wait_for(renewed.wait(), 30)
        assert await client.list_brokers() == []
        # All on one connection.
        assert len({each.peer for each in begun}) == 1


async def test_a_key_that_is_taken_away_ends_its_connections(served, keys, tmp_path, monkeypatch):
    monkeypatch.setattr(identities, "LOOK_S", 0.02)
    certificates = ClusterCertificates(tmp_path / "certificates")
    authority, key = certificates.path / "members.pem", keys.file_of("anna")
    files = certificates.member("admin", "a1")
    shown = ariane_wire.client_tls(
        authority, certificate=files["tls_certificate"], key=files["tls_key"]
    )
    async with (
        served(**certificates.member("namesrv", "n1")) as address,
        ariane_wire.secure_channel(address, shown) as channel,
        telling(channel) as admin,
        ClusterClient(address, patience_s=0, tls=authority, credentials=key) as client,
    ):
        assert await client.list_brokers() == []
        # She stays a user, and without a key.
        await admin.tell("anna: allow GET cluster")

        async def until_refused():
            while True:
                await client.list_brokers()
                await asyncio.sleep(0.02)

        with pytest.raises(ArianeError, match=REFUSED):
            await asyncio.wait_for(until_refused(), 30)


async def test_no_proof_is_sent_to_another_machine_in_plain_text(keys):
    connections = Connections(SystemRandom(), access_of(False, keys.file_of("anna")))  # noqa: FBT003
    with pytest.raises(IllegalArgument, match="plain text"):
        connections.channel("10.0.0.7:9876")
    connections.channel("[::1]:9876")
    await connections.close()


def test_files_that_are_no_keys_say_nothing_of_what_is_in_them(tmp_path, keys):
    path = tmp_path / "broken.key"
    secret = keys.file_of("anna").read_text()
    for text in ("", "hunter2", secret.replace("credential", "x"), secret[: len(secret) // 2]):
        path.write_text(text)
        with pytest.raises(IllegalArgument) as caught:
            KeyFile(path)
        told = str(caught.value)
        assert str(path) in told
        assert "hunter2" not in told
        assert not set(secret.splitlines()[4:5]) & set(told.split())
    with pytest.raises(IllegalArgument, match="No such file"):
        access_of(None, tmp_path / "nowhere.key")
    with pytest.raises(IllegalArgument, match="a file, a function or None"):
        access_of(None, 7)
    assert "sign" not in repr(KeyFile(keys.file_of("ben"))())
    assert access_of(None) == PLAIN


async def test_a_thousand_wrong_proofs_at_a_time_are_one_and_keep_nobody_out(
    served, keys, monkeypatch
):
    anna = keys.file_of("anna")
    looked_at = []
    is_signed = logins.is_signed

    def counted(*proof):
        looked_at.append(proof)
        return is_signed(*proof)

    monkeypatch.setattr(logins, "is_signed", counted)
    async with served() as address, ariane_wire.insecure_channel(address) as channel:
        stub = LoginServiceStub(channel)
        began = await stub.BeginLogin(login_pb.BeginLoginRequest())
        assert began.server_nonce
        wrong = login_pb.FinishLoginRequest()
        wrong.key.credential_id, wrong.key.client_nonce = "anna-1", b"c" * 32
        wrong.key.signature = b"s" * 64

        async def told():
            with pytest.raises(AioRpcError) as caught:
                await stub.FinishLogin(wrong)
            return caught.value.code(), caught.value.details()

        attack = [asyncio.create_task(told()) for _ in range(1000)]
        # She comes meanwhile, by a connection of her own.
        assert await brokers(address, tls=False, credentials=anna) == []
        texts = set(await asyncio.gather(*attack))
    assert len(texts) == 1
    assert {code for code, _ in texts} == {StatusCode.UNAUTHENTICATED}
    # Hers, and those of the attack: one before each wait, however many came.
    assert len(looked_at) <= 20
