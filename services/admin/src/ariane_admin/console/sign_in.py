"""The page where people sign in, and what its forms do.

::

    by certificate   the connection shows one of a user; each further connection shows it, too
    by link          `ariane user login-link`, which a key or a certificate has proved, draws a
                     token that holds once, for two minutes
    by OpenID        the provider sends the browser back, see ``code_flow``
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ariane_admin.console.blocks import Block, Cell, Fields, Form, Input, Notice, Page, to
from ariane_admin.console.entered import entered_by
from ariane_admin.console.entrance import SIGN_IN, Reception, own_path, peer_of
from ariane_admin.console.guard import HEADERS
from ariane_admin.console.sessions import Session
from ariane_servicekit import get_logger
from ariane_servicekit.observability.logs import LineBudget
from ariane_servicekit.security.caller import Caller

if TYPE_CHECKING:
    from ariane_admin.console.code_flow import CodeFlow

BY_CERTIFICATE: Final = f"{SIGN_IN}/certificate"
BY_LINK: Final = f"{SIGN_IN}/link"
BY_OPENID: Final = f"{SIGN_IN}/openid"
FROM_OPENID: Final = f"{BY_OPENID}/return"
SIGN_OUT: Final = "/sign-out"

TOKEN: Final = "token"  # noqa: S105 - its name.
"""The field with a one-time token; scripts fill it from the fragment of a link."""

PENDING: Final = "__Host-ariane_pending"
NEXT: Final = "__Host-ariane_next"
"""Cookies of a browser whose user is at the OpenID provider: for the flow, and where to go then."""

PENDING_S: Final = 600

_REFUSED: Final = "That did not work: it does not hold here, or no more."
"""One text for all: a stranger does not learn who exists. The log has the cause."""

_log = get_logger(__name__)

Given = Mapping[str, str]
Act = Callable[[Request, Given], Awaitable[Response | Page]]


class SignIn:
    """Lets people in and out.

    Args:
        reception: Knows people.
        flow: With an OpenID provider; None without one.
        origin: Where browsers reach the console; empty for where they say that they do.
    """

    def __init__(
        self, reception: Reception, flow: CodeFlow | None = None, origin: str = ""
    ) -> None:
        self._reception = reception
        self._flow = flow
        self._origin = origin
        self._refusals = LineBudget(10)
        self.acts: dict[str, Act] = {
            BY_CERTIFICATE: self._by_certificate,
            BY_LINK: self._by_link,
            SIGN_OUT: self._out,
        }
        """What the forms do, by path. Each is given the fields of a form of this browser."""

    def page(self, request: Request, trouble: str = "") -> Page:
        """The page with all ways in."""
        where = own_path(request.query_params.get("next", "/"))
        inputs = [Input("next", value=where, kind="hidden")]
        blocks: list[Block] = [Notice(trouble, "bad")] if trouble else []
        certified = self._reception.certified(request)
        if certified is not None:
            button = f"Sign in as {certified.name}"
            blocks.append(_form("By your certificate", BY_CERTIFICATE, inputs, button))
        if self._flow is not None:
            way = Cell(
                f"Sign in at {self._flow.provider}", to(*BY_OPENID[1:].split("/"), next=where)
            )
            blocks.append(Fields("", [("By OpenID", way)]))
        one_time = Input(TOKEN, "Token of: ariane user login-link", kind="password", required=True)
        blocks.append(_form("By a one-time token", BY_LINK, [*inputs, one_time], "Sign in"))
        return Page("Sign in", blocks, status=403 if trouble else 200)

    async def _by_certificate(self, request: Request, given: Given) -> Response | Page:
        caller = self._reception.certified(request)
        if caller is None:
            return self._refused(request, "certificate", "the connection shows none of a user")
        return self.enter(request, caller, "certificate", given, by_certificate=True)

    async def _by_link(self, request: Request, given: Given) -> Response | Page:
        caller = self._reception.sessions.take_link(given.get(TOKEN, "").strip())
        if caller is None:
            return self._refused(request, "link", "unknown, used or expired token")
        return self.enter(request, caller, "link", given)

    def leave_for_openid(self, request: Request) -> Response:
        """Send the browser to the provider."""
        if self._flow is None:
            return RedirectResponse(SIGN_IN, 303, headers=HEADERS)
        address, kept = self._flow.begin(self._back(request))
        response = RedirectResponse(address, 303, headers=HEADERS)
        where = own_path(request.query_params.get("next", "/"))
        for name, value in ((PENDING, kept), (NEXT, quote(where, safe=""))):
            response.set_cookie(
                name, value, PENDING_S, path="/", secure=True, httponly=True, samesite="lax"
            )
        return response

    async def come_from_openid(self, request: Request) -> Response | Page:
        """Let in whom the provider has sent back."""
        if self._flow is None:
            return RedirectResponse(SIGN_IN, 303, headers=HEADERS)
        kept = request.cookies.get(PENDING, "")
        query = dict(request.query_params)
        peer = peer_of(request).peer
        try:
            caller = await self._flow.finish(kept, query, self._back(request), peer)
        except ValueError as error:
            return self._refused(request, "openid", str(error))
        done = self.enter(
            request, caller, "openid", {"next": unquote(request.cookies.get(NEXT, "/"))}
        )
        if isinstance(done, Response):
            for name in (PENDING, NEXT):
                done.delete_cookie(name, path="/", secure=True, httponly=True, samesite="lax")
        return done

    def _back(self, request: Request) -> str:
        return f"{self._origin or str(request.base_url).rstrip('/')}{FROM_OPENID}"

    async def _out(self, request: Request, _: Given) -> Response | Page:
        entered = entered_by(request)
        response = RedirectResponse(SIGN_IN, 303, headers=HEADERS)
        self._reception.let_out(entered, response)
        if entered.caller is not None:
            _log.info("console_signed_out", user=entered.caller.name, address=_address(request))
        return response

    def enter(
        self,
        request: Request,
        caller: Caller,
        by: str,
        given: Given,
        *,
        by_certificate: bool = False,
    ) -> Response | Page:
        """Begin the session of a user who has proved who he is.

        Args:
            request: That of the proof.
            caller: The user.
            by: How he has proved it, for the log.
            given: Fields of the form; ``next`` is where to go.
            by_certificate: Whether each connection must show his certificate.
        """
        if not self._reception.admits(caller):
            return self._refused(request, by, f"{caller.name} is not known here, or disabled")
        # A browser that signs in anew has one session, not two.
        self._reception.sessions.end(entered_by(request).token)
        response = RedirectResponse(own_path(given.get("next", "/")), 303, headers=HEADERS)
        self._reception.let_in(Session(caller, by_certificate), response)
        _log.info("console_signed_in", user=caller.name, by=by, address=_address(request))
        return response

    def _refused(self, request: Request, by: str, cause: str) -> Page:
        left_out = self._refusals.spend()
        if left_out is not None:
            more = {"suppressed_before": left_out} if left_out else {}
            address = _address(request)
            _log.warning("console_sign_in_refused", by=by, cause=cause, address=address, **more)
        return self.page(request, _REFUSED)


def _form(title: str, action: str, inputs: list[Input], button: str) -> Form:
    return Form(title, action, inputs, button, is_open=True)


def _address(request: Request) -> str:
    return request.client.host if request.client else ""
