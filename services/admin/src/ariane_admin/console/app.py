"""The parts of the console: pages, changes, and their protection."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from hmac import compare_digest
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import urlencode, urlsplit

from grpc import StatusCode
from grpc.aio import AioRpcError
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from ariane_admin.console.api import CALL_S_MAX, Api, Asker
from ariane_admin.console.blocks import Block, Cell, Fields, Form, Input, Notice, Page
from ariane_admin.console.changing.change import (
    Change,
    Given,
    NotDone,
    Unfinished,
    WronglyFilled,
)
from ariane_admin.console.changing.changes import CHANGES
from ariane_admin.console.entered import entered_by
from ariane_admin.console.entrance import SIGN_IN, Entrance, Reception
from ariane_admin.console.forms import (
    FORM_BYTES_MAX,
    STRANGERS_FORM_BYTES_MAX,
    FormTooLarge,
    fields_of,
)
from ariane_admin.console.guard import FIELD, HEADERS, FormGuard
from ariane_admin.console.pages import (
    alerts,
    filters,
    groups,
    limits,
    messages,
    operations,
    overview,
    settings,
    topics,
    traces,
)
from ariane_admin.console.sign_in import BY_OPENID, FROM_OPENID, Act, SignIn
from ariane_record.control_characters import shown_lines
from ariane_servicekit.security.identity.identify import acting_text

Show = Callable[[Asker, Request], Awaitable[Page]]

SECTIONS: Final = (
    ("Overview", "/", "o"),
    ("Topics", "/topics", "t"),
    ("Groups", "/groups", "g"),
    ("Clients", "/clients", "c"),
    ("Messages", "/messages", "m"),
    ("Traces", "/traces", "r"),
    ("Dead letters", "/dead-letters", "d"),
    ("Delayed", "/delayed", "l"),
    ("Transactions", "/transactions", "x"),
    ("Filters", "/filters", "f"),
    ("Cluster", "/cluster", "b"),
    ("Alerts", "/alerts", "e"),
    ("Limits", "/limits", "q"),
    ("Audit", "/audit", "a"),
    ("Settings", "/settings", "s"),
)
"""The menu: name, path, and the key to press after g."""

Clusters: TypeAlias = Callable[[], Awaitable[Sequence[str]]]

PAGES: Final[Mapping[str, Show]] = {
    "/": overview.overview,
    "/topics": topics.topics,
    "/topics/{topic}": topics.topic,
    "/groups": groups.groups,
    "/groups/{group}": groups.group,
    "/clients": groups.clients,
    "/client": groups.client,
    "/messages": messages.messages,
    "/messages/{topic}/{message_id}": messages.message,
    "/traces": traces.traces,
    "/dead-letters": messages.dead_letters,
    "/delayed": messages.delayed,
    "/transactions": operations.transactions,
    "/filters": filters.filters,
    "/filters/{name}/{version}": filters.one_filter,
    "/cluster": operations.cluster,
    "/cluster/{broker}": operations.broker,
    "/alerts": alerts.alerts,
    "/limits": limits.limits,
    "/audit": operations.audit,
    "/audit/{sequence:int}": operations.entry,
    "/settings": settings.settings,
}

_HERE: Final = Path(__file__).parent

STATUSES: Final = {
    StatusCode.NOT_FOUND: 404,
    StatusCode.INVALID_ARGUMENT: 400,
    StatusCode.OUT_OF_RANGE: 400,
    StatusCode.UNAUTHENTICATED: 403,
    StatusCode.PERMISSION_DENIED: 403,
    StatusCode.ALREADY_EXISTS: 409,
    StatusCode.FAILED_PRECONDITION: 409,
    StatusCode.ABORTED: 409,
    StatusCode.RESOURCE_EXHAUSTED: 429,
    StatusCode.UNIMPLEMENTED: 501,
    StatusCode.UNAVAILABLE: 503,
    StatusCode.DEADLINE_EXCEEDED: 504,
}


class Console:
    """Pages for browsers over the API.

    Args:
        api: The API.
        hosts: Host names that browsers may use for it.
        reception: Knows people; None for a console that cannot.
        sign_in: Lets them in; None with the reception.
        clusters: Returns the names of the clusters that changes go to, for prompts.
    """

    def __init__(
        self,
        api: Api,
        hosts: Collection[str],
        reception: Reception | None = None,
        sign_in: SignIn | None = None,
        *,
        clusters: Clusters,
    ) -> None:
        self._api = api
        self._sign_in = sign_in
        self._clusters = clusters
        self._guard = FormGuard()
        loader = FileSystemLoader(_HERE / "templates")
        environment = Environment(
            loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True
        )
        environment.filters["shown"] = shown_lines
        self._template = environment.get_template("page.html")
        self.app = Starlette(
            routes=[
                Mount("/static", StaticFiles(directory=_HERE / "static")),
                Route("/dead-letters/export", self._export),
                Route("/definitions/export", self._definitions),
                *(Route(path, self._shower(path, show)) for path, show in PAGES.items()),
                *(
                    Route(path, self._changer(path, change), methods=["POST"])
                    for path, change in CHANGES.items()
                ),
                *self._ways_in(),
                Route("/{path:path}", self._nowhere),
            ],
            middleware=[
                Middleware(TrustedHostMiddleware, allowed_hosts=sorted(hosts)),
                Middleware(Entrance, reception=reception),
            ],
        )

    def _shower(self, path: str, show: Show) -> Callable[[Request], Awaitable[Response]]:
        async def respond(request: Request) -> Response:
            try:
                page = await show(self._asker(request), request)
            except AioRpcError as error:
                page = _in_section(path, _failure(error))
            except ValueError as error:
                page = Page("Not understood", [Notice(str(error), "bad")], status=400)
                page = _in_section(path, page)
            return self._answer(request, page)

        return respond

    def _ways_in(self) -> list[Route]:
        sign_in = self._sign_in
        if sign_in is None:
            return []

        async def show(request: Request) -> Response:
            return self._answer(request, sign_in.page(request))

        async def leave(request: Request) -> Response:
            return sign_in.leave_for_openid(request)

        async def come_back(request: Request) -> Response:
            done = await sign_in.come_from_openid(request)
            return self._answer(request, done) if isinstance(done, Page) else done

        return [
            Route(SIGN_IN, show),
            Route(BY_OPENID, leave),
            Route(FROM_OPENID, come_back),
            *(
                Route(path, self._actor(act), methods=["POST"])
                for path, act in sign_in.acts.items()
            ),
        ]

    def _actor(self, act: Act) -> Callable[[Request], Awaitable[Response]]:
        async def respond(request: Request) -> Response:
            given = await self._given(request, STRANGERS_FORM_BYTES_MAX)
            if isinstance(given, Page):
                return self._answer(request, given)
            done = await act(request, given)
            return self._answer(request, done) if isinstance(done, Page) else done

        return respond

    async def _given(self, request: Request, bytes_max: int) -> dict[str, str] | Page:
        """The fields of a form of this browser; or why it is none."""
        try:
            given = await fields_of(request, bytes_max)
        except FormTooLarge:
            return _refused("The form holds too much.", 413)
        except TimeoutError:
            return _refused("The form came too slowly.", 408)
        if not self._guard.is_own(request, given.pop(FIELD, "")):
            text = "This form was not made for this browser: go back, load it anew."
            return _refused(text, 403)
        return given

    def _changer(self, path: str, change: Change) -> Callable[[Request], Awaitable[Response]]:
        async def respond(request: Request) -> Response:
            given = await self._given(request, FORM_BYTES_MAX)
            if isinstance(given, Page):
                return self._answer(request, given)
            if not given.pop("confirmed", ""):
                return await self._asked_first(request, path, change, given)
            return await self._perform(request, path, change, given)

        return respond

    async def _asked_first(
        self, request: Request, path: str, change: Change, given: Given
    ) -> Response:
        try:
            preview = await change.preview(self._asker(request), given) if change.preview else ()
            page = _question(path, change, given, preview, await self._clusters())
        except AioRpcError as error:
            page = _failure(error)
        except (WronglyFilled, ValueError) as error:
            page = _refused(str(error), 400)
        except KeyError as missing:
            page = _refused(f"{missing} is missing.", 400)
        return self._answer(request, page)

    async def _perform(self, request: Request, path: str, change: Change, given: Given) -> Response:
        try:
            done = await change.perform(self._asker(request, change.within_s), given)
        except AioRpcError as error:
            page = _failure(error)
        except NotDone as error:
            page = _not_done(error)
        except (WronglyFilled, ValueError) as error:
            page = _refused(str(error), 400)
        except KeyError as missing:
            page = _refused(f"{missing} is missing.", 400)
        else:
            if isinstance(done, Unfinished):
                return self._answer(request, _rest(path, change, done))
            return self._moved(request, change.back(given), done)
        return self._answer(request, page)

    async def _export(self, request: Request) -> Response:
        lines = messages.exported(self._asker(request), request)
        try:
            first = await anext(lines, b"")
        except AioRpcError as error:
            return self._answer(request, _failure(error))
        except NotDone as error:
            return self._answer(request, _not_done(error))

        async def all_lines() -> AsyncIterator[bytes]:
            yield first
            async for line in lines:
                yield line

        headers = {**HEADERS, "Content-Disposition": 'attachment; filename="dead-letters.jsonl"'}
        return StreamingResponse(all_lines(), media_type="application/x-ndjson", headers=headers)

    async def _definitions(self, request: Request) -> Response:
        try:
            text = await settings.definitions(self._asker(request))
        except AioRpcError as error:
            return self._answer(request, _failure(error))
        headers = {**HEADERS, "Content-Disposition": 'attachment; filename="definitions.json"'}
        return Response(text, media_type="application/json", headers=headers)

    async def _nowhere(self, request: Request) -> Response:
        return self._answer(request, _refused("There is no such page.", 404))

    def _asker(self, request: Request, within_s: float = CALL_S_MAX) -> Asker:
        client = request.client
        origin = f"{client.host}:{client.port}" if client else ""
        caller = acting_text(entered_by(request).caller, client.host if client else "")
        return Asker(self._api, origin, within_s, caller)

    def _answer(self, request: Request, page: Page) -> Response:
        visitor = self._guard.visitor(request)
        caller = entered_by(request).caller
        text = self._template.render(
            page=page,
            sections=SECTIONS,
            token=self._guard.token(visitor),
            done=self._done(request),
            user=caller.name if caller else "",
            sign_in=SIGN_IN if self._sign_in else "",
        )
        response = HTMLResponse(text, page.status, headers=HEADERS)
        self._guard.seal(request, response, visitor)
        return response

    def _done(self, request: Request) -> str:
        """The message of a finished change, if this console sealed it, and not another site."""
        done = request.query_params.get("done", "")
        seal = request.query_params.get("seal", "")
        own = self._guard.sealed(self._guard.visitor(request), done)
        return done if compare_digest(seal.encode(), own.encode()) else ""

    def _moved(self, request: Request, where: str, done: str) -> Response:
        joint = "&" if urlsplit(where).query else "?"
        visitor = self._guard.visitor(request)
        query = urlencode({"done": done, "seal": self._guard.sealed(visitor, done)})
        target = f"{where}{joint}{query}"
        response = RedirectResponse(target, 303, headers=HEADERS)
        self._guard.seal(request, response, visitor)
        return response


def _question(
    path: str, change: Change, given: Given, preview: Sequence[Block], clusters: Sequence[str]
) -> Page:
    """The page that asks for confirmation of a change: where, too, for many consoles look alike."""
    shown = [(name, Cell(value)) for name, value in given.items() if value]
    no = Cell("No", change.back(given))
    form = Form("", path, _confirmed(given), "Yes, do it", danger=change.danger, back=no)
    words = defaultdict(str, given)
    asked = change.question.format_map(words).strip()
    where = f"In cluster {' and '.join(clusters)}: " if clusters else ""
    return Page(
        "Are you sure?",
        [Notice(f"{where}{asked}"), Fields("", shown), *preview, form],
    )


def _rest(path: str, change: Change, done: Unfinished) -> Page:
    """The page that continues a change of many parts."""
    form = Form(
        "",
        path,
        _confirmed(done.rest),
        "Go on",
        back=Cell("Stop here", change.back(done.rest)),
        by_itself=True,
    )
    return Page("In work", [Notice(done.progress, "good"), form])


def _confirmed(given: Given) -> list[Input]:
    kept = {**given, "confirmed": "1"}
    return [Input(name, value=value, kind="hidden") for name, value in kept.items()]


def _failure(error: AioRpcError) -> Page:
    status = STATUSES.get(error.code(), 500)
    return Page(
        "That did not work", [Notice(error.details() or str(error.code()), "bad")], status=status
    )


def _in_section(path: str, page: Page) -> Page:
    """A page in place of another one, with the way back to the menu's entry of that."""
    first = path.split("/")[1]
    # A client's page is beside the list.
    names = {f"/{first}", f"/{first}s"}
    for section, href, _ in SECTIONS:
        if href in names:
            return replace(page, section=section, trail=[Cell(section, href)])
    return page


def _not_done(error: NotDone) -> Page:
    return Page("That did not work", [Notice(str(error), "bad")], status=409)


def _refused(text: str, status: int) -> Page:
    return Page("Refused", [Notice(text, "bad")], status=status)
