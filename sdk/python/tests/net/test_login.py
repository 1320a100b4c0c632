"""Clients that prove by a key who they are, against a real service that is closed."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from random import SystemRandom

import pytest

from ariane_admin.cli import main
from ariane_namesrv.app import NamesrvApp
from ariane_namesrv.settings import NamesrvSettings
from ariane_sdk import ClusterClient
from ariane_sdk.errors import ArianeError, IllegalArgument
from ariane_sdk.net.connections import Connections
from ariane_sdk.security import PLAIN, KeyFile, access_of
from ariane_servicekit import serving
from ariane_servicekit.security import identities, logins
from ariane_testkit.certificates import ClusterCertificates

REFUSED = r"CREDENTIALS_INVALID|credentials"


@pytest.fixture
def key_of(tmp_path, capsys):
    """Makes the key of a user; its public half goes to the file of the service."""

    def key_of(user):
        path = tmp_path / f"{user}.key"
        capsys.readouterr()
        assert main(["credential", "create", str(path), "--user", user, "--id", f"{user}-1"]) == 0
        with (tmp_path / "login-keys").open("a") as keys:
            keys.write(capsys.readouterr().out)
        return path

    return key_of


@pytest.fixture
def served(tmp_path):
    @asynccontextmanager
    async def served(**settings):
        made = NamesrvSettings(
            data_path=tmp_path / "namesrv",
            access="closed",
            super_users=("anna",),
            login_keys=tmp_path / "login-keys",
            **settings,
        )
        async with serving(made, NamesrvApp) as address:
            yield str(address)

    return served


async def brokers(address, **access):
    async with ClusterClient(address, patience_s=0, **access) as client:
        return await client.list_brokers()


@pytest.mark.parametrize("over_tls", [True, False])
async def test_a_key_opens_a_closed_service(served, key_of, tmp_path, over_tls, monkeypatch):
    certificates = ClusterCertificates(tmp_path / "certificates")
    settings = certificates.member("namesrv", "n1") if over_tls else {}
    tls = certificates.path / "members.pem" if over_tls else False
    anna, ben = key_of("anna"), key_of("ben")
    async with served(**settings) as address:
        assert await brokers(address, tls=tls, credentials=anna) == []
        monkeypatch.setenv("ARIANE_CREDENTIALS", str(anna))
        assert await brokers(address, tls=tls) == []
        monkeypatch.delenv("ARIANE_CREDENTIALS")
        with pytest.raises(ArianeError, match=REFUSED):
            await brokers(address, tls=tls)
        # Known by his key, and to no rule.
        with pytest.raises(ArianeError, match=REFUSED):
            await brokers(address, tls=tls, credentials=ben)
        with pytest.raises(ArianeError, match="wrong, unknown, expired or disabled"):
            await brokers(address, tls=tls, credentials=lambda: "a.token.of-nobody")


async def test_a_login_is_renewed_on_its_connection(served, key_of, monkeypatch):
    monkeypatch.setattr(logins, "LOGIN_MS_MAX", 400)
    key = key_of("anna")
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


async def test_a_key_that_is_taken_away_ends_its_connections(served, key_of, tmp_path, monkeypatch):
    monkeypatch.setattr(identities, "LOOK_S", 0.02)
    key = key_of("anna")
    async with (
        served() as address,
        ClusterClient(address, patience_s=0, tls=False, credentials=key) as client,
    ):
        assert await client.list_brokers() == []
        (tmp_path / "login-keys").write_text("")

        async def until_refused():
            while True:
                await client.list_brokers()
                await asyncio.sleep(0.02)

        with pytest.raises(ArianeError, match=REFUSED):
            await asyncio.wait_for(until_refused(), 30)


async def test_no_proof_is_sent_to_another_machine_in_plain_text(key_of):
    connections = Connections(SystemRandom(), access_of(False, key_of("anna")))  # noqa: FBT003
    with pytest.raises(IllegalArgument, match="plain text"):
        connections.channel("10.0.0.7:9876")
    connections.channel("[::1]:9876")
    await connections.close()


def test_files_that_are_no_keys_say_nothing_of_what_is_in_them(tmp_path, key_of):
    path = tmp_path / "broken.key"
    secret = key_of("anna").read_text()
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
    assert "sign" not in repr(KeyFile(key_of("ben"))())
    assert access_of(None) == PLAIN
