"""Signing in at an OpenID provider: the code flow with PKCE.

::

    browser -> /sign-in/openid          draws state, nonce and verifier, which a cookie keeps
            -> the provider             asks for a code: state, nonce, SHA-256 of the verifier
            -> /sign-in/openid/return   code and state; the state must be that of this browser
    admin   -> the provider             code and verifier, for a token with the nonce, signed

A code that somebody else brings is of no use: it belongs to the verifier of another browser.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import secrets
from collections.abc import Mapping
from hmac import compare_digest
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from ariane_admin.service.console_settings import ConsoleSettings
from ariane_servicekit.clock import Clock
from ariane_servicekit.security.caller import Caller
from ariane_servicekit.security.identity.openid import (
    REQUIRED_OF_SIGN_IN,
    OpenIdVerifier,
    fetch_once,
)
from ariane_wire.server.host_places import HostPlaces
from ariane_wire.transport.peers import host_of

EXCHANGES_MAX: Final = 4
"""Codes that are exchanged at a time; others wait."""

WAITING_MAX: Final = 64
WAITING_OF_HOST_MAX: Final = 16
"""Sign-ins that are in work or wait, and those from one host; further ones do not hold. A stranger
makes up codes without end, and would have everybody wait for them."""

_WORD_LENGTH_MAX: Final = 4096
"""Of a code: longer than any provider's."""


class _Pending(NamedTuple):
    """What a browser keeps while its user is at the provider. Each is one word."""

    state: str
    """Comes back with the code."""
    nonce: str
    """Stands in the token."""
    verifier: str
    """Proves that the code was asked for from here."""

    @classmethod
    def drawn(cls) -> _Pending:
        """Draw one."""
        return cls(*(secrets.token_urlsafe(32) for _ in range(3)))

    @classmethod
    def of(cls, text: str) -> _Pending | None:
        """Read one from a cookie; None if it is none."""
        words = text.split(".")
        return cls(*words) if len(words) == len(cls._fields) and all(words) else None


class CodeFlow:
    """With one provider."""

    def __init__(self, settings: ConsoleSettings, clock: Clock) -> None:
        """Ask nothing yet."""
        self._settings = settings
        self._verifier = OpenIdVerifier(settings, clock)
        self._exchanges = asyncio.Semaphore(EXCHANGES_MAX)
        self._places = HostPlaces(WAITING_MAX, WAITING_OF_HOST_MAX)

    @property
    def provider(self) -> str:
        """The name of the provider's host, for people."""
        return urlsplit(self._settings.openid_issuer).netloc or self._settings.openid_issuer

    def begin(self, back: str) -> tuple[str, str]:
        """Where the browser goes, and what it keeps meanwhile, one word.

        Args:
            back: Where the provider sends it.
        """
        settings, pending = self._settings, _Pending.drawn()
        challenge = hashlib.sha256(pending.verifier.encode()).digest()
        asked = {
            "response_type": "code",
            "client_id": settings.openid_client_id,
            "redirect_uri": back,
            "scope": settings.openid_scopes,
            "state": pending.state,
            "nonce": pending.nonce,
            "code_challenge": base64.urlsafe_b64encode(challenge).decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        endpoint = settings.openid_authorization_endpoint
        joint = "&" if urlsplit(endpoint).query else "?"
        return f"{endpoint}{joint}{urlencode(asked)}", ".".join(pending)

    async def finish(self, kept: str, query: Mapping[str, str], back: str, peer: str) -> Caller:
        """The user whom the provider has sent back.

        Args:
            kept: What the browser has kept; anything else, if it was not sent out from here.
            query: The query that it came back with.
            back: Where it came back.
            peer: Its address in gRPC's form.

        Raises:
            ValueError: Nobody was signed in; the text is for the log.
        """
        pending = _Pending.of(kept)
        if pending is None or not compare_digest(
            query.get("state", "").encode(), pending.state.encode()
        ):
            raise ValueError("the browser comes back with what it was not sent out with")
        if query.get("iss", self._settings.openid_issuer) != self._settings.openid_issuer:
            raise ValueError("another issuer has sent the browser back")
        code = query.get("code", "")
        if not 0 < len(code) <= _WORD_LENGTH_MAX:
            raise ValueError(f"the provider gave no code: {query.get('error', '')[:64]!r}")
        host = host_of(peer)
        if not self._places.enter(host):
            raise ValueError(
                f"{WAITING_MAX} sign-ins, or {WAITING_OF_HOST_MAX} of this host, wait for the"
                " provider already; this one is refused"
            )
        try:
            async with self._exchanges:
                token = await asyncio.to_thread(self._exchange, code, pending.verifier, back)
        finally:
            self._places.leave(host)
        return await self._user_of(token, pending.nonce, peer)

    async def _user_of(self, token: str, nonce: str, peer: str) -> Caller:
        own = self._settings.openid_client_id
        claims = await self._verifier.claims(token, own, REQUIRED_OF_SIGN_IN)
        if not compare_digest(str(claims["nonce"]).encode(), nonce.encode()):
            raise ValueError("the token was made for another sign-in")
        for_many = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if claims.get("azp", None if for_many else own) != own:
            raise ValueError("the token was made for another client")
        return self._verifier.caller_of(claims, peer)

    def _exchange(self, code: str, verifier: str, back: str) -> str:
        """A token for a code. Blocks.

        Raises:
            ValueError: The provider gave none; the text has nothing of code and secret.
        """
        settings = self._settings
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": back,
            "client_id": settings.openid_client_id,
            "code_verifier": verifier,
        }
        headers = {"Accept": "application/json"}
        if settings.openid_client_secret is not None:
            secret = settings.openid_client_secret.get_secret_value()
            pair = f"{quote(settings.openid_client_id, safe='')}:{quote(secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        endpoint = settings.openid_token_endpoint
        try:
            answer: Any = json.loads(fetch_once(endpoint, urlencode(form).encode(), headers))
        except (OSError, ValueError, RecursionError) as error:
            raise ValueError(f"the provider gave no token: {type(error).__name__}") from None
        token = answer.get("id_token") if isinstance(answer, dict) else None
        if not isinstance(token, str):
            raise ValueError("the provider gave no token of a sign-in")  # noqa: TRY004
        return token
