"""A holder of a key signs in to the console by a link of the command line."""

import asyncio
import json
import time
from urllib.parse import urlsplit

import pytest
from grpc import StatusCode
from grpc.aio import AioRpcError

from ariane.admin.v1 import console_service_pb2 as console_pb
from ariane.admin.v1.console_service_pb2_grpc import ConsoleServiceStub
from ariane_admin.cli import main
from ariane_sdk import ClusterClient
from ariane_sdk.delegation import delegate
from ariane_sdk.security import KeyFile
from ariane_servicekit.security.identity.identify import ACTING_KEY
from ariane_testkit.access_rules import entry_of


async def test_a_link_lets_the_holder_of_a_key_in_once(closed, tmp_path, monkeypatch, capfd):
    await closed.make_user("kim", "allow GET cluster")
    key = tmp_path / "kim.key"
    monkeypatch.setenv("ARIANE_TLS_CA", str(closed.certificates.path / "members.pem"))
    certificate, private = closed.certificates.user("root")

    async def by_root(*words):
        with monkeypatch.context() as root:
            root.delenv("ARIANE_CREDENTIALS", raising=False)
            root.setenv("ARIANE_TLS_CERTIFICATE", str(certificate))
            root.setenv("ARIANE_TLS_KEY", str(private))
            told = [*words, "--admin", closed.address]
            assert await asyncio.to_thread(main, told) == 0

    await by_root("credential", "create", str(key), "--user", "kim", "--id", "kims")
    monkeypatch.setenv("ARIANE_CREDENTIALS", str(key))
    words = ["user", "login-link", "--admin", closed.address, "-o", "json"]

    async def known():
        capfd.readouterr()
        return await asyncio.to_thread(main, words)

    await closed.until(known, 0)
    made = json.loads(capfd.readouterr().out.splitlines()[-1])
    assert made["holds_s"] == 120
    link = urlsplit(made["link"])
    assert f"{link.scheme}://{link.netloc}" == f"https://{closed.app.console_address}"
    assert link.path == "/sign-in"
    browser, late = await closed.visitor(), await closed.visitor()
    assert (await browser.get("/topics")).status_code == 303
    entered = await browser.sign_in("link", token=link.fragment)
    assert entered.status_code == 303
    page = await browser.get("/topics")
    assert page.status_code == 200
    assert "kim" in page.text
    assert (await late.sign_in("link", token=link.fragment)).status_code == 403
    # A key that was delegated makes nothing that would outlast it.
    ends_ms = round(time.time() * 1000) + 60_000
    held = delegate(KeyFile(key)(), [entry_of("allow GET cluster")], ends_ms)
    ca = closed.certificates.path / "members.pem"
    async with ClusterClient(closed.name_server, tls=ca, credentials=held.private_key) as client:
        with pytest.raises(AioRpcError, match="a delegated key signs nobody in"):
            await ConsoleServiceStub(client.channel(closed.address)).CreateSignInLink(
                console_pb.CreateSignInLinkRequest()
            )
    # Neither the session nor a link that was drawn outlives the key.
    assert await known() == 0
    other = urlsplit(json.loads(capfd.readouterr().out.splitlines()[-1])["link"]).fragment
    await by_root("credential", "delete", "kim", "kims", "--yes")

    async def out():
        return (await browser.get("/topics")).status_code

    await closed.until(out, 303)
    assert (await late.sign_in("link", token=other)).status_code == 403


async def test_nobody_gets_a_link_for_another(closed):
    """A FilterServer runs foreign code: what it may do for a user, it may not make last."""
    for shown, metadata, cause in (
        (closed.certificates.member("filter", "f1"), ((ACTING_KEY, "root"),), "may not act for"),
        (closed.certificates.member("admin", "a2"), ((ACTING_KEY, "root"),), "signs nobody in"),
        (closed.certificates.member("admin", "a2"), (), "does not call"),
    ):
        channel = await closed.channel(shown["tls_certificate"], shown["tls_key"])
        with pytest.raises(AioRpcError, match=cause) as refused:
            await ConsoleServiceStub(channel).CreateSignInLink(
                console_pb.CreateSignInLinkRequest(), metadata=metadata
            )
        assert refused.value.code() is StatusCode.PERMISSION_DENIED
