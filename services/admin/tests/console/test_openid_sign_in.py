"""Signing in to the console at an OpenID provider that is played, over real sockets."""

import asyncio
import base64
import hashlib
import json
import logging
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from grpc.aio import AioRpcError
from jwt.algorithms import ECAlgorithm

from ariane.admin.v1 import access_policy_service_pb2 as policy_pb
from ariane.admin.v1 import audit_service_pb2 as audit_pb
from ariane.admin.v1 import console_service_pb2 as console_pb
from ariane.admin.v1 import setting_service_pb2 as setting_pb
from ariane.admin.v1.access_policy_service_pb2_grpc import AccessPolicyServiceStub
from ariane.admin.v1.audit_service_pb2_grpc import AuditServiceStub
from ariane.admin.v1.console_service_pb2_grpc import ConsoleServiceStub
from ariane.admin.v1.setting_service_pb2_grpc import SettingServiceStub
from ariane_admin.console import code_flow
from ariane_admin.console.entrance import COOKIE
from ariane_servicekit import Address, SystemClock
from ariane_servicekit.security.identity.identify import SESSION_KEY
from ariane_testkit.access_rules import entries_of
from ariane_testkit.free_ports import free_port

ISSUER = "https://id.test"
CLIENT, SECRET = "the console", "s3cret: of the console"
KEY = ec.generate_private_key(ec.SECP256R1())


class Provider:
    """Gives codes to browsers, and one token for each code to who has its verifier."""

    def __init__(self):
        self.claims = {}
        """What tokens say besides, or instead."""
        self.codes = {}
        self.drawn = []
        """All that nobody else may read: codes, verifiers, tokens."""
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                path, _, query = self.path.partition("?")
                if path == "/keys":
                    jwk = ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True)
                    self.answer(200, {"keys": [{**jwk, "kid": "k"}]})
                    return
                self.send_response(302)
                self.send_header("Location", provider.code_for(dict(parse_qsl(query))))
                self.end_headers()

            def do_POST(self):
                form = self.rfile.read(int(self.headers["Content-Length"])).decode()
                told = provider.token_for(dict(parse_qsl(form)), self.headers["Authorization"])
                self.answer(400 if "error" in told else 200, told)

            def answer(self, status, told):
                content = json.dumps(told).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def code_for(self, asked):
        assert asked["response_type"] == "code"
        assert asked["client_id"] == CLIENT
        assert asked["code_challenge_method"] == "S256"
        assert asked["scope"] == "openid groups"
        code = secrets.token_urlsafe(8)
        self.codes[code] = asked
        self.drawn += [code, asked["state"], asked["nonce"]]
        told = urlencode({"code": code, "state": asked["state"], "iss": ISSUER})
        return f"{asked['redirect_uri']}?{told}"

    def token_for(self, form, authorization):
        asked = self.codes.pop(form["code"], None)
        pair = b"the%20console:s3cret%3A%20of%20the%20console"
        proof = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(proof).decode().rstrip("=")
        if (
            asked is None
            or form["redirect_uri"] != asked["redirect_uri"]
            or challenge != asked["code_challenge"]
            or authorization != f"Basic {base64.b64encode(pair).decode()}"
        ):
            return {"error": "invalid_grant"}
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": CLIENT, "sub": "olga", "groups": ["etl"], "iat": now}
        claims |= {"exp": now + 60, "nonce": asked["nonce"], **self.claims}
        claims = {name: value for name, value in claims.items() if value is not None}
        token = jwt.encode(claims, KEY, "ES256", headers={"kid": "k"})
        access = secrets.token_urlsafe(32)
        self.drawn += [token, access, form["code_verifier"], authorization]
        return {"token_type": "Bearer", "access_token": access, "id_token": token}

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def provider():
    played = Provider()
    yield played
    played.close()


@pytest.fixture
def admin_settings(provider):
    return {
        "openid_issuer": ISSUER,
        "openid_audience": "brokers",
        "openid_keys_url": f"{provider.url}/keys",
        "openid_authorization_endpoint": f"{provider.url}/authorize?tenant=7",
        "openid_token_endpoint": f"{provider.url}/token",
        "openid_client_id": CLIENT,
        "openid_client_secret": SECRET,
        "openid_scopes": "openid groups",
        "metrics_listen": Address("127.0.0.1", free_port()),
    }


@pytest.fixture
async def enter(admin_settings, closed):
    """Go to the provider and come back: a browser of its own, and the last answer."""

    async def run(change=lambda location: location, browser=None):
        browser = browser or await closed.visitor()
        left = await browser.get("/sign-in/openid", params={"next": "/topics"})
        async with httpx.AsyncClient() as outside:
            there = await outside.get(left.headers["location"])
        return browser, await browser.get(change(there.headers["location"]))

    return run


async def test_a_user_comes_in_with_the_rights_of_his_groups(closed, enter, provider):
    root = await closed.admin("root")
    policy = policy_pb.AccessPolicy(
        user="role:etl", entries=entries_of("allow CREATE topic orders; allow GET topic orders")
    )
    await AccessPolicyServiceStub(root).UpdateAccessPolicy(
        policy_pb.UpdateAccessPolicyRequest(policy=policy)
    )
    page = await (await closed.visitor()).get("/sign-in")
    assert "Sign in at id.test" in page.text

    async def entered():
        browser, back = await enter()
        entered.browser, entered.back = browser, back
        return back.status_code, back.headers.get("location")

    await closed.until(entered, (303, "/topics"))
    browser = entered.browser
    assert COOKIE in entered.back.headers["set-cookie"]
    assert "olga" in (await browser.get("/topics")).text
    # Brokers judge the groups, too.
    made = await browser.change("/topics/create", topic="orders", queues="1")
    assert "Topic orders is there." in made.text
    assert "orders" in (await browser.get("/topics")).text
    denied = await browser.post(
        "/topics/create",
        data={"csrf": await browser.token(), "topic": "bills", "queues": "1", "confirmed": "1"},
    )
    assert denied.status_code == 403
    # What was used once holds no more, and nobody comes in whom no group makes known.
    code = urlsplit(str(entered.back.url)).query
    again = await browser.get(f"/sign-in/openid/return?{code}")
    assert again.status_code == 403
    provider.claims = {"groups": ["others"]}
    stranger, back = await enter()
    assert back.status_code == 403
    assert (await stranger.get("/topics")).status_code == 303


def with_query(**changes):
    def change(location):
        parts = urlsplit(location)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()} | changes
        return parts._replace(query=urlencode({k: v for k, v in query.items() if v})).geturl()

    return change


async def test_a_sign_in_that_comes_back_with_other_values_is_refused(closed, enter, provider):
    provider.claims = {"sub": "root"}
    browser, back = await enter()
    assert back.status_code == 303, "what is told wrong below is all that is wrong"
    assert (await browser.get("/topics")).status_code == 200
    wrong_ways = [
        with_query(state=""),
        with_query(state="x" * 43),
        with_query(code=""),
        with_query(code="", error="access_denied\x1b[31m"),
        with_query(code="a" * 5000),
        with_query(code="of nobody"),
        with_query(iss="https://evil.test"),
    ]
    browser = await closed.visitor()
    for change in wrong_ways:
        _, back = await enter(change, browser)
        assert back.status_code == 403
        assert "does not hold here" in back.text
        assert (await browser.get("/topics")).status_code == 303
    now = int(time.time())
    for claims in (
        {"iss": "https://evil.test"},
        {"aud": "brokers"},
        {"aud": [CLIENT, "brokers"]},
        {"aud": [CLIENT, "brokers"], "azp": "brokers"},
        {"nonce": "x"},
        {"nonce": None},
        {"nonce": 7},
        {"exp": now - 60},
        {"iat": None},
        {"sub": "ro ot"},
    ):
        provider.claims = {"sub": "root", **claims}
        _, back = await enter(browser=browser)
        assert back.status_code == 403, claims
        assert (await browser.get("/topics")).status_code == 303
    # A code of another browser, with the state of this one: login by somebody else's hand.
    provider.claims = {"sub": "root"}
    other = await closed.visitor()
    left = await other.get("/sign-in/openid")
    [state] = parse_qs(urlsplit(left.headers["location"]).query)["state"]
    _, back = await enter(with_query(state=state), browser)
    assert back.status_code == 403
    async with httpx.AsyncClient() as outside:
        there = await outside.get(left.headers["location"])
    code = parse_qs(urlsplit(there.headers["location"]).query)["code"][0]
    _, back = await enter(with_query(code=code), browser)
    assert back.status_code == 403


async def test_a_provider_that_is_away_lets_nobody_in(enter, provider):
    def gone(location):
        provider.close()
        return location

    browser, back = await enter(gone)
    assert back.status_code == 403
    assert (await browser.get("/topics")).status_code == 303


@pytest.mark.slow
async def test_a_session_ends_with_the_token_of_its_provider(enter, provider):
    provider.claims = {"sub": "root", "exp": int(time.time()) + 3}
    browser, back = await enter()
    assert back.status_code == 303
    assert (await browser.get("/topics")).status_code == 200
    async with asyncio.timeout(30):
        while (await browser.get("/topics")).status_code == 200:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    assert (await browser.get("/topics")).headers["location"].startswith("/sign-in?")
    assert time.time() >= provider.claims["exp"]


async def test_nothing_that_is_read_or_kept_has_a_secret(
    closed, enter, provider, admin_settings, capfd, caplog, tmp_path
):
    caplog.set_level(logging.INFO)
    planted = "hunter2-of-a-planted-secret"
    provider.claims = {"sub": "root"}
    root = await closed.admin("root")
    link = await ConsoleServiceStub(root).CreateSignInLink(console_pb.CreateSignInLinkRequest())
    token = link.link.partition("#")[2]
    by_openid, back = await enter()
    by_link = await closed.visitor()
    assert back.status_code == (await by_link.sign_in("link", token=token)).status_code == 303
    read = []
    for topic, browser in {"t-1": by_openid, "t-2": by_link}.items():
        for path in ("/", "/topics", "/audit", "/settings", "/cluster", "/sign-in"):
            page = await browser.get(path)
            assert page.status_code == 200
            read.append(page.text)
        made = await browser.change("/topics/create", topic=topic, queues="1")
        assert f"Topic {topic} is there." in made.text
    # What is wrong is shown to nobody, either.
    stranger = await closed.visitor()
    wrong = [
        await stranger.sign_in("link", token=planted),
        (await enter(with_query(code=planted)))[1],
    ]
    wrong.append(await stranger.get("/topics", headers={"cookie": f"{COOKIE}={planted}"}))
    wrong.append(await stranger.get(f"/sign-in/openid/return?code={planted}&state={planted}"))
    read += [each.text + str(each.headers) for each in wrong]
    with pytest.raises(AioRpcError) as refused:
        await ConsoleServiceStub(root).CreateSignInLink(
            console_pb.CreateSignInLinkRequest(), metadata=((SESSION_KEY, planted),)
        )
    read.append(str(refused.value))
    settings = await SettingServiceStub(root).ListSettings(
        setting_pb.ListSettingsRequest(service="admin")
    )
    assert "openid_client_secret" in str(settings)
    trail = await AuditServiceStub(root).ListAuditEntries(audit_pb.ListAuditEntriesRequest())
    assert "CreateTopic" in str(trail)
    async with httpx.AsyncClient() as outside:
        metrics = await outside.get(f"http://{admin_settings['metrics_listen']}/metrics")
    assert "ariane_" in metrics.text
    logs = capfd.readouterr()
    assert "console_signed_in" in logs.out
    assert "console_sign_in_refused" in logs.out
    kept = [path.read_bytes() for path in (tmp_path / "admin").rglob("*") if path.is_file()]
    read += [str(settings), str(trail), metrics.text, logs.out, logs.err]
    # Those of the browsers of this test are their own.
    read += [each.getMessage() for each in caplog.records if not each.name.startswith("http")]
    read += [content.decode("latin-1") for content in kept]
    secret = {planted, SECRET, token, *provider.drawn}
    secret |= {browser.cookies[COOKIE] for browser in (by_openid, by_link)}
    assert len(secret) > 8
    assert [each for each in secret if any(each in text for text in read)] == []


async def test_codes_that_a_stranger_makes_up_keep_nobody_out_for_long(monkeypatch):
    asked, answers = [], threading.Event()

    def fetch(_url, _form, _headers):
        asked.append(len(asked))
        assert answers.wait(60)
        raise OSError("no such code")

    monkeypatch.setattr(code_flow, "fetch_once", fetch)
    settings = SimpleNamespace(
        openid_issuer=ISSUER,
        openid_client_id=CLIENT,
        openid_client_secret=None,
        openid_token_endpoint="https://id.test/token",
    )
    flow = code_flow.CodeFlow(settings, SystemClock())

    def sign_in(host):
        query = {"state": "s", "code": "c"}
        peer = f"ipv4:{host}:1"
        return asyncio.create_task(flow.finish("s.n.v", query, "https://console", peer))

    strangers = [sign_in("192.0.2.7") for _ in range(1000)]
    user = sign_in("198.51.100.1")
    others = [sign_in(f"203.0.113.{number}") for number in range(100)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert sum(not each.done() for each in strangers) == code_flow.WAITING_OF_HOST_MAX
    assert not user.done()
    waiting = sum(not each.done() for each in (*strangers, user, *others))
    assert waiting == code_flow.WAITING_MAX
    answers.set()
    done = await asyncio.gather(*strangers, user, *others, return_exceptions=True)
    assert len(asked) == code_flow.WAITING_MAX
    assert sum("wait for the provider" in str(each) for each in done) == 1101 - len(asked)
    assert flow._places.count == 0
