"""Services with certificates: who is let in, what is shown, and files that change under load."""

from __future__ import annotations

import asyncio
import ssl
import urllib.request
from contextlib import asynccontextmanager
from datetime import timedelta
from http.client import HTTPException
from urllib.error import HTTPError

import grpc
import pytest
from cryptography.hazmat.primitives import serialization

import ariane_wire
from ariane.namesrv.v1.route_service_pb2 import GetRouteRequest, GetRouteResponse
from ariane.namesrv.v1.route_service_pb2_grpc import RouteServiceStub
from ariane_servicekit import Address, ServiceSettings, SettingsError, StartRefused, serving
from ariane_servicekit.configuration.settings_sources import load_settings
from ariane_servicekit.rpc.calls import current_caller
from ariane_servicekit.rpc.channels import open_channel
from ariane_servicekit.running import lifecycle
from ariane_servicekit.security.caller import CallerKind, MemberKind
from ariane_servicekit.security.identity import identities
from ariane_servicekit.security.identity.identify import ACTING_KEY
from ariane_servicekit.security.tls.authority import new_authority, sign_leaf
from ariane_servicekit.security.tls.service_tls import MEMBER_TLS, ServiceTls
from ariane_testkit.certificates import HOSTS, ClusterCertificates


@pytest.fixture
def cluster(tmp_path):
    return ClusterCertificates(tmp_path / "certificates")


@pytest.fixture
def app(probe_app):
    """Remembers who called."""
    probe_app.callers = []

    async def get_route(_request, _context):
        probe_app.callers.append(current_caller())
        return GetRouteResponse()

    probe_app.methods["GetRoute"] = get_route
    return probe_app


class ProbeSettings(ServiceSettings):
    """A service for tests."""

    service_name = "probe"


@pytest.fixture
def serve(app):
    @asynccontextmanager
    async def serve(**settings):
        made = ProbeSettings(**settings)
        async with serving(made, lambda _settings, _stop: app) as address:
            yield address

    return serve


async def ask(channel, metadata=()):
    await RouteServiceStub(channel).GetRoute(
        GetRouteRequest(topic="t"), timeout=20, metadata=metadata
    )


def channel_of(cluster, address, leaf=(None, None)):
    certificate, key = leaf
    members = cluster.path / "members.pem"
    context = ariane_wire.client_tls(members, certificate=certificate, key=key)
    return ariane_wire.secure_channel(str(address), context)


async def test_the_caller_is_the_name_in_the_certificate(cluster, serve, app, tmp_path):
    other = ClusterCertificates(tmp_path / "other", "other")
    # The own authority of users signs what it is asked for, and the names of others are foreign.
    members = cluster.folder._authority("members")
    users = cluster.folder._authority("users")

    def files(name, pair):
        certificate, key = tmp_path / f"{name}.pem", tmp_path / f"{name}.key"
        certificate.write_bytes(pair.certificate_pem)
        key.write_bytes(pair.key_pem)
        return certificate, key

    filter_files = cluster.member("filter", "f-0")
    leaves = {
        "broker b-1": files("a", sign_leaf(members, "ariane://main/broker/b-1", HOSTS)),
        "filter f-0": (filter_files["tls_certificate"], filter_files["tls_key"]),
        "user anna": cluster.user("anna"),
        "no certificate": (None, None),
        "a user who would be a broker": files("b", sign_leaf(users, "ariane://main/broker/b-0")),
        "a member who would be a user": files("c", sign_leaf(members, "ariane://main/user/anna")),
        "a member elsewhere": files("d", sign_leaf(members, "ariane://other/broker/b-0")),
        "a user elsewhere": files("e", sign_leaf(users, "ariane://other/user/anna")),
        "a name that is none": files("f", sign_leaf(users, "ariane://main/user/..%2fanna")),
    }
    async with serve(**cluster.member("namesrv", "n1")) as address:
        for leaf in leaves.values():
            async with channel_of(cluster, address, leaf) as channel:
                await ask(channel)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            async with channel_of(cluster, address, other.user("anna")) as channel:
                await ask(channel)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    told = dict(zip(leaves, map(str, app.callers), strict=True))
    known = ("broker b-1", "filter f-0", "user anna")
    assert told == {name: name if name in known else "nobody known" for name in leaves}
    assert app.callers[0].cluster == "main"


async def test_a_member_of_some_kinds_acts_for_a_user(cluster, serve, app):
    async with serve(**cluster.member("namesrv", "n1")) as address:
        answers = {}
        for kind in MemberKind:
            files = cluster.member(kind.value, "m-1")
            leaf = files["tls_certificate"], files["tls_key"]
            async with channel_of(cluster, address, leaf) as channel:
                try:
                    await ask(channel, ((ACTING_KEY, "anna"),))
                    answers[kind] = str(app.callers[-1])
                except grpc.aio.AioRpcError as error:
                    answers[kind] = error.code()
        for leaf in ((None, None), cluster.user("ben")):
            async with channel_of(cluster, address, leaf) as channel:
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await ask(channel, ((ACTING_KEY, "anna"),))
                assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
    acting = {MemberKind.FILTER, MemberKind.GATEWAY, MemberKind.ADMIN}
    assert answers == {
        kind: f"user anna by {kind.value} m-1"
        if kind in acting
        else grpc.StatusCode.UNAUTHENTICATED
        for kind in MemberKind
    }


async def test_plain_text_is_for_those_who_say_insecure(cluster, serve, app):
    files = cluster.member("namesrv", "n1")
    async with serve(**files) as address, ariane_wire.insecure_channel(str(address)) as channel:
        with pytest.raises(grpc.aio.AioRpcError):
            await ask(channel)
    async with serve(**files, insecure=True) as address:
        async with ariane_wire.insecure_channel(str(address)) as channel:
            await ask(channel)
        async with channel_of(cluster, address, cluster.user("anna")) as channel:
            await ask(channel)
    assert [each.kind for each in app.callers] == [CallerKind.ANONYMOUS, CallerKind.USER]


async def test_processes_take_one_another_by_cluster_kind_and_name(cluster, serve, tmp_path):
    other = ClusterCertificates(tmp_path / "other", "other")
    own = ServiceTls(ProbeSettings(**cluster.member("checker", "c-1")))
    stranger = ServiceTls(ProbeSettings(**other.member("checker", "c-1")))
    broker, filters = (MemberKind.BROKER,), (MemberKind.FILTER,)
    async with serve(**cluster.member("broker", "b-0")) as address:
        for tls, kinds, name, refusal in (
            (own, (), "", ""),
            (own, broker, "b-0", ""),
            (own, broker, "b-1", "is of broker b-0, not of broker b-1"),
            (own, filters, "", "is of broker b-0, not of filter"),
            (stranger, (), "", "certificate"),
            (None, (), "", "failed to connect|connection"),
        ):
            MEMBER_TLS.set(tls)
            async with open_channel(address, kinds=kinds, name=name) as channel:
                if not refusal:
                    await ask(channel)
                    continue
                with pytest.raises(grpc.aio.AioRpcError, match=refusal):
                    await ask(channel)


async def test_the_authority_is_replaced_under_load(cluster, serve, monkeypatch):
    monkeypatch.setattr(identities, "LOOK_S", 0.02)
    monkeypatch.setattr(identities, "GRACE_S", 0.2)
    server, client = cluster.member("namesrv", "n1"), cluster.member("checker", "c-1")
    old = client["tls_certificate"].read_bytes(), client["tls_key"].read_bytes()
    tls = ServiceTls(ProbeSettings(**client))
    MEMBER_TLS.set(tls)
    stopped = asyncio.Event()
    called = asyncio.Condition()
    fingerprints = set()

    async def load(channel):
        while not stopped.is_set():
            await ask(channel)
            async with called:
                called.notify_all()

    async def some_calls():
        for _ in range(5):
            async with called:
                await asyncio.wait_for(called.wait(), 20)

    def remember(context=ServiceTls.server_context):
        def server_context(self):
            made = context(self)
            fingerprints.add(made.fingerprint)
            return made

        return server_context

    monkeypatch.setattr(ServiceTls, "server_context", remember())
    async with serve(**server) as address, open_channel(address) as channel:
        loads = asyncio.gather(load(channel))
        await some_calls()
        for step in (
            lambda: cluster.folder.replace_authority("members"),
            lambda: cluster.folder.renew(days=365, within=timedelta(0)),
            cluster.folder.drop_old_authorities,
        ):
            step()
            await asyncio.sleep(0.1)
            await some_calls()
        async with open_channel(address) as another:
            await ask(another)
        stopped.set()
        await loads
        certificate, key = cluster.path / "old.pem", cluster.path / "old.key"
        certificate.write_bytes(old[0])
        key.write_bytes(old[1])
        async with channel_of(cluster, address, (certificate, key)) as late:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await ask(late)
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert len(fingerprints) == 2


async def test_files_that_do_not_fit_change_nothing(cluster, serve):
    files = cluster.member("namesrv", "n1")
    right = files["tls_key"].read_bytes()
    async with serve(**files) as address:
        for wrong in (b"", b"no key", new_authority("x").key_pem):
            files["tls_key"].write_bytes(wrong)
            async with channel_of(cluster, address) as channel:
                await ask(channel)
        files["tls_key"].unlink()
        async with channel_of(cluster, address) as channel:
            await ask(channel)
        files["tls_key"].write_bytes(right)
        async with channel_of(cluster, address) as channel:
            await ask(channel)


def test_certificates_that_a_service_does_not_start_with(cluster, tmp_path):
    files = cluster.member("broker", "b-0")
    strangers = ClusterCertificates(tmp_path / "other")
    user, user_key = cluster.user("anna")
    locked = tmp_path / "locked.key"
    key = serialization.load_pem_private_key(files["tls_key"].read_bytes(), None)
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    for change, text in (
        ({"tls_key": tmp_path / "nowhere.key"}, "nowhere.key: No such file"),
        ({"tls_members": strangers.path / "members.pem"}, "not signed by an authority"),
        ({"tls_certificate": user, "tls_key": user_key}, "must name one process"),
        ({"tls_key": user_key}, "mismatch"),
        ({"tls_key": locked}, "password"),
    ):
        with pytest.raises(StartRefused, match=text):
            ServiceTls(ProbeSettings(**{**files, **change}))


def test_settings_belong_together(cluster):
    files = cluster.member("broker", "b-0")

    def flags(*names):
        return [word for name in names for word in ("--" + name.replace("_", "-"), files[name])]

    whole = flags("tls_certificate", "tls_key", "tls_members")
    for words, text in (
        (whole[:4], "tls_members"),
        (flags("tls_users"), "it needs tls_certificate"),
        ([*whole, "--tls-oldest", "1.1"], "1.3"),
        ([*whole, "--tls-user-name", "spiffe://x"], "pattern"),
        (["--metrics-listen", "0.0.0.0:0"], "no certificate"),
    ):
        with pytest.raises(SettingsError, match=text):
            load_settings(ProbeSettings, list(map(str, words)), {})
    beyond = [*map(str, whole), "--listen", "0.0.0.0:0", "--metrics-listen", "0.0.0.0:0"]
    for access in ("open", "learn"):
        with pytest.raises(SettingsError, match=f"access is {access} to all who reach it"):
            load_settings(ProbeSettings, [*beyond, "--access", access], {})
    assert load_settings(ProbeSettings, [*beyond, "--access", "closed"], {}).has_tls
    assert load_settings(ProbeSettings, [*beyond, "--insecure"], {}).has_tls


def test_a_certificate_is_of_the_process_that_shows_it(cluster):
    broker = ServiceTls(ProbeSettings(**cluster.member("broker", "b-0")))
    broker.check_is_of("broker", "b-0")
    broker.check_is_of("probe", "")
    with pytest.raises(StartRefused, match="and this process is b-1"):
        broker.check_is_of("broker", "b-1")
    with pytest.raises(StartRefused, match="and this process is a filter"):
        broker.check_is_of("filter", "")


async def test_metrics_beyond_loopback_are_for_those_with_a_certificate(cluster, serve):
    files = cluster.member("namesrv", "n1")
    context = ssl.create_default_context(cafile=str(files["tls_members"]))
    refused = ssl.create_default_context(cafile=str(files["tls_members"]))
    context.load_cert_chain(*cluster.user("prometheus"))
    pages = []
    original = lifecycle.Exports.open

    def opened(self, tls=None):
        original(self, tls)
        pages.append(self.address)

    lifecycle.Exports.open, kept = opened, original
    try:
        async with serve(**files, metrics_listen=Address("0.0.0.0", 0)):  # noqa: S104

            def read(context, scheme="https"):
                url = f"{scheme}://localhost:{pages[0].port}/metrics"
                with urllib.request.urlopen(url, timeout=20, context=context) as page:  # noqa: S310
                    return page.read()

            told = await asyncio.to_thread(read, context)
            assert b"ariane_rpc_connections" in told
            [left] = [line for line in told.splitlines() if b"certificate_left" in line][-1:]
            assert 364 * 86_400 < float(left.split()[-1]) <= 365 * 86_400
            for unknown, scheme in ((refused, "https"), (None, "http")):
                with pytest.raises((OSError, HTTPException)) as caught:
                    await asyncio.to_thread(read, unknown, scheme)
                assert not isinstance(caught.value, HTTPError)
    finally:
        lifecycle.Exports.open = kept
