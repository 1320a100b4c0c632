"""Tokens of an OpenID provider: which are taken, and what is fetched for them."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from ariane_servicekit import SettingsError, SystemClock
from ariane_servicekit.configuration.openid_settings import OpenIdSettings
from ariane_servicekit.configuration.settings import ServiceSettings
from ariane_servicekit.configuration.settings_sources import load_settings
from ariane_servicekit.security.identity import openid
from ariane_servicekit.security.identity.openid import OpenIdVerifier, fetch_once
from ariane_testkit.virtual_clock import VirtualClock

PEER = "ipv4:10.0.0.7:4"
RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()
KEYS = {
    "keys": [
        {**RSAAlgorithm.to_jwk(RSA.public_key(), as_dict=True), "kid": "r", "use": "sig"},
        {**ECAlgorithm.to_jwk(EC.public_key(), as_dict=True), "kid": "e"},
        {**OKPAlgorithm.to_jwk(ED.public_key(), as_dict=True), "kid": "d"},
        {**RSAAlgorithm.to_jwk(RSA.public_key(), as_dict=True), "kid": "x", "use": "enc"},
        {"kty": "oct", "k": "c2VjcmV0", "kid": "o"},
        {"kty": "what", "kid": "w"},
        "none",
    ]
}
SETTINGS = OpenIdSettings(
    openid_issuer="https://id.test",
    openid_audience="ariane",
    openid_keys_url="https://id.test/keys",
)


@pytest.fixture
def fetched():
    return []


@pytest.fixture
def clock():
    return VirtualClock(int(time.time() * 1000))


@pytest.fixture
def verifier(fetched, clock):
    def fetch(url):
        fetched.append(url)
        return json.dumps(KEYS).encode()

    return OpenIdVerifier(SETTINGS, clock, fetch)


def token(key=RSA, kid="r", algorithm="RS256", headers=None, **changes):
    now = int(time.time())
    claims = {
        "iss": "https://id.test",
        "aud": "ariane",
        "sub": "anna",
        "nbf": now - 5,
        "exp": now + 600,
        "groups": ["etl", "on call", 7],
        **changes,
    }
    claims = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(claims, key, algorithm, headers={"kid": kid, **(headers or {})})


@pytest.mark.parametrize(
    ("key", "kid", "algorithm"),
    [(RSA, "r", "RS256"), (RSA, "r", "PS512"), (EC, "e", "ES256"), (ED, "d", "EdDSA")],
)
async def test_a_token_of_the_issuer_is_its_user(verifier, fetched, key, kid, algorithm):
    for _ in range(3):
        caller, ends_ms = await verifier.verify(token(key, kid, algorithm), PEER)
    assert (caller.name, caller.groups, caller.peer) == ("anna", ("etl",), PEER)
    assert 590_000 < ends_ms - time.time() * 1000 <= 600_000
    assert fetched == ["https://id.test/keys"]


PUBLIC = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def by_public_key():
    """Signed by the public key as if it were a shared secret."""
    head = jwt.utils.base64url_encode(b'{"alg":"HS256","kid":"r"}')
    body = token().split(".")[1].encode()
    made = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    signature = made.sign(head + b"." + body, PUBLIC)
    return b".".join((head, body, jwt.utils.base64url_encode(signature))).decode()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: token(iss="https://other.test"),
        lambda: token(aud="other"),
        lambda: token(exp=int(time.time()) - 60),
        lambda: token(nbf=int(time.time()) + 60),
        *(lambda name=name: token(**{name: None}) for name in ("iss", "aud", "exp", "nbf", "sub")),
        lambda: token(sub="an na"),
        lambda: token(sub=7),
        lambda: token(groups={"a": 1}),
        lambda: token(groups=["g"] * 101),
        lambda: token(kid="nobody"),
        lambda: token(kid="x"),
        lambda: token(EC, "r", "ES256"),
        lambda: token(rsa.generate_private_key(65537, 2048)),
        lambda: token("c2VjcmV0" * 8, "o", "HS256"),
        lambda: token(None, "r", "none"),
        by_public_key,
        lambda: token(headers={"crit": ["bound-to"], "bound-to": "another"}),
        lambda: token()[:-3] + "abc",
        lambda: "a.b.c",
        lambda: token(exp=float("inf")),
        lambda: token(exp=[7]),
        lambda: token(exp="9" * 5000),
        lambda: ".".join(
            (
                jwt.utils.base64url_encode(b'{"alg":"RS256","kid":' + b"[" * 9000).decode(),
                *token().split(".")[1:],
            )
        ),
        lambda: "",
        lambda: "x" * 20_000,
    ],
)
async def test_an_invalid_token_is_refused_and_not_quoted(verifier, wrong):
    made = wrong()
    with pytest.raises(ValueError, match=r"token|key") as caught:
        await verifier.verify(made, PEER)
    assert len(made) < 10 or made not in str(caught.value)


async def test_a_token_ends_by_the_clock_that_was_given(verifier, clock):
    made = token()
    clock.advance(600 + 29)
    assert (await verifier.verify(made, PEER))[0].name == "anna"
    clock.advance(2)
    with pytest.raises(ValueError, match="has ended"):
        await verifier.verify(made, PEER)
    clock.advance(-700)
    with pytest.raises(ValueError, match="has not begun"):
        await verifier.verify(made, PEER)


async def test_unknown_keys_make_few_fetches_and_known_ones_outlive_the_provider(
    verifier, fetched, clock
):
    for _ in range(50):
        with pytest.raises(ValueError, match="no such key"):
            await verifier.verify(token(kid="nobody"), PEER)
    assert len(fetched) == 1
    made = token()
    clock.advance(openid.KEYS_S_MAX + 1)

    def away(_url):
        raise OSError("away")

    verifier._fetch = away
    caller, _ = await verifier.verify(made, PEER)
    assert caller.name == "anna"
    clock.advance(openid.FETCH_S_MIN + 1)
    with pytest.raises(ValueError, match="cannot be read: away"):
        await verifier.verify(token(kid="nobody"), PEER)


@pytest.mark.parametrize("content", [b"", b"[]", b'{"keys": 7}', b"[" * 100_000, b'{"keys": []}'])
async def test_an_unreadable_set_of_keys_is_refused(content):
    verifier = OpenIdVerifier(SETTINGS, SystemClock(), lambda _url: content)
    with pytest.raises(ValueError, match=r"cannot be read|no such key"):
        await verifier.verify(token(), PEER)


def test_only_the_one_page_is_read_and_not_more_than_is_taken(monkeypatch):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            paths.append(self.path)
            if self.path == "/moved":
                self.send_response(302)
                self.send_header("Location", "/keys")
                self.end_headers()
                return
            self.send_response(200)
            self.end_headers()
            size = 10 if self.path == "/keys" else openid.KEYS_BYTES_MAX + 1
            self.wfile.write(b" " * size)

        def log_message(self, *_):
            pass

    paths = []
    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    base = f"http://127.0.0.1:{server.server_port}"
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")  # It is not asked.
    try:
        assert fetch_once(f"{base}/keys") == b" " * 10
        with pytest.raises(OSError, match="302"):
            fetch_once(f"{base}/moved")
        with pytest.raises(ValueError, match="too long"):
            fetch_once(f"{base}/large")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert paths == ["/keys", "/moved", "/large"]


class ProbeSettings(ServiceSettings):
    """A service for tests."""

    service_name = "probe"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--openid-issuer", "x"], "openid_audience"),
        (["--openid-keys-url", "http://id.test/keys"], "pattern"),
        (["--openid-keys-url", "https://user:word@id.test/keys"], "pattern"),
        (["--openid-keys-url", "file:///etc/passwd"], "pattern"),
    ],
)
def test_settings_of_a_provider(words, text):
    with pytest.raises(SettingsError, match=text):
        load_settings(ProbeSettings, words, {})
