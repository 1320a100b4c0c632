"""Protection against requests that pages of other sites make with a user's browser."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

COOKIE: Final = "ariane_console"
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
        """The browser's cookie, or a new one."""
        return request.cookies.get(COOKIE) or secrets.token_urlsafe(24)

    def token(self, visitor: str) -> str:
        """The hidden field of a browser's forms."""
        return hmac.new(self._key, visitor.encode(), hashlib.sha256).hexdigest()

    def is_own(self, request: Request, given: str) -> bool:
        """Whether a submitted form was issued to this browser."""
        visitor = request.cookies.get(COOKIE, "")
        fetched = request.headers.get("sec-fetch-site", "same-origin")
        return (
            bool(visitor)
            and fetched in {"same-origin", "none"}
            and hmac.compare_digest(given.encode(), self.token(visitor).encode())
        )

    def seal(self, response: Response, visitor: str) -> None:
        """Give the browser its cookie."""
        response.set_cookie(COOKIE, visitor, httponly=True, samesite="strict", path="/")
