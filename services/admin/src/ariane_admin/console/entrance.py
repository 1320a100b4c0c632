"""Who comes in: the session of each request, and the way to the page where people sign in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ariane_admin.console.entered import STRANGER, Entered, note_entered
from ariane_admin.console.guard import HEADERS
from ariane_admin.console.server import PEER
from ariane_admin.console.sessions import Session, Sessions
from ariane_servicekit.security.caller import Caller, CallerKind
from ariane_servicekit.security.gate.access_mode import AccessMode
from ariane_servicekit.security.gate.gate import Gate
from ariane_wire import Identity

COOKIE: Final = "__Host-ariane_session"
"""Browsers take a cookie of such a name only over TLS, for this host alone, from no other."""

SIGN_IN: Final = "/sign-in"
"""The page where people sign in; all paths below it are open to strangers."""

_OPEN: Final = (SIGN_IN, "/static")


@dataclass(frozen=True, slots=True)
class Reception:
    """How a console knows people."""

    gate: Gate
    """Knows users and whether the process is closed."""
    sessions: Sessions
    """Those who are in."""
    caller_of: Callable[[Identity], Caller]
    """Who a connection is, by its certificate."""

    @property
    def closed(self) -> bool:
        """Whether strangers see nothing."""
        return self.gate.mode is AccessMode.CLOSED

    def admits(self, caller: Caller) -> bool:
        """Whether a user may be here: known, wherever strangers are not let in."""
        return not self.closed or self.gate.knows(caller)

    def look(self) -> None:
        """End the sessions of users who are not known any more."""
        self.sessions.end_unknown(self.admits)

    def certified(self, request: Request) -> Caller | None:
        """The user whose certificate the connection shows; None without one."""
        caller = self.caller_of(peer_of(request))
        return caller if caller.kind is CallerKind.USER else None

    def entered(self, request: Request) -> Entered:
        """Who makes a request."""
        token = request.cookies.get(COOKIE, "")
        session = self.sessions.find(token) if token else None
        if session is None or not self._holds(session, request):
            return STRANGER
        return Entered(token, session.caller)

    def let_in(self, session: Session, response: Response) -> None:
        """Begin a session; the browser gets its cookie."""
        token = self.sessions.begin(session)
        response.set_cookie(COOKIE, token, path="/", secure=True, httponly=True, samesite="lax")

    def let_out(self, entered: Entered, response: Response) -> None:
        """End a session."""
        self.sessions.end(entered.token)
        response.delete_cookie(COOKIE, path="/", secure=True, httponly=True, samesite="lax")

    def _holds(self, session: Session, request: Request) -> bool:
        if not self.admits(session.caller):
            return False
        if not session.by_certificate:
            return True
        shown = self.certified(request)
        return shown is not None and shown.name == session.caller.name


class Entrance:
    """Lets requests in that come from users, and others to the page where people sign in.

    Args:
        app: The pages.
        reception: Knows people; None for a console that cannot: everybody is a stranger.
    """

    def __init__(self, app: ASGIApp, reception: Reception | None) -> None:
        self._app = app
        self._reception = reception

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Look at one request."""
        if scope["type"] != "http" or self._reception is None:
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        entered = self._reception.entered(request)
        note_entered(scope, entered)
        if entered.caller is None and self._reception.closed and not _is_open(scope["path"]):
            await _turned_away(request)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def peer_of(request: Request) -> Identity:
    """The other end of the connection of a request."""
    peer: Identity = request.scope["state"][PEER]
    return peer


def own_path(text: str) -> str:
    """A path of this console, where a browser may be sent; ``/`` in place of anything else."""
    parts = urlsplit(text)
    is_own = text.startswith("/") and not text.startswith("//") and "\\" not in text
    is_own = is_own and not parts.scheme and not parts.netloc and text.isprintable()
    return text if is_own and not parts.path.startswith(SIGN_IN) else "/"


def _is_open(path: str) -> bool:
    return any(path == each or path.startswith(f"{each}/") for each in _OPEN)


def _turned_away(request: Request) -> Response:
    if request.method not in {"GET", "HEAD"}:
        text = "Nobody is signed in, or no more: sign in, and do it again."
        return PlainTextResponse(text, 403, headers=HEADERS)
    # Encoded again: names may have "%", and the path is decoded.
    path = quote(request.scope["path"]) + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(f"{SIGN_IN}?{urlencode({'next': path})}", 303, headers=HEADERS)
