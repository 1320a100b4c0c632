"""Protection against requests that pages of other sites make with a user's browser."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from ariane_admin.console.entered import entered_by

COOKIE: Final = "ariane_console"
"""The cookie of a stranger's forms; over TLS, ``__Host-`` stands before it."""

FIELD: Final = "csrf"

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self';"
    " frame-ancestors 'none'; object-src 'none'",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}
"""Headers of every answer."""


class FormGuard:
    """Recognizes its own forms: their hidden field matches the browser's cookie."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def visitor(self, request: Request) -> str:
        """The session, the browser's cookie, or a new one: to what its forms are bound."""
        return _bound(request) or secrets.token_urlsafe(24)

    def token(self, visitor: str) -> str:
        """The hidden field of a browser's forms."""
        return self._sealed("form", visitor)

    def sealed(self, visitor: str, text: str) -> str:
        """The seal of a text that this console shows to one browser.

        Not as fields of forms are: a stranger chooses his cookie, and would have any text sealed.
        """
        return self._sealed("text", visitor, text)

    def _sealed(self, *parts: str) -> str:
        octets = "\0".join(parts).encode("utf-8", "surrogatepass")
        return hmac.new(self._key, octets, hashlib.sha256).hexdigest()

    def is_own(self, request: Request, given: str) -> bool:
        """Whether a submitted form was issued to this browser."""
        visitor = _bound(request)
        fetched = request.headers.get("sec-fetch-site", "same-origin")
        return (
            bool(visitor)
            and fetched in {"same-origin", "none"}
            and hmac.compare_digest(given.encode(), self.token(visitor).encode())
        )

    def seal(self, request: Request, response: Response, visitor: str) -> None:
        """Give the browser of a stranger its cookie."""
        if entered_by(request).token:
            return
        name = _cookie(request)
        secure = name != COOKIE
        response.set_cookie(
            name, visitor, path="/", secure=secure, httponly=True, samesite="strict"
        )


def _bound(request: Request) -> str:
    return entered_by(request).token or request.cookies.get(_cookie(request), "")


def _cookie(request: Request) -> str:
    return f"__Host-{COOKIE}" if request.url.scheme == "https" else COOKIE
