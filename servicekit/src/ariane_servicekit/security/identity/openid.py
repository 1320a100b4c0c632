"""Tokens of an OpenID provider: JSON Web Tokens, signed by keys from one configured URL."""

from __future__ import annotations

import asyncio
import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import jwt

from ariane_servicekit.clock import Clock
from ariane_servicekit.configuration.openid_settings import OpenIdSettings
from ariane_servicekit.security.caller import Caller, CallerKind
from ariane_servicekit.security.identity.logins import LOGIN_MS_MAX
from ariane_servicekit.security.tls.member_names import USER_WORD

ALGORITHMS: Final = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "EdDSA",
)
"""Asymmetric ones only: a public key must never be taken for a secret."""

REQUIRED: Final = ("iss", "aud", "exp", "nbf")
"""Of tokens by which users log in. Tokens of a sign-in, which are used at once, have no ``nbf``."""

REQUIRED_OF_SIGN_IN: Final = ("iss", "aud", "exp", "iat", "nonce")
TOKEN_BYTES_MAX: Final = 16 << 10
GROUPS_MAX: Final = 100
LEEWAY_S: Final = 30.0
"""How far clocks may be apart."""

KEYS_BYTES_MAX: Final = 256 << 10
KEYS_MAX: Final = 100
KEYS_S_MAX: Final = 600.0
"""Keys are fetched again when they are older."""

FETCH_S_MIN: Final = 10.0
"""The least time between two fetches: tokens with unknown keys cannot have more made."""

FETCH_S_MAX: Final = 5.0

Fetch = Callable[[str], bytes]


class OpenIdVerifier:
    """Verifies tokens of one issuer."""

    def __init__(self, settings: OpenIdSettings, clock: Clock, fetch: Fetch | None = None) -> None:
        """Fetch nothing yet.

        Args:
            settings: Issuer, audience, and where the keys are.
            clock: Says whether a token holds, and how old keys are.
            fetch: Reads a URL; None for the network.
        """
        self._settings = settings
        self._clock = clock
        self._fetch = fetch or fetch_once
        self._keys: Mapping[str, jwt.PyJWK] = {}
        self._fetched_s = float("-inf")
        self._fetching = asyncio.Lock()

    async def verify(self, token: str, peer: str) -> tuple[Caller, int]:
        """The user of a token, and when it ends, in ms since 1970.

        Raises:
            ValueError: The token does not hold; the text is for the log, and has nothing of it.
        """
        claims = await self.claims(token, self._settings.openid_audience, REQUIRED)
        ends_ms = claims["exp"] * 1000
        return self.caller_of(claims, peer), min(ends_ms, self._clock.now_ms() + LOGIN_MS_MAX)

    async def claims(self, token: str, audience: str, required: Sequence[str]) -> dict[str, Any]:
        """What a token says that the issuer has signed; ``exp`` is a whole number.

        Args:
            token: The token.
            audience: What it must be for.
            required: Claims that it must have.

        Raises:
            ValueError: The token does not hold; the text has nothing of it.
        """
        if len(token) > TOKEN_BYTES_MAX:
            raise ValueError("the token is too long")
        try:
            header = jwt.get_unverified_header(token)
            algorithm, key_id = header.get("alg"), header.get("kid", "")
            if algorithm not in ALGORITHMS:
                raise ValueError("the token is signed by an algorithm that is not taken")
            if "crit" in header:
                # What must be understood or refused; older versions of the library pass over it.
                raise ValueError("the token asks for an extension that is not known here")
            key = await self._key(str(key_id))
            claims: dict[str, Any] = jwt.decode(
                token,
                key.key,
                algorithms=[algorithm],
                audience=audience,
                issuer=self._settings.openid_issuer,
                # Times are judged by our clock: the library knows the machine's only.
                options={
                    "require": list(required),
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
        except (jwt.PyJWTError, TypeError, OverflowError, RecursionError) as error:
            # Foreign text: a key of another kind, numbers that are none, lists in lists in lists.
            raise ValueError(f"the token does not hold: {type(error).__name__}") from None
        claims["exp"] = self._checked_end(claims)
        return claims

    def _checked_end(self, claims: Mapping[str, Any]) -> int:
        """When a token ends, in s since 1970, if it holds now by the clock.

        Raises:
            ValueError: It does not hold now, or a time is no number.
        """
        try:
            end_s = int(claims["exp"])
            begin_s = max(int(claims.get(each, 0)) for each in ("nbf", "iat"))
        except (TypeError, ValueError, OverflowError):
            raise ValueError("the token has a time that is no number") from None
        if not begin_s - LEEWAY_S <= self._clock.now_ms() / 1000 < end_s + LEEWAY_S:
            raise ValueError("the token has ended, or has not begun")
        return end_s

    def caller_of(self, claims: Mapping[str, Any], peer: str) -> Caller:
        """The user that claims name, until the token ends.

        Raises:
            ValueError: They name none that can be one here.
        """
        user = claims.get(self._settings.openid_user_claim)
        if not isinstance(user, str) or re.fullmatch(USER_WORD, user) is None:
            raise ValueError("the token names no user that can be one here")
        groups = claims.get(self._settings.openid_groups_claim, [])
        if not isinstance(groups, list) or len(groups) > GROUPS_MAX:
            raise ValueError("the token has no list of groups, or too many")
        known = tuple(
            each for each in groups if isinstance(each, str) and re.fullmatch(USER_WORD, each)
        )
        return Caller(CallerKind.USER, peer, user, groups=known, ends_ms=claims["exp"] * 1000)

    async def _key(self, key_id: str) -> jwt.PyJWK:
        """A key of the issuer.

        Raises:
            ValueError: The issuer has none of this id, or does not answer.
        """
        key = self._keys.get(key_id)
        age_s = self._clock.monotonic() - self._fetched_s
        if key is None or age_s > KEYS_S_MAX:
            async with self._fetching:
                if self._clock.monotonic() - self._fetched_s > FETCH_S_MIN:
                    self._fetched_s = self._clock.monotonic()
                    await self._fetch_keys(fails=key is None)
            key = self._keys.get(key_id)
        if key is None:
            raise ValueError("the issuer has no such key")
        return key

    async def _fetch_keys(self, *, fails: bool) -> None:
        try:
            content = await asyncio.to_thread(self._fetch, self._settings.openid_keys_url)
            self._keys = _keys_in(content)
        except (OSError, ValueError, jwt.PyJWTError) as error:
            # Keys that are known hold on: the provider may be away for a while.
            if fails:
                raise ValueError(f"the issuer's keys cannot be read: {error}") from None


def fetch_once(
    url: str, form: bytes | None = None, headers: Mapping[str, str] = MappingProxyType({})
) -> bytes:
    """Read a URL in bounded time: no redirection, no proxy of the environment, no more than fits.

    Args:
        url: The URL.
        form: What is posted; None to get.
        headers: Sent along.

    Raises:
        OSError: It cannot be read.
        ValueError: It is too long.
    """
    opener = urllib.request.build_opener(_NoRedirection, urllib.request.ProxyHandler({}))
    asked = urllib.request.Request(url, form, dict(headers))  # noqa: S310 - by the settings.
    with opener.open(asked, timeout=FETCH_S_MAX) as answer:
        content: bytes = answer.read(KEYS_BYTES_MAX + 1)
    if len(content) > KEYS_BYTES_MAX:
        raise ValueError("they are too long")
    return content


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    """Follows none: then the answer is an error."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Make no further request."""


def _keys_in(content: bytes) -> dict[str, jwt.PyJWK]:
    """The keys of a JWK set by their ids; those for other uses are left out.

    Raises:
        ValueError: It is no set.
    """
    try:
        answer = json.loads(content)
    except RecursionError:
        raise ValueError("they are nested too deeply") from None
    rows = answer.get("keys") if isinstance(answer, dict) else None
    if not isinstance(rows, list) or len(rows) > KEYS_MAX:
        raise ValueError("they are no JWK set, or too many")
    keys = {}
    for row in rows:
        if not isinstance(row, dict) or row.get("use", "sig") != "sig" or row.get("kty") == "oct":
            continue
        try:
            keys[str(row.get("kid", ""))] = jwt.PyJWK.from_dict(row)
        except jwt.PyJWTError:
            continue  # Of a kind that is not known here.
    return keys
